"""Functions that PyTorch removed: a call says which function replaces them."""

from __future__ import annotations

_SINCE = "This function was deprecated since version 1.9 and is now removed. "
_WORDS = {
    "cholesky": "`torch.cholesky` is deprecated in favor of `torch.linalg.cholesky`.",
    "eig": "`torch.eig` is deprecated in favor of `torch.linalg.eig`, which returns complex tensors.",
    "lstsq": "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, whose arguments are "
    "reversed.",
    "matrix_rank": "Please use the `torch.linalg.matrix_rank` function instead, whose parameter "
    "'symmetric' is 'hermitian'.",
    "qr": "`torch.qr` is deprecated in favor of `torch.linalg.qr`, whose `some` is a string parameter "
    "`mode`.",
    "solve": "`torch.solve` is deprecated in favor of `torch.linalg.solve`, whose arguments are "
    "reversed.",
    "symeig": "`torch.symeig` is deprecated in favor of `torch.linalg.eigh`, which uses the lower "
    "triangular portion.",
}
__all__ = sorted(_WORDS)


def _removed(name):
    def function(*args, **kwargs):
        raise RuntimeError(_SINCE + _WORDS[name])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed. {_WORDS[name]}"
    return function


globals().update((name, _removed(name)) for name in __all__)
