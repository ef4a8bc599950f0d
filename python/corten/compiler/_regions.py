"""Functions whose calls of operators are recorded and run later, in groups.

The Python code of a compiled function runs at every call, so that control flow, prints and changes
of objects are what they are without compilation. What is recorded runs where a result is looked at,
at the latest when the function returns.
"""

from __future__ import annotations

import dataclasses
import functools

from corten import _C, _logging
from corten.compiler import _settings
from corten.compiler._choice import Choice, is_at_once, kind_of
from corten.overrides import TorchFunctionMode

__all__ = ["Options", "compiled", "is_running", "not_compiled", "run_region"]

#: How the message of a forbidden break begins.
_FORBIDDEN = "graph break under fullgraph=True"


@dataclasses.dataclass
class Options:
    """How a function was asked to be compiled."""

    backend: object = "inductor"
    mode: object = None
    options: object = None
    fullgraph: bool = False
    dynamic: object = None

    def __call__(self, function):
        return compiled(function, self)


def run_region(function, args, kwargs, fullgraph=False, freezing=False):
    """Calls a function in a region of its own, or as a part of the one that is active."""
    _C._region_enter(fullgraph, freezing)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        _leave_after(error)
        raise
    _C._region_exit(result)
    return result


def _leave_after(error):
    """Runs what was recorded before an exception, which says more than what fails now."""
    try:
        _C._region_exit()
    except Exception:
        pass
    if isinstance(error, RuntimeError) and str(error).startswith(_FORBIDDEN):
        from corten._dynamo.exc import Unsupported

        raise Unsupported(str(error)) from None


class _NoLooking(TorchFunctionMode):
    """A block in which tensors do not become values of Python."""

    _VALUES = {
        _C.Tensor.__bool__, _C.Tensor.__int__, _C.Tensor.__float__, _C.Tensor.__index__, _C.Tensor.item, _C.Tensor.tolist,
    }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self._VALUES:
            from corten._dynamo.exc import Unsupported

            raise Unsupported(f"{_FORBIDDEN}: the program looks at the data of a tensor by {func.__name__}()")
        return func(*args, **(kwargs or {}))


def _count():
    """Counts a function that is called for the first time."""
    from corten._dynamo.utils import counters

    counters["frames"]["total"] += 1
    counters["frames"]["ok"] += 1
    counters["stats"]["unique_graphs"] += 1


#: The code of compiled functions, and of what runs others apart from them.
_RUNNING, _APART = set(), set()


def is_running():
    """Whether the calling code is that of a compiled function."""
    return _C._region_active() or (not _settings.runs_eagerly() and is_at_once(_RUNNING, _APART))


def compiled(function, options):
    """The function that calls another one as the options say."""
    backend = _settings.lookup(options.backend)
    choice = Choice(options.dynamic)
    run = _runner(function, options, backend, choice)
    at_once = choice.at_once

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if at_once and kind_of(args, kwargs) in at_once:
            return function(*args, **kwargs)
        if _settings.runs_eagerly():
            return function(*args, **kwargs)
        return run(args, kwargs)

    if backend == "inductor":
        _RUNNING.add(wrapper.__code__)
    wrapper._torchdynamo_orig_callable = function
    wrapper._is_torch_compile = True
    wrapper.get_compiler_config = lambda: options.options or {}
    return wrapper


def _runner(function, options, backend, choice):
    if backend == "eager":
        return lambda args, kwargs: function(*args, **kwargs)
    if callable(backend):
        from corten.compiler import _capture

        return _capture.runner(function, backend, options)
    fullgraph = bool(options.fullgraph)
    called, logged = [], set()

    def run(args, kwargs):
        is_first = not called
        if is_first:
            called.append(True)
            _count()
            logged.update(_logging.artifacts())
        if logged and not _C._region_active():
            return _run_logged(function, args, kwargs, fullgraph)
        if fullgraph and is_first:
            # Operators that are new to the process run at once: there is nothing then that looking would break.
            with _NoLooking():
                return run_region(function, args, kwargs, fullgraph)
        freezing = _freezes(options)
        if fullgraph or _C._region_active():
            return run_region(function, args, kwargs, fullgraph, freezing)
        return choice.call(function, args, kwargs, run_frozen if freezing else run_region)

    return run


def run_frozen(function, args, kwargs):
    """As ``run_region``, where weights may be folded."""
    return run_region(function, args, kwargs, freezing=True)


def _freezes(options):
    """Whether parameters may be taken for constants that are folded into others."""
    from corten._inductor import config

    wanted = (options.options or {}).get("freezing")
    return bool(config.freezing if wanted is None else wanted)


def _run_logged(function, args, kwargs, fullgraph):
    """Calls a function in a region, and logs what it recorded."""
    _C._region_statistics(True)
    try:
        return run_region(function, args, kwargs, fullgraph)
    finally:
        found = _C._region_statistics(False)
        if found is not None:
            _logging.report(function, *found)


def not_compiled(function):
    """The function that calls another one outside of regions."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        before = _C._region_pause(True)
        try:
            return function(*args, **kwargs)
        finally:
            _C._region_pause(before)

    _APART.add(wrapper.__code__)
    wrapper._torchdynamo_disable = True
    wrapper._torchdynamo_orig_callable = function
    return wrapper
