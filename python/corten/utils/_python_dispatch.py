"""Modes that see every call of an operator below autograd."""

from __future__ import annotations

import ast
import contextlib
import re
import threading

from corten import _C
from corten.utils._pytree import tree_leaves

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


#: What puts symbolic numbers in place of their samples in arguments, once there are such.
lift_arguments = None

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
    if lift_arguments is not None:
        args, kwargs = lift_arguments(args, kwargs)
    if len(args) == 2 and name.endswith(".Tensor") and isinstance(args[1], _NUMBERS):
        name = _with_scalar(name)
    modes = _active.modes
    if not modes and (found := _subclasses(args, kwargs)):
        return _ask(found, name, args, kwargs)
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


_NUMBERS = (int, float, complex)


def _with_scalar(name, _known={}):  # noqa: B006
    """The overload for a scalar, where that for two tensors takes no number."""
    found = _known.get(name)
    if found is None:
        packet = name.removesuffix(".Tensor")
        takes_scalar = "Scalar" in _C._op_overloads(packet) and packet not in _TAKE_NUMBERS
        found = _known[name] = packet + ".Scalar" if takes_scalar else name
    return found


#: Operators whose overload for tensors takes numbers.
_TAKE_NUMBERS = frozenset(
    "aten::" + name for name in (
        "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "rsub", "true_divide", "true_divide_", "multiply",
        "multiply_", "subtract", "subtract_", "divide", "divide_", "floor_divide", "floor_divide_",
    )
)


def _subclasses(args, kwargs):
    """The tensors among arguments whose classes have a ``__torch_dispatch__``, one of each class, derived ones
    before those that they are derived from."""
    found = []
    for leaf in tree_leaves((args, kwargs)):
        kind = type(leaf)
        if not isinstance(leaf, _C.Tensor) or kind.__torch_dispatch__ is _C._disabled_torch_dispatch_impl:
            continue
        if all(kind is not type(other) for other in found):
            place = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
            found.insert(place, leaf)
    return found


def _ask(tensors, name, args, kwargs):
    """What the first class makes of a call that does not decline it."""
    function, types = _overload(name), tuple(type(tensor) for tensor in tensors)
    args, kwargs = _without_defaults(name, function, args, kwargs)
    for kind in types:
        result = kind.__torch_dispatch__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"Multiple dispatch failed for '{function}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
        + "\n".join(f"  - tensor subclass {kind}" for kind in types)
    )


def _without_defaults(name, function, args, kwargs, _known={}):  # noqa: B006
    """Arguments without the last ones that have their default values."""
    if name not in _known:
        _known[name] = _defaults(function._schema)
    positional, named = _known[name]
    count = len(args)
    while count and _is_default(args[count - 1], positional[count - 1]):
        count -= 1
    kept = {key: value for key, value in kwargs.items() if not _is_default(value, named.get(key, _REQUIRED))}
    return args[:count], kept


_REQUIRED = object()


def _defaults(schema):
    """The default values of a schema's arguments: of positional ones in order, of the others by name."""
    positional, named, by_name = [], {}, False
    for declared in _parts(schema)[0]:
        name, _, value = declared.rpartition(" ")[2].partition("=")
        if name == "*":
            by_name = True
            continue
        try:
            default = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            default = _REQUIRED
        if by_name:
            named[name] = default
        else:
            positional.append(default)
    return positional, named


def _parts(schema):
    """The declarations of a schema's arguments and results."""
    arguments, _, results = schema.partition("(")[2].rpartition(" -> ")
    if results.startswith("("):
        results = results[1:-1]
    return tuple(re.split(r", (?![^\[(]*[\])])", text) for text in (arguments[:-1], results))


def _is_default(value, default):
    if default is _REQUIRED or isinstance(value, _C.Tensor):
        return False
    return value is default or type(value) is type(default) and value == default


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


def return_and_correct_aliasing(func, args, kwargs, out):
    """``out``, or the arguments that an operator writes to and returns.

    Subclasses without elements have no storage, so that there is none to share.
    """
    arguments, results = _parts(func._schema)
    if not any("!" in result for result in results):
        return out
    arguments = [one for one in arguments if one != "*"]
    names = [one.rpartition(" ")[2].partition("=")[0] for one in arguments]
    written = {_alias(one): name for one, name in zip(arguments, names) if "!" in one}
    found = []
    for result in results:
        name = written[_alias(result)]
        found.append(kwargs[name] if name in kwargs else args[names.index(name)])
    return found[0] if len(found) == 1 else type(out)(found)


def _alias(declared):
    return declared[declared.index("(") + 1:declared.index("!")]


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


_C._set_dispatch_handler(_handle)
