"""Passes over a pipe: only the latest one may go on, and errors say which pipe they come from."""

from __future__ import annotations

import functools
import inspect

_ISSUE = (
    "\nFor feedback regarding this single iterator per IterDataPipe constraint, feel free to comment "
    "on this issue: https://github.com/pytorch/data/issues/45."
)
_THROWN, _SINGLE = "thrown by __iter__ of", "single iterator per IterDataPipe constraint"


def described(pipe):
    """A pipe as the call that made it."""
    names = sorted(inspect.signature(type(pipe)).parameters)
    held = [(name, getattr(pipe, name)) for name in names if name in vars(pipe)]
    shown = (f"{k}={v.__name__ if inspect.isfunction(v) else repr(v)}" for k, v in held)
    return f"{type(pipe).__name__}({', '.join(shown)})"


def begin(pipe):
    """Starts a pass: earlier ones end, and the pipe forgets what it holds. The number of the pass."""
    if pipe._is_child_datapipe:
        return pipe._join_pass()
    last = pipe._valid_iterator_id
    pipe._valid_iterator_id = 0 if last is None else last + 1
    pipe._number_of_samples_yielded = 0
    pipe.reset()
    return pipe._valid_iterator_id


def check(pipe, number):
    """That no other pass began since.

    Raises:
        RuntimeError: One did.
    """
    if pipe._is_child_datapipe:
        if not pipe._in_pass(number):
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from "
                f"one of the ChildDataPipes of {described(pipe.main_datapipe)}." + _ISSUE
            )
    elif pipe._valid_iterator_id != number:
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from the "
            f"same IterDataPipe: {described(pipe)}\nThis may be caused by multiple references to the "
            "same IterDataPipe. We recommend using `.fork()` if that is necessary." + _ISSUE
        )


class _Pass:
    """The samples of a pipe whose ``__iter__`` makes an iterator."""

    def __init__(self, iterator, pipe, number, counts):
        self._iterator, self._pipe, self._number, self._counts = iterator, pipe, number, counts

    def __iter__(self):
        return self

    def __next__(self):
        check(self._pipe, self._number)
        sample = next(self._iterator)
        self._pipe._number_of_samples_yielded += self._counts
        return sample

    def __getattr__(self, name):
        return getattr(self._iterator, name)


def watch(cls):
    """Makes the passes over instances of a class known."""
    own = vars(cls)
    if "__iter__" in own:
        generates = inspect.isgeneratorfunction(own["__iter__"])
        wrapper = _generating if generates else _iterating
        cls.__iter__ = wrapper(own["__iter__"], "__next__" in own)
        if "__next__" in own and not generates:
            cls.__next__ = _counting(own["__next__"])


def _generating(function, has_next):
    @functools.wraps(function)
    def passing(self, *args, **kwargs):
        samples = function(self, *args, **kwargs)
        number = begin(self)
        try:
            for sample in samples:
                self._number_of_samples_yielded += 1
                yield sample
                check(self, number)
        except Exception as error:
            _locate(error, self)
            raise

    return passing


def _iterating(function, has_next):
    @functools.wraps(function)
    def passing(self, *args, **kwargs):
        iterator = function(self, *args, **kwargs)
        counts = not (has_next and iterator is self)
        return _Pass(iterator, self, begin(self), counts)

    return passing


def _counting(function):
    @functools.wraps(function)
    def following(self, *args, **kwargs):
        sample = function(self, *args, **kwargs)
        self._number_of_samples_yielded += 1
        return sample

    return following


def _locate(error, pipe):
    """Adds the innermost pipe that an error went through to its text."""
    where = f"\nThis exception is {_THROWN} {described(pipe)}"
    if not error.args or not isinstance(error.args[0], str):
        error.args = (where,)
    elif _THROWN not in error.args[0] and _SINGLE not in error.args[0]:
        error.args = (error.args[0] + where, *error.args[1:])
