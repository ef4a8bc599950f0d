"""``torch._check`` and its like: conditions that raise, with a message made when it is needed."""

from __future__ import annotations

from corten._C import Tensor


def _text(message):
    if message is None:
        return "Expected cond to be True, but got False."
    return str(message() if callable(message) else message)


def _check_with(error_type, cond, message):
    """Raises ``error_type`` with a text, or what a function gives for it, where ``cond`` is false.

    Raises:
        TypeError: ``cond`` is no bool.
    """
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use "
            "torch._check_tensor_all() to assert that all elements are true."
        )
    if not isinstance(cond, bool) and hasattr(cond, "node"):
        if not cond.node.expect_true("", 0):
            raise error_type(_text(message))
        return
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(_text(message))


def _check(cond, message=None):
    """Raises RuntimeError where ``cond`` is false."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """Raises IndexError where ``cond`` is false."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """Raises ValueError where ``cond`` is false."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """Raises TypeError where ``cond`` is false."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """Raises NotImplementedError where ``cond`` is false."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """Raises RuntimeError where ``i`` is negative or above ``max``."""
    if hasattr(i, "node"):
        from corten.fx.experimental.symbolic_shapes import _constrain_range_for_size

        _check(i >= 0, message)
        _constrain_range_for_size(i)
        if max is not None:
            _check(i <= max, message)
        return
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(error_type, cond, message=None):
    """Raises ``error_type`` where an element of a tensor of bools is false.

    Raises:
        TypeError: ``cond`` is no tensor of bools.
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, cond.all().item(), message)


def _check_tensor_all(cond, message=None):
    """Raises RuntimeError where an element of a tensor of bools is false."""
    _check_tensor_all_with(RuntimeError, cond, message)
