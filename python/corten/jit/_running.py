"""What compiled code of TorchScript runs on: attributes and methods by what classes declare, calls of
functions, and errors. Nothing here follows a name that was not declared."""

from __future__ import annotations

import contextlib
import types

import corten
from corten.jit import _operators

#: What compiled functions have in their globals, to be told from other functions.
MARK = object()


class ProgramError(Exception):
    """An exception that a program raised: the name of its class, and its message."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class ScriptObject:
    """An object of a class of TorchScript that is no module."""

    def __init__(self, declared):
        object.__setattr__(self, "_script_type", declared)

    def __getattr__(self, name):
        method = object.__getattribute__(self, "_script_type").methods.get(name)
        if method is None:
            raise AttributeError(name)
        return entry(method, self)

    def _type(self):
        return self._script_type

    def __deepcopy__(self, memo):
        import copy

        made = memo[id(self)] = ScriptObject(self._script_type)
        for name in self._script_type.attributes:
            if name in vars(self):
                vars(made)[name] = copy.deepcopy(vars(self)[name], memo)
        return made

    def __repr__(self):
        return f"<torch.ScriptObject of {self._script_type.name}>"


#: Attributes of tensors that code may read, and how; dtypes and layouts are numbers.
_OF_TENSORS = {
    "shape": lambda x: list(x.shape), "dtype": lambda x: _operators.number_of(x.dtype), "device": lambda x: x.device,
    "layout": lambda x: _operators.number_of(x.layout), "ndim": lambda x: x.dim(),
    **{name: (lambda name: lambda x: getattr(x, name))(name) for name in (
        "T", "H", "mT", "mH", "real", "imag", "data", "grad", "requires_grad", "is_cuda", "is_cpu", "is_sparse",
        "is_quantized", "is_leaf", "is_mkldnn", "is_meta", "is_nested", "is_mps", "is_xpu", "itemsize", "nbytes",
        "is_sparse_csr", "is_vulkan", "is_ipu", "is_xla")},
}


def get(value, name, *default):
    """An attribute that the value's class declares."""
    declared = getattr(value, "_script_type", None) if isinstance(value, (ScriptObject, corten.nn.Module)) else None
    if declared is not None:
        if name in declared.attributes:
            return getattr(value, name)
        if name in declared.constants:
            return declared.constants[name]
        if name in declared.properties:
            return declared.properties[name][0](value)
    elif isinstance(value, corten.Tensor):
        read = _OF_TENSORS.get(name)
        if read is not None:
            return read(value)
    elif isinstance(value, tuple) and name in getattr(value, "_fields", ()):
        return getattr(value, name)
    elif isinstance(value, corten.device) and name in ("type", "index"):
        return getattr(value, name)
    elif hasattr(type(value), "_script_enum") and name in ("name", "value"):
        return getattr(value, name)
    if default:
        return default[0]
    raise RuntimeError(f"Tried to access nonexistent attribute or method '{name}' of type '{kind_of(value)}'.")


