"""Modes that see every call of an operator below autograd."""

from __future__ import annotations

import contextlib
import threading

from corten import _C

__all__ = ["TorchDispatchMode"]


class _Active(threading.local):
    def __init__(self):
        self.modes = []


_active = _Active()


class TorchDispatchMode:
    """A ``with`` block in which operators are handed to :meth:`__torch_dispatch__`.

    It is called below autograd, with overloads such as ``torch.ops.aten.mm.default``, and gives the
    result; what it calls itself goes to the modes around it, and to the kernels at last.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """The result of ``func(*args, **kwargs)``."""
        raise NotImplementedError

    def __enter__(self):
        if not _active.modes:
            _C._set_dispatch_handler(_handle)
        _active.modes.append(self)
        _C._set_dispatch_modes_enabled(True)
        return self

    def __exit__(self, kind, value, traceback):
        _active.modes.remove(self)
        _C._set_dispatch_modes_enabled(bool(_active.modes))

    @classmethod
    def is_infra_mode(cls):
        """Whether the mode belongs to the library itself."""
        return False


#: What is called in place of a mode's method, by the name of the operator and the mode's class.
_rules = {}


def register_rule(name, mode_class, function):
    """Lets a function take calls of one operator over from modes of a class.

    Raises:
        TypeError: The class is no mode.
    """
    if not (isinstance(mode_class, type) and issubclass(mode_class, TorchDispatchMode)):
        raise TypeError(f"expected a class of dispatch modes, got {mode_class}")
    _rules[name, mode_class] = function


def _overload(name, _known={}):  # noqa: B006
    found = _known.get(name)
    if found is None:
        from corten import ops

        space, _, rest = name.partition("::")
        operator, _, overload = rest.partition(".")
        found = getattr(getattr(getattr(ops, space), operator), overload or "default")
        _known[name] = found
    return found


def _handle(name, *args, **kwargs):
    """Hands a call to the innermost mode, with the ones around it in force."""
    modes = _active.modes
    if not modes or name == "aten::scalar_tensor":
        # How a number becomes an operand is no matter of the program.
        with _disable_current_modes():
            return _overload(name)(*args, **kwargs)
    mode = modes.pop()
    _C._set_dispatch_modes_enabled(bool(modes))
    rule = _rules.get((name, type(mode)))
    try:
        if rule is not None:
            return rule(mode, _overload(name), (), args, kwargs)
        return mode.__torch_dispatch__(_overload(name), (), args, kwargs)
    finally:
        modes.append(mode)
        _C._set_dispatch_modes_enabled(True)


@contextlib.contextmanager
def _disable_current_modes():
    """A block in which no mode is in force."""
    before, _active.modes = _active.modes, []
    _C._set_dispatch_modes_enabled(False)
    try:
        yield before
    finally:
        _active.modes = before
        _C._set_dispatch_modes_enabled(bool(before))


def _get_current_dispatch_mode():
    """The innermost mode, or None."""
    return _active.modes[-1] if _active.modes else None


def _get_current_dispatch_mode_stack():
    """All modes, the innermost last."""
    return list(_active.modes)


def is_traceable_wrapper_subclass(t):
    """Whether a tensor is of a class that says which tensors it is made of."""
    return isinstance(t, _C.Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t):
    """Whether a class of tensors says which tensors its instances are made of."""
    return (
        issubclass(t, _C.Tensor) and t is not _C.Tensor
        and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    )


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Whether a mode is in force."""
    modes = _active.modes
    return bool(modes) if include_infra_modes else not all(mode.is_infra_mode() for mode in modes)


def any_torch_dispatch_mode_on_stack(*, include_infra_modes=False):
    """Whether a mode is in force that does not belong to the library."""
    return is_in_torch_dispatch_mode(include_infra_modes)
