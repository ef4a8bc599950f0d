"""What the compiler is told: backends, stances, and wishes that are kept."""

from __future__ import annotations

import functools
import inspect

#: How functions that are compiled may behave.
_STANCES = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile",
    "fail_on_recompile",
)
_BACKENDS = {
    "inductor": (), "eager": ("debug",), "aot_eager": ("debug",), "eager_noexcept": ("debug",),
    "pre_dispatch_eager": ("debug",), "aot_eager_decomp_partition": ("debug",),
}
#: Functions that were registered as backends.
_registered = {}
_state = {"backend": "inductor", "stance": "default", "collectives": False}


def list_backends(exclude_tags=("debug", "experimental")):
    """The names of backends: of this library's compiler, and of those that run functions as they are."""
    excluded = set(exclude_tags or ())
    return sorted(name for name, tags in _BACKENDS.items() if not excluded.intersection(tags))


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a function that compiles graphs a name as a backend."""
    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    name = name or compiler_fn.__name__
    if name in _BACKENDS:
        raise AssertionError(f"duplicate name: {name}")
    _BACKENDS[name], _registered[name] = tuple(tags), compiler_fn
    return compiler_fn


def lookup(backend):
    """"inductor" for this library's compiler, "eager" for none, or the function that compiles graphs.

    Raises:
        InvalidBackend: There is no such backend.
    """
    if callable(backend):
        return backend
    if backend in _registered:
        return _registered[backend]
    if backend not in _BACKENDS:
        from corten._dynamo.exc import InvalidBackend

        raise InvalidBackend(backend)
    return "inductor" if backend == "inductor" else "eager"


def runs_eagerly():
    """Whether compiled functions are to run as they are."""
    return _state["stance"] == "force_eager" or _config().disable


@functools.cache
def _config():
    from corten._dynamo import config

    return config


def get_default_backend():
    """The backend of ``compile`` without one."""
    return _state["backend"]


def set_default_backend(backend):
    """Sets the backend of ``compile`` without one; None is the usual one."""
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _state["backend"] = "inductor" if backend is None else backend


class set_stance:
    """How compiled functions behave from now on, in a ``with`` block or in a decorated function."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance 'DynamoStance(stance={stance!r})'")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.prev, self.stance = _state["stance"], stance
        _state["stance"] = stance

    def __call__(self, fn):
        _state["stance"] = self.prev

        @functools.wraps(fn)
        def wrapped(*args, **kwargs):
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return wrapped

    def __enter__(self):
        _state["stance"] = self.stance

    def __exit__(self, kind, value, traceback):
        _state["stance"] = self.prev


def set_enable_guard_collectives(enabled):
    """Whether processes agree before they compile again; gives what was set before."""
    before, _state["collectives"] = _state["collectives"], enabled
    return before


def nested_compile_region(fn=None, *, options=None, max_reuse_entries=8, reuse_hash_fn=None):
    """Marks a function whose code is compiled once and used in several places."""
    if fn is None:
        return lambda function: nested_compile_region(function)

    @functools.wraps(fn)
    def region(*args, **kwargs):
        return fn(*args, **kwargs)

    return region


def nonstrict_trace(traceable_fn):
    """Marks a function that tracers do not look into."""
    if not callable(traceable_fn):
        raise AssertionError("nonstrict_trace expects a callable")
    return nested_compile_region(traceable_fn)


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False,
                        is_embedded_type=False):
    """Says by which function tracers replace another one. What it decorates calls that one.

    Raises:
        TypeError: The two take different arguments.
    """
    if not inspect.isfunction(original_fn) and not inspect.isbuiltin(original_fn) and \
            not isinstance(original_fn, type):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)}")

    def decorate(traceable_fn):
        if not skip_signature_check:
            _check_signatures(original_fn, traceable_fn)

        @functools.wraps(traceable_fn)
        def untraced(*args, **kwargs):
            return original_fn(*args, **kwargs)

        return untraced

    return decorate


def _check_signatures(original, replacement):
    try:
        wanted = inspect.signature(original)
    except ValueError:
        return
    found = inspect.signature(replacement)

    def taken(signature):
        return [(p.name, p.kind) for p in signature.parameters.values()]

    if taken(wanted) != taken(found):
        raise TypeError(
            f"Signature mismatch between {original} and {replacement}: {wanted} != {found}"
        )


def wrap_numpy(fn):
    """A function of tensors out of a function of NumPy's arrays."""
    import corten
    from corten.utils._pytree import tree_map

    def array(value):
        return value.numpy() if isinstance(value, corten.Tensor) else value

    def tensor(value):
        import numpy

        return corten.as_tensor(value) if isinstance(value, numpy.ndarray) else value

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        return tree_map(tensor, fn(*tree_map(array, args), **tree_map(array, kwargs)))

    return wrapped


def cudagraph_mark_warmup_incomplete():
    """Asks for another run before a GPU's graph is recorded; none is recorded here."""


def save_cache_artifacts():
    """What compilation left behind: nothing, None."""
    return None


def load_cache_artifacts(serialized_artifacts):
    """Takes over what another process compiled. Nothing is: None."""
    return None


def skip_all_guards_unsafe(guard_entries):
    """Keeps no guard of a compiled function."""
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries):
    """Keeps the guards that are not on globals."""
    return [not entry.is_global for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """Keeps the guards that are not on the library's own modules."""
    return [
        not entry.orig_guard.source.is_unspecialized_builtin_nn_module() for entry in guard_entries
    ]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    """Keeps the guards that are not on modules."""
    return [not entry.orig_guard.source.is_unspecialized_nn_module() for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """Keeps the guards on tensors, those on parameters only if asked to."""
    from corten.nn import Parameter

    return [
        entry.guard_type == "TENSOR_MATCH"
        and (keep_parameters or not isinstance(entry.value, Parameter)) for entry in guard_entries
    ]
