"""Context managers as decorators of functions, generator functions and classes."""

from __future__ import annotations

import functools
import inspect
import warnings


def context_decorator(context, function):
    """``function`` with a fresh ``context`` around each call."""
    if inspect.isclass(function):
        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
            "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
            "the `__init__` method and nothing else.", FutureWarning, stacklevel=2,
        )
        function.__init__ = context_decorator(context, function.__init__)
        return function
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(context, function)

    @functools.wraps(function)
    def decorated(*args, **kwargs):
        with context.clone():
            return function(*args, **kwargs)

    return decorated


def _wrap_generator(context, function):
    """The context is active while the generator runs, and not while its caller does."""

    @functools.wraps(function)
    def generator(*args, **kwargs):
        running = function(*args, **kwargs)
        try:
            with context.clone():
                response = running.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with context.clone():
                        running.close()
                    raise
                except BaseException as error:
                    with context.clone():
                        response = running.throw(error)
                else:
                    with context.clone():
                        response = running.send(request)
        except StopIteration as stop:
            return stop.value

    return generator


class _DecoratorContextManager:
    """Lets a context manager class decorate functions."""

    def __call__(self, function):
        return context_decorator(self, function)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, kind, value, traceback):
        raise NotImplementedError

    def clone(self):
        """A new context manager of the same kind."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """Lets a context manager class without parameters decorate without parentheses."""

    def __new__(cls, function=None):
        made = super().__new__(cls)
        return made if function is None else made(function)
