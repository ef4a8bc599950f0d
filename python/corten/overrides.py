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
    """Functions that cannot be overridden: they take no tensors."""
    import corten

    names = (
        "typename", "is_tensor", "is_storage", "set_default_dtype", "get_rng_state",
        "set_rng_state", "manual_seed", "seed", "initial_seed", "save", "load",
        "set_printoptions", "tensor", "as_tensor", "asarray", "arange", "empty", "zeros", "ones",
        "full", "eye", "linspace", "logspace", "rand", "randn", "randint", "randperm",
        "from_numpy", "frombuffer", "from_dlpack", "promote_types", "can_cast", "no_grad",
        "enable_grad", "inference_mode", "is_grad_enabled", "set_grad_enabled",
    )
    found = {getattr(corten, name) for name in names if hasattr(corten, name)}
    return found | {Tensor.__new__, Tensor.__init__, Tensor.__subclasshook__}


@functools.cache
def get_overridable_functions():
    """The functions that can be overridden, by namespace."""
    import corten
    from corten.nn import functional

    ignored = get_ignored_functions()
    spaces = {corten: _C._functions, functional: functional, corten.linalg: _C._linalg, Tensor: Tensor}
    found = {}
    for space, source in spaces.items():
        functions = []
        for name, value in list(vars(source).items()):
            if name.startswith("_") or not callable(value) or isinstance(value, type):
                continue
            try:
                if value not in ignored:
                    functions.append(value)
            except TypeError:
                continue
        found[space] = functions
    return found


@functools.cache
def get_testing_overrides():
    """A dummy override for each function."""
    overrides = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            overrides[function] = lambda *args, **kwargs: -1
    return overrides


@functools.cache
def _names():
    import corten

    found = {}
    for space, functions in get_overridable_functions().items():
        prefix = "torch.Tensor" if space is Tensor else space.__name__.replace("corten", "torch", 1)
        for function in functions:
            found.setdefault(function, f"{prefix}.{getattr(function, '__name__', function)}")
    del corten
    return found


def resolve_name(f):
    """The public name of an overridable function."""
    return _names().get(f)


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
