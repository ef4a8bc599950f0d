"""Switches of the whole process."""

from __future__ import annotations

from corten import _C

_state = {"warn_always": False, "precision": "highest", "warn_only": False}


def set_warn_always(b, /):
    """Repeats warnings that are otherwise given once."""
    _state["warn_always"] = bool(b)
    _C._set_warn_always(bool(b))


def is_warn_always_enabled():
    """Whether warnings are repeated."""
    return _state["warn_always"]


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for the same results in every run.

    The kernels of the CPU give them anyway; new memory is filled, unless
    ``utils.deterministic.fill_uninitialized_memory`` says otherwise.
    """
    for name, value, place in (("mode", mode, " (position 1)"), ("warn_only", warn_only, "")):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}'{place} must be bool, not {type(value).__name__}"
            )
    _C._set_deterministic_algorithms(mode)
    _state["warn_only"] = warn_only
    if "_cuda_init" in vars(_C):
        _C._cuda_onlyWarnOfDeterminism(warn_only)


def set_negative_steps(enabled):
    """Lets slices have negative steps: ``x[::-1]`` is a view then, as in NumPy.

    Without it they raise ``ValueError``, as in PyTorch, on which programs rely. The switch is of the whole process
    and only about slices in Python: views with negative strides work either way.
    """
    _C._set_negative_steps(enabled)


def are_negative_steps_enabled():
    """Whether slices may have negative steps."""
    return _C._get_negative_steps()


def are_deterministic_algorithms_enabled():
    """Whether the same results are asked for in every run."""
    return _C._get_deterministic_algorithms()


def is_deterministic_algorithms_warn_only_enabled():
    """Whether an operator without such an algorithm only warns."""
    return _state["warn_only"]


def set_deterministic_debug_mode(debug_mode):
    """``default``, ``warn`` or ``error``, or 0, 1 or 2."""
    modes = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in modes:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = modes[debug_mode]
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode():
    """0, 1 or 2."""
    if not are_deterministic_algorithms_enabled():
        return 0
    return 1 if _state["warn_only"] else 2


def set_float32_matmul_precision(precision):
    """``highest``, ``high`` or ``medium``: how exact products of float32 matrices must be."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not a valid precision")
    from corten.backends._cublas import set_precision

    _state["precision"] = precision
    set_precision("matmul", "ieee" if precision == "highest" else "tf32")


def get_float32_matmul_precision():
    """What :func:`set_float32_matmul_precision` set."""
    return _state["precision"]


def set_flush_denormal(mode, /):
    """Tiny numbers stay as they are here; returns whether the wish was granted."""
    return not mode


def compiled_with_cxx11_abi():
    """There is no C++ in this library."""
    return True


def set_default_tensor_type(t, /):
    """Deprecated: sets the default dtype by the class of tensors."""
    if isinstance(t, str):
        name = t.rpartition(".")[2]
        import corten

        t = getattr(corten.cuda if ".cuda." in t else corten, name)
    dtype = getattr(t, "dtype", None)
    if dtype is None:
        raise TypeError(f"invalid type object: {t!r}")
    on_cuda = getattr(t, "is_cuda", False)
    from corten.utils import _device

    if on_cuda or _device.get_default_device().type == "cuda":
        _device.set_default_device("cuda" if on_cuda else None)
    _C.set_default_dtype(dtype)
