"""How functions written in Python are taken over by ``__torch_function__``: each asks
:func:`overridden` first, and hands its arguments to :func:`dispatch`."""

from __future__ import annotations

import functools

from corten import _C

#: Whether a mode is active, or the class of one of the objects takes calls over. Tensors of parts
#: do not count: the operators inside of a function ask them.
overridden = _C._overridden


def dispatch(function, relevant, values, positional=None):
    """Calls the overrides of a function.

    Args:
        function: What overrides are told was called.
        relevant: The arguments whose classes are asked.
        values: The arguments by name, as ``locals()`` gives them at the start of the function.
        positional: How many are passed by position; those without defaults unless given.
    """
    code = function.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    if positional is None:
        positional = code.co_argcount - len(function.__defaults__ or ())
    return hand_over(
        function, relevant, *(values[name] for name in names[:positional]),
        **{name: values[name] for name in names[positional:]},
    )


def overridable(function):
    """Lets a function be taken over whose overrides get the arguments as they were given."""

    @functools.wraps(function)
    def asking(*args, **kwargs):
        relevant = _leaves((*args, *kwargs.values()))
        if overridden(*relevant):
            return hand_over(asking, relevant, *args, **kwargs)
        return function(*args, **kwargs)

    return asking


def as_operator(function):
    """As :func:`overridable`, for what is one of PyTorch's operators, whose home is the package."""
    return of_package(overridable(function))


def of_package(function):
    """Makes the package a function's home, as it is of PyTorch's operators."""
    function.__module__ = function.__module__.partition(".")[0]
    return function


def _leaves(values):
    """The values, and the items of those that are lists."""
    found = []
    for value in values:
        found.extend(value if isinstance(value, (list, tuple)) else (value,))
    return found


def hand_over(function, relevant, *args, **kwargs):
    """Calls the overrides of a function with arguments as they shall be seen."""
    asked = [one for one in _C._overloaded_args(relevant) if not hasattr(type(one), "_of_parts")]
    return _C._dispatch_torch_function(function, asked, args, kwargs)
