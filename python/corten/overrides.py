"""Classes and modes that take operators over by ``__torch_function__``."""

from __future__ import annotations

import contextlib
import functools

from corten import _C
from corten._C import (  # noqa: F401
    Tensor, has_torch_function, has_torch_function_unary, has_torch_function_variadic,
)

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch",
    "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "get_testing_overrides", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_torch_function", "resolve_name",
    "wrap_torch_function",
]


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Calls the overrides of ``public_api`` that the relevant arguments bring along."""
    overloaded = _C._overloaded_args(list(relevant_args))
    return _C._dispatch_torch_function(public_api, overloaded, args, kwargs)


def redispatch_torch_function(func, types, args, kwargs):
    """Calls ``func`` again, outside of the override that is running."""
    return func(*args, **(kwargs or {}))


def wrap_torch_function(dispatcher):
    """Makes a function that can be overridden; ``dispatcher`` names its relevant arguments."""

    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp):
    """Whether an object is a tensor or takes operators over like one."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


@functools.cache
def get_default_nowrap_functions():
    """Functions whose results keep their class."""
    return {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}


@functools.cache
def get_ignored_functions():
    """Functions that cannot be overridden: they take no tensors, or make some."""
    from corten._overridable import ignored

    return ignored()


def get_overridable_functions():
    """The functions that can be overridden, by namespace."""
    from corten._overridable import overridable

    return overridable()[0]


@functools.cache
def get_testing_overrides():
    """A function for each that can be overridden, with its parameters: it returns −1."""
    from corten._overridable import dummy

    return {
        function: dummy(function)
        for functions in get_overridable_functions().values() for function in functions
    }


def resolve_name(f):
    """The public name of an overridable function."""
    from corten._overridable import overridable

    return overridable()[1].get(f)


def is_tensor_method_or_property(func):
    """Whether an override was called for a method or an attribute of ``Tensor``."""
    name = getattr(func, "__name__", None)
    return name == "__get__" or (name is not None and getattr(Tensor, name, None) is func)


class TorchFunctionMode:
    """A context in which every call of an operator passes ``__torch_function__`` first."""

    def __init__(self):
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_on_torch_function_stack(self)
        return self

    def __exit__(self, kind, value, traceback):
        _C._pop_torch_function_stack()

    @classmethod
    def push(cls, *args, **kwargs):
        """Deprecated: an instance."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    count = _C._len_torch_function_stack()
    return _C._get_function_stack_at(count - 1) if count else None


def _get_current_function_mode_stack():
    return [_C._get_function_stack_at(place) for place in range(_C._len_torch_function_stack())]


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """Operators called inside of an override are dispatched again."""
    before = _C._torch_function_state()
    _C._set_torch_function_state(0)
    try:
        yield
    finally:
        _C._set_torch_function_state(before)
