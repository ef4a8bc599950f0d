"""Block-quantised tensors: weights in the formats of GGML, multiplied without dequantising them.

Such a tensor has the dtype ``float32`` and the layout ``torch._mkldnn``; ``tensor.block_format`` names its format,
which for other tensors is ``None``. ``linear``, ``embedding``, ``x @ w.T``, ``index_select`` and views of rows run on
the blocks; every other operator runs on the dequantised values, and what it returns is dense.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import corten

from . import _C

__all__ = ["block_bytes", "block_tensor", "quantize_blocks"]

#: Elements and bytes of a block, by the name of the format.
FORMATS = {name: (elements, nbytes) for name, elements, nbytes in _C._block_formats()}
_BY_LETTERS = {name.replace("_", "").lower(): name for name in FORMATS}
#: Where rows are no whole blocks of 256, the format of 32 that comes next: the choices of GGML.
_OF_32 = {"Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL", "IQ4_XS": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
#: Fewer elements are not worth a second thread.
_GRAIN = 1 << 17


def format_name(name):
    """The name of a format as files spell it: ``Q4_K`` for ``q4_k`` and ``q4k``.

    Raises:
        ValueError: There is no such format.
    """
    found = _BY_LETTERS.get(name.replace("_", "").lower()) if isinstance(name, str) else None
    if found is None:
        known = ", ".join(sorted(each.lower() for each in FORMATS))
        raise ValueError(f"there is no block format {name!r}; the formats are {known}")
    return found


def fitting_format(name, columns):
    """The format, or the next one for rows of so many elements; None where no block fits."""
    for each in (name, _OF_32.get(name)):
        if each is not None and columns and columns % FORMATS[each][0] == 0:
            return each
    return None


def quantize_blocks(tensor, format):
    """The block-quantised tensor nearest to a tensor of floating-point numbers.

    Args:
        tensor: Numbers whose last dimension is whole blocks of the format: 32 elements, or 256 for ``q2_k`` …
            ``q6_k`` and ``iq4_xs``.
        format: The name of a format of GGML, such as ``"q8_0"`` or ``"q4_k"``, in capitals or not.

    Raises:
        ValueError: There is no such format, rows are no whole blocks, or the tensor is not of floats.
    """
    name = format_name(format)
    threads = min(corten.get_num_threads(), tensor.numel() // _GRAIN)
    if threads < 2 or tensor.dim() < 2 or tensor.layout != corten.strided or tensor.shape[-1] % FORMATS[name][0]:
        return _C._quantize_blocks(tensor, name)
    rows = tensor.detach().reshape(-1, tensor.shape[-1])
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(lambda part: _C._quantize_blocks(part, name), rows.chunk(4 * threads)))
    stored = corten.cat([_C._blocks_of(part)[1] for part in parts])
    return _C._block_tensor(name, stored, tuple(tensor.shape))


def block_tensor(data, format, size):
    """A block-quantised tensor over bytes, which it shares.

    Args:
        data: A contiguous tensor of ``uint8``: the blocks of the rows one after another.
        format: The name of the format.
        size: The shape in elements.
    """
    return _C._block_tensor(format_name(format), data, tuple(size))


def block_bytes(tensor):
    """The bytes of the blocks of a tensor, of shape (rows, bytes of a row); they share its memory.

    Raises:
        ValueError: The tensor is not block-quantised.
    """
    found = _C._blocks_of(tensor)
    if found is None or found[3]:
        raise ValueError("block_bytes expects a block-quantised tensor, not its transpose")
    return found[1]


def error_of(tensor, original):
    """How far a tensor is from another one: the largest difference, the sum of squared differences, and the sum of
    the squares of the other one."""
    values = tensor.to_dense().double().flatten()
    exact = original.detach().to_dense().double().flatten()
    difference = values - exact
    largest = difference.abs().max().item() if difference.numel() else 0.0
    return largest, difference.dot(difference).item(), exact.dot(exact).item()


def relative(squared_error, squares):
    """The root of the mean squared error over that of the squares; 0 where there is no error."""
    if not squared_error:
        return 0.0
    return (squared_error / squares) ** 0.5 if squares else float("inf")
