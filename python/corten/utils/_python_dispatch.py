"""Modes and classes of tensors that see every call of an operator below autograd."""

from __future__ import annotations

import contextlib
import enum
import threading

from corten import _C
from corten._schemas import parse_schema
from corten.utils._aliasing import get_alias_info, return_and_correct_aliasing  # noqa: F401
from corten.utils._pytree import tree_leaves

__all__ = ["TorchDispatchMode"]


class _TorchDispatchModeKey(enum.IntEnum):
    """The modes of the library itself, in the order in which calls arrive at them, the last one first."""

    FAKE = 0
    PROXY = 1
    FUNCTIONAL = 2


class _Active(threading.local):
    def __init__(self):
        self.modes = []


_active = _Active()


def _push_mode(mode):
    """Puts a mode in force. Modes of the library itself come after all others."""
    modes, key = _active.modes, getattr(mode, "_mode_key", None)
    if key is None:
        modes.append(mode)
    else:
        place = sum(
            other is not None and other <= key for other in (getattr(one, "_mode_key", None) for one in modes)
        )
        modes.insert(place, mode)
    _C._set_dispatch_modes_enabled(True)


def _pop_mode(k=None):
    """Takes the mode out of force that calls arrive at first, or the mode of the library with a key."""
    modes = _active.modes
    if k is None:
        mode = modes.pop()
    else:
        place = max(i for i, one in enumerate(modes) if getattr(one, "_mode_key", None) == k)
        mode = modes.pop(place)
    _C._set_dispatch_modes_enabled(bool(modes))
    return mode


@contextlib.contextmanager
def _pop_mode_temporarily(k=None):
    """A block in which the mode that calls arrive at first is not in force."""
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        _push_mode(mode)


def _remove_mode(mode):
    modes = _active.modes
    for place in reversed(range(len(modes))):
        if modes[place] is mode:
            del modes[place]
            break
    _C._set_dispatch_modes_enabled(bool(modes))


class TorchDispatchMode:
    """A ``with`` block in which operators are handed to :meth:`__torch_dispatch__`.

    It is called below autograd, with overloads such as ``torch.ops.aten.mm.default``, and gives the
    result; what it calls itself goes to the modes around it, and to the kernels at last.
    """

    #: Whether composite operators arrive as they are.
    supports_higher_order_operators = False

    def __init__(self, _dispatch_key=None):
        if _dispatch_key is not None:
            self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """The result of ``func(*args, **kwargs)``."""
        raise NotImplementedError

    def __enter__(self):
        _push_mode(self)
        return self

    def __exit__(self, kind, value, traceback):
        _remove_mode(self)

    @classmethod
    def push(cls, *args, **kwargs):
        """A mode of the class."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        """Whether the mode belongs to the library itself."""
        return False

    @classmethod
    def ignore_compile_internals(cls):
        """Whether what a compiler calls does not arrive at the mode."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


#: What puts symbolic numbers in place of their samples in arguments, once there are such.
lift_arguments = None

#: What is called in place of a mode's method, by the name of the operator and the mode's class.
_rules = {}


def register_rule(name, mode_class, function):
    """Lets a function take calls of one operator over from modes, or from tensors, of a class.

    Raises:
        TypeError: The class is neither of modes nor of tensors.
    """
    if not (isinstance(mode_class, type) and issubclass(mode_class, (TorchDispatchMode, _C.Tensor))):
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
    """Hands a call to the innermost mode, with the ones around it in force, and to classes of tensors behind."""
    if lift_arguments is not None:
        args, kwargs = lift_arguments(name, args, kwargs)
    modes = _active.modes
    found = _subclasses(args, kwargs)
    if not modes:
        if found:
            return _ask(found, name, args, kwargs)
        # Views below the key have it as well.
        return _C._disabled_torch_dispatch_impl(_overload(name), (), args, kwargs)
    function, types = _overload(name), tuple(type(tensor) for tensor in found)
    args, kwargs = _without_defaults(name, function, args, kwargs)
    mode = modes.pop()
    _C._set_dispatch_modes_enabled(bool(modes))
    rule = _rules.get((name, type(mode)))
    try:
        if rule is not None:
            result = rule(mode, function, types, args, kwargs)
        else:
            result = mode.__torch_dispatch__(function, types, args, kwargs)
    finally:
        _push_mode(mode)
    # A mode that declines a call sees what the classes make of it.
    return result if result is not NotImplemented else _ask(found, name, args, kwargs, mode)


def _subclasses(args, kwargs):
    """The tensors among arguments whose classes have a ``__torch_dispatch__``, one of each class, derived ones
    before those that they are derived from."""
    found = []
    for leaf in tree_leaves((args, kwargs)):
        kind = type(leaf)
        if kind is _C.Tensor or not isinstance(leaf, _C.Tensor) \
                or kind.__torch_dispatch__ is _C._disabled_torch_dispatch_impl:
            continue
        if all(kind is not type(other) for other in found):
            place = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
            found.insert(place, leaf)
    return found


