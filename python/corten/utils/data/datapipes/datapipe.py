"""The bases of pipes."""

from __future__ import annotations

import functools
import importlib
from abc import ABCMeta
from typing import TypeVar

from ..dataset import Dataset, IterableDataset
from . import _passes

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

_T = TypeVar("_T")
_Sample = TypeVar("_Sample", covariant=True)


class DataChunk(list[_T]):
    """A batch of samples that is not made a tensor yet."""

    def __init__(self, items):
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent=""):
        """The samples as text."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self):
        """The samples as they came."""
        yield from self.items


class _Functions:
    """What both kinds of pipes have: functions that are called as methods, hooks, names.

    ``functions`` has the pipes by the names of their methods. ``getstate_hook`` and
    ``reduce_ex_hook`` change how pipes are pickled, ``str_hook`` and ``repr_hook`` how they are
    printed.
    """

    functions: dict
    reduce_ex_hook = getstate_hook = str_hook = repr_hook = None
    #: Attributes that are not pickled: ``_start`` makes them again.
    _transient = ()

    @classmethod
    def _root(cls):
        return next(base for base in cls.__mro__ if "functions" in vars(base))

    def __getattr__(self, attribute_name):
        if attribute_name.startswith("__"):
            raise AttributeError(attribute_name)
        kind = self._root()._pipe_kind
        importlib.import_module(f"corten.utils.data.datapipes.{kind}")  # has the usual functions
        function = self.functions.get(attribute_name)
        if function is None:
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{attribute_name}"
            )
        bound = functools.partial(function, self)
        bound.__doc__ = function.__doc__
        return bound

    @classmethod
    def register_function(cls, function_name, function):
        """Lets pipes have a function as a method."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name, cls_to_register, enable_df_api_tracing=False
    ):
        """Lets pipes have a method that puts a pipe of a class behind them.

        Raises:
            Exception: There is one of this name.
        """
        if enable_df_api_tracing:
            raise NotImplementedError("pipes are not traced as data frames")
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )

        def function(source_dp, *args, **kwargs):
            return cls_to_register(source_dp, *args, **kwargs)

        function.__doc__ = cls_to_register.__doc__
        cls.functions[function_name] = function

    def _start(self):
        """Makes the attributes that are not pickled."""

    def __getstate__(self):
        state = {k: v for k, v in self.__dict__.items() if k not in self._transient}
        hook = self._root().getstate_hook
        return state if hook is None else hook(state)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._start()

    def __reduce_ex__(self, *args, **kwargs):
        hook = self._root().reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def _set_hook(cls, name, hook_fn):
        root = cls._root()
        if getattr(root, name) is not None and hook_fn is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(root, name, None if hook_fn is None else staticmethod(hook_fn))

    @classmethod
    def set_getstate_hook(cls, hook_fn):
        """Sets the function that changes states before they are pickled; None takes it away."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn):
        """Sets the function that pickles pipes instead; None takes it away."""
        cls._set_hook("reduce_ex_hook", hook_fn)

    def __repr__(self):
        return type(self).__qualname__ if self.repr_hook is None else self.repr_hook(self)

    def __str__(self):
        return type(self).__qualname__ if self.str_hook is None else self.str_hook(self)

    def __dir__(self):
        importlib.import_module(f"corten.utils.data.datapipes.{self._root()._pipe_kind}")
        return [*super().__dir__(), *self.functions]

    def _length_of(self, *sources):
        """The lengths of pipes before this one.

        Raises:
            TypeError: One has none.
        """
        if not all(hasattr(type(source), "__len__") for source in sources):
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return [len(source) for source in sources]


class IterDataPipe(_Functions, IterableDataset[_Sample], metaclass=ABCMeta):
    """Samples one after another: a class defines ``__iter__``, and ``reset`` where it keeps some.

    There is one pass at a time: a new one ends the one before it. Other pipes are put behind this
    one by methods such as ``map``, ``filter``, ``batch`` and ``shuffle``.
    """

    functions = {}
    _pipe_kind = "iter"
    _is_child_datapipe = False
    _valid_iterator_id = None
    _number_of_samples_yielded = 0

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        _passes.watch(cls)

    def __iter__(self):
        return self

    def reset(self):
        """Called when a pass begins: forgets what is kept of the one before."""


_passes.watch(IterDataPipe)


class DFIterDataPipe(IterDataPipe):
    """Data frames one after another."""

    def _is_dfpipe(self):
        return True


class MapDataPipe(_Functions, Dataset[_Sample], metaclass=ABCMeta):
    """Samples by index or key: a class defines ``__getitem__`` and mostly ``__len__``.

    Other pipes are put behind this one by methods such as ``map``, ``batch`` and ``shuffle``.
    """

    functions = {}
    _pipe_kind = "map"