def put(value, name, item):
    """Sets an attribute that the value's class declares."""
    declared = getattr(value, "_script_type", None)
    if declared is not None and name in declared.attributes:
        if isinstance(value, corten.nn.Module):
            setattr(value, name, item)
        else:
            vars(value)[name] = item
    elif declared is not None and name in declared.properties and declared.properties[name][1] is not None:
        declared.properties[name][1](value, item)
    elif isinstance(value, corten.Tensor) and name in ("requires_grad", "data"):
        setattr(value, name, item)
    else:
        raise RuntimeError(f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?")


def has(value, name):
    """Whether a value has an attribute or a method."""
    declared = getattr(value, "_script_type", None)
    if declared is None:
        return name in getattr(value, "_fields", ())
    return name in declared.attributes or name in declared.constants or name in declared.methods


def kind_of(value):
    """The name of a value's type for messages."""
    declared = getattr(value, "_script_type", None)
    return declared.name if declared is not None else type(value).__name__


def method(value, name, *args, **kwargs):
    """A call of a method: of a class of the archive, or of an operator that takes the value first."""
    declared = getattr(value, "_script_type", None)
    if declared is not None:
        found = declared.methods.get(name)
        if found is not None:
            return found(value, *args, **kwargs)
        if name == "__init__" and not args:
            return None
    elif isinstance(value, (corten.Tensor, str, list, dict, corten.futures.Future, int, float, complex)):
        if not name.startswith("__"):
            return _operators.operator("aten::" + name)(value, *args, **kwargs)
    elif isinstance(value, corten.Generator) and name in ("manual_seed", "initial_seed", "seed"):
        return getattr(value, name)(*args)
    elif isinstance(value, tuple) and name in ("index", "count"):
        return _operators.operator("aten::" + name)(list(value), *args)
    raise RuntimeError(f"Tried to access nonexistent attribute or method '{name}' of type '{kind_of(value)}'.")


def call(function, *args, **kwargs):
    """A call of a value: a compiled function, a class, or an object with ``__call__`` or ``forward``."""
    if isinstance(function, types.FunctionType) and function.__globals__.get("__h_mark") is MARK:
        return function(*args, **kwargs)
    declared = getattr(function, "_script_type", None)
    if declared is not None:
        for name in ("__call__", "forward"):
            if name in declared.methods:
                return declared.methods[name](function, *args, **kwargs)
    raise RuntimeError(f"a value of {kind_of(function)} cannot be called")


@contextlib.contextmanager
def entered(value):
    """What a ``with`` block of a class of the archive does."""
    made = method(value, "__enter__")
    try:
        yield made
    finally:
        method(value, "__exit__", None, None, None)


def fork(function, *args, **kwargs):
    """The future of a call, which is made at once."""
    from corten.jit import fork as begin

    return begin(call, function, *args, **kwargs)


def length(value):
    """``len``, also of objects with ``__len__``."""
    declared = getattr(value, "_script_type", None)
    return _operators.operator("aten::len")(value) if declared is None else method(value, "__len__")


def item(value, key):
    """An element, also of objects with ``__getitem__``."""
    if getattr(value, "_script_type", None) is not None:
        return method(value, "__getitem__", key)
    if isinstance(value, str) and not value.isascii():
        if isinstance(key, slice):
            return _operators.operator("aten::slice")(value, key.start, key.stop, key.step)
        return _operators.operator("aten::__getitem__")(value, key)
    if isinstance(value, (list, dict, tuple, str, corten.Tensor)):
        try:
            return value[key]
        except IndexError as error:
            raise error if isinstance(value, corten.Tensor) else IndexError("list index out of range") from None
    raise RuntimeError(f"'{kind_of(value)}' object is not subscriptable")


def set_item(value, key, item):
    """Sets an element."""
    if getattr(value, "_script_type", None) is not None:
        method(value, "__setitem__", key, item)
    elif isinstance(value, (list, dict, corten.Tensor)):
        value[key] = item
    else:
        raise RuntimeError(f"'{kind_of(value)}' object does not support item assignment")


def delete_item(value, key):
    """Removes an element."""
    if not isinstance(value, (list, dict)):
        raise RuntimeError(f"'{kind_of(value)}' object does not support item deletion")
    del value[key]


def binary(name, magic, plain):
    """An operation that classes may define; ``plain`` is for numbers and the like."""

    def function(a, b):
        if getattr(a, "_script_type", None) is not None:
            return method(a, magic, b)
        if isinstance(a, corten.Tensor) or isinstance(b, corten.Tensor):
            return plain(a, b)
        return _operators.operator("aten::" + name)(a, b)

    return function


def is_of(value, *kinds):
    """``isinstance`` with types of TorchScript."""
    return any(kind.accepts(value) for kind in kinds)


def checked(what, condition, message=None):
    """``assert``."""
    if not condition:
        raise ProgramError("AssertionError", "" if message is None else message)


def entry(function, *bound):
    """A compiled function, or a method of an object, as Python calls it: arguments are checked and
    converted, and errors are those of TorchScript."""
    declared = function._script_signature

    def run(*args, **kwargs):
        args = (*bound, *args)
        args, kwargs = declared.convert(args, kwargs)
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise
        except Exception as error:
            raised = _as_error(error)
            if raised is None:
                raise
            raise raised from (None if isinstance(error, ProgramError) else error)

    run.__name__ = function.__name__
    run.__wrapped_script__ = function
    run.schema = declared
    run.code = declared.code
    return run


def _as_error(error):
    """What a compiled program raises for an error inside, or None for the error itself."""
    from corten.jit import Error

    if isinstance(error, Error):
        return None
    frames, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if trace.tb_frame.f_globals.get("__h_mark") is MARK:
            frames.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n')
        trace = trace.tb_next
    if not frames:
        return None
    if isinstance(error, ProgramError):
        kind, last = Error, f"{error.kind}: {error}"
    else:
        kind, last = RuntimeError, f"RuntimeError: {error}"
        if isinstance(error, NotImplementedError):
            return None
    return kind(
        "The following operation failed in the TorchScript interpreter.\n"
        "Traceback of TorchScript, serialized code (most recent call last):\n" + "".join(frames) + last + "\n"
    )