def _ask(tensors, name, args, kwargs, mode=None):
    """What the first class makes of a call that does not decline it."""
    function, types = _overload(name), tuple(type(tensor) for tensor in tensors)
    args, kwargs = _without_defaults(name, function, args, kwargs)
    for kind in types:
        rule = _rules.get((name, kind))
        if rule is not None:
            result = rule(kind, function, types, args, kwargs)
        else:
            result = kind.__torch_dispatch__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    asked = [] if mode is None else [f"mode object {mode}"]
    asked += [f"tensor subclass {kind}" for kind in types]
    raise TypeError(
        f"Multiple dispatch failed for '{function}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
        + "\n".join(f"  - {one}" for one in asked) + "\n\nFor more information, try re-running with TORCH_LOGS=not_implemented"
    )


def _without_defaults(name, function, args, kwargs, _known={}):  # noqa: B006
    """Arguments without the last ones that have their default values."""
    if name not in _known:
        _known[name] = _defaults(_C._op_schema(name))
    positional, named = _known[name]
    count = len(args)
    while count and _is_default(args[count - 1], positional[count - 1]):
        count -= 1
    kept = {key: value for key, value in kwargs.items() if not _is_default(value, named.get(key, _REQUIRED))}
    return args[:count], kept


_REQUIRED = object()


def _defaults(schema):
    """The default values of a schema's arguments: of positional ones in order, of the others by name."""
    positional, named = [], {}
    for declared in parse_schema(schema).arguments:
        default = declared.default_value if declared.has_default_value() else _REQUIRED
        if declared.kwarg_only:
            named[declared.name] = default
        else:
            positional.append(default)
    return positional, named


def _is_default(value, default):
    if default is _REQUIRED or isinstance(value, _C.Tensor):
        return False
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return len(value) == len(default) and all(
            type(one) is type(other) and one == other for one, other in zip(value, default)
        )
    return value is default or type(value) is type(default) and value == default


@contextlib.contextmanager
def _disable_current_modes():
    """A block in which no mode is in force; gives those that were, the innermost first."""
    before, _active.modes = _active.modes, []
    _C._set_dispatch_modes_enabled(False)
    try:
        yield before[::-1]
    finally:
        _active.modes = before
        _C._set_dispatch_modes_enabled(bool(before))


def _get_current_dispatch_mode():
    """The innermost mode, or None."""
    return _active.modes[-1] if _active.modes else None


def _get_current_dispatch_mode_stack():
    """All modes, the innermost last."""
    return list(_active.modes)


def _len_torch_dispatch_stack():
    """How many modes are in force."""
    return len(_active.modes)


def _get_dispatch_stack_at(index):
    """The mode at a place, the innermost last."""
    return _active.modes[index]


_push_on_torch_dispatch_stack, _pop_torch_dispatch_stack = _push_mode, _pop_mode


def _detect_infra_mode(key):
    """The mode of the library with a key, or None."""
    return next((mode for mode in reversed(_active.modes) if getattr(mode, "_mode_key", None) == key), None)


_get_dispatch_mode = _detect_infra_mode


def _set_dispatch_mode(mode):
    """Puts a mode of the library in force.

    Raises:
        RuntimeError: There is one already.
    """
    if _detect_infra_mode(mode._mode_key) is not None:
        raise RuntimeError(f"trying to set the current {mode._mode_key}, but one already exists")
    _push_mode(mode)


def _unset_infra_mode(key):
    """Takes the mode of the library with a key out of force, and gives it; None if there is none."""
    return None if _detect_infra_mode(key) is None else _pop_mode(key)


_unset_dispatch_mode = _unset_infra_mode


@contextlib.contextmanager
def _disable_infra_mode(key):
    """A block in which the mode of the library with a key is not in force."""
    mode = _unset_infra_mode(key)
    try:
        yield mode
    finally:
        if mode is not None:
            _push_mode(mode)


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A tensor of the same class whose inner tensors are ``callback(name, tensor)``."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if tuple(made.shape) != tuple(outer_size) or tuple(made.stride()) != tuple(outer_stride):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape {tuple(outer_size)} and "
            f"strides {tuple(outer_stride)}, but got {tuple(made.shape)} and {tuple(made.stride())}"
        )
    return made


def hidden_alias(tensor, function):
    """What ``function`` makes of a tensor where that is no call of the program: modes do not see it, and those that
    keep books of tensors enter the result as the tensor."""
    if not _active.modes:
        return function(tensor)
    with _disable_current_modes() as modes:
        made = function(tensor)
        for mode in modes:
            note = getattr(mode, "_note_alias", None)
            if note is not None:
                note(tensor, made)
    return made


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


def is_in_any_mode_without_ignore_compile_internals():
    """Whether a mode is in force that also sees what a compiler calls."""
    return any(not mode.ignore_compile_internals() for mode in _active.modes)


def autograd_would_have_decomposed(func, flat_args):
    """Whether a call of a composite operator would have been made of others above modes."""
    tensors = [one for one in flat_args if isinstance(one, _C.Tensor)]
    return bool(tensors) and any(one.requires_grad for one in tensors)


_C._set_dispatch_handler(_handle)
