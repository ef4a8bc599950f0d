"""Decorators of classes of pipes and of their functions."""

from __future__ import annotations

import functools
import inspect
import types
import typing

from .datapipe import IterDataPipe, MapDataPipe

__all__ = [
    "argument_validation", "functional_datapipe", "guaranteed_datapipes_determinism",
    "non_deterministic", "runtime_validation", "runtime_validation_disabled",
]


class functional_datapipe:
    """Gives pipes a method of this name, which puts a pipe of the decorated class behind them."""

    def __init__(self, name, enable_df_api_tracing=False):
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls):
        made = getattr(getattr(cls, "__self__", cls), "cls", None) or cls
        if issubclass(made, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        elif issubclass(made, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


class _Switch:
    """Changes a setting when it is made, and back when its block ends."""

    _setting, _value = "", True

    def __init__(self):
        self.prev = _settings[self._setting]
        _settings[self._setting] = self._value

    def __enter__(self):
        return None

    def __exit__(self, exc_type, exc_value, traceback):
        _settings[self._setting] = self.prev


_settings = {"determinism": False, "validation": True}


class guaranteed_datapipes_determinism(_Switch):
    """A ``with`` block in which pipes that are not deterministic are refused."""

    _setting = "determinism"


class runtime_validation_disabled(_Switch):
    """A ``with`` block in which samples are not checked."""

    _setting, _value = "validation", False


class non_deterministic:
    """Marks a class of pipes as not deterministic; or, made of a function, those instances for
    whose arguments the function is true."""

    cls = None

    def __init__(self, arg):
        self.deterministic_fn = None
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(
                    "Only `IterDataPipe` can be decorated with `non_deterministic`, but "
                    f"{arg.__name__} is found"
                )
            self.cls = arg
        elif callable(arg):
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args, **kwargs):
        if self.cls is not None:
            if _settings["determinism"]:
                self._refuse("")
            return self.cls(*args, **kwargs)
        if not (isinstance(args[0], type) and issubclass(args[0], IterDataPipe)):
            raise TypeError(f"Only `IterDataPipe` can be decorated, but {args[0].__name__} is found")
        self.cls = args[0]
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args, **kwargs):
        """An instance, if its arguments allow one."""
        found = self.deterministic_fn(*args, **kwargs)
        if not isinstance(found, bool):
            raise TypeError(
                "deterministic_fn of `non_deterministic` decorator is required to return a boolean "
                f"value, but {type(found)} is found"
            )
        if found and _settings["determinism"]:
            self._refuse(" with the inputs")
        return self.cls(*args, **kwargs)

    def _refuse(self, how):
        raise TypeError(
            f"{self.cls.__name__} is non-deterministic{how}, but you set "
            "'guaranteed_datapipes_determinism'. You can turn off determinism for this DataPipe if "
            "that is acceptable for your application"
        )


def argument_validation(f):
    """Refuses arguments that are no pipes where the annotation is a class of pipes."""
    signature, hints = inspect.signature(f), typing.get_type_hints(f)

    @functools.wraps(f)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            if not (isinstance(hint, type) and issubclass(hint, (IterDataPipe, MapDataPipe))):
                continue
            if not isinstance(value, IterDataPipe):
                raise TypeError(
                    f"Expected argument '{name}' as an IterDataPipe, but found {type(value)}"
                )
        return f(*args, **kwargs)

    return checked


def runtime_validation(f):
    """Checks the samples of ``__iter__`` against the parameter of the pipe's base class, such as
    ``int`` in ``IterDataPipe[int]``.

    Raises:
        TypeError: Another function is decorated.
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")

    @functools.wraps(f)
    def checked(self):
        wanted = _sample_type(type(self))
        for sample in f(self):
            if _settings["validation"] and not _fits(sample, wanted):
                raise RuntimeError(
                    f"Expected an instance as subtype of {wanted}, but found "
                    f"{sample}({type(sample)})"
                )
            yield sample

    return checked


def _sample_type(cls):
    for base in cls.__mro__:
        for origin in getattr(base, "__orig_bases__", ()):
            arguments = typing.get_args(origin)
            if arguments and not isinstance(arguments[0], typing.TypeVar):
                return arguments[0]
    return typing.Any


def _fits(value, wanted):
    """Whether a value, and what it consists of, has a type."""
    if wanted is typing.Any or isinstance(wanted, typing.TypeVar):
        return True
    if wanted is None:
        return value is None
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if not isinstance(value, origin or wanted):
        return False
    if isinstance(value, tuple) and arguments:
        if arguments[-1] is Ellipsis:
            arguments = arguments[:1] * len(value)
        return len(arguments) == len(value) and all(map(_fits, value, arguments))
    if isinstance(value, dict) and arguments:
        return all(_fits(k, arguments[0]) and _fits(v, arguments[1]) for k, v in value.items())
    if isinstance(value, (list, set, frozenset)) and arguments:
        return all(_fits(item, arguments[0]) for item in value)
    return True
