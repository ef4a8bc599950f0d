"""The backends of ``compile``, by name."""

from __future__ import annotations

import functools

from corten.compiler import _settings

__all__ = ["list_backends", "lookup_backend", "register_backend", "register_debug_backend"]

_BACKENDS = {}


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a function that compiles graphs a name: its own, unless ``name`` is given."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    name = name or compiler_fn.__name__
    if name in _BACKENDS:
        raise AssertionError(f"duplicate name: {name}")
    _BACKENDS[name] = compiler_fn
    # Those of this module run functions as they are, which `compile` does without a graph.
    if hasattr(_settings, "_registered") and not compiler_fn.__module__.startswith("corten."):
        _settings._BACKENDS.setdefault(name, tuple(tags))
        _settings._registered[name] = compiler_fn
    compiler_fn._tags = tuple(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


class InvalidBackend(RuntimeError):
    """No backend has this name."""

    def __init__(self, name):
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


def lookup_backend(compiler_fn):
    """The backend of a name; functions are backends themselves.

    Raises:
        InvalidBackend: No backend has this name.
    """
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in _BACKENDS:
        raise InvalidBackend(compiler_fn)
    return _BACKENDS[compiler_fn]


def list_backends(exclude_tags=("debug", "experimental")):
    """The names of backends without certain tags."""
    excluded = set(exclude_tags or ())
    return sorted(name for name, one in _BACKENDS.items() if not excluded.intersection(getattr(one, "_tags", ())))


def has_backend_loaded(name):
    """Whether a backend has this name."""
    return name in _BACKENDS


@register_debug_backend
def eager(gm, example_inputs, **options):
    """The graph as it is."""
    return gm.forward


@register_debug_backend
def eager_noexcept(gm, example_inputs, **options):
    """The graph as it is."""
    return gm.forward


@register_debug_backend
def pre_dispatch_eager(gm, example_inputs, **options):
    """The graph as it is."""
    return gm.forward


@register_debug_backend
def aot_eager(gm, example_inputs, **options):
    """Both passes of the graph, as they are."""
    from corten._functorch.compilers import nop

    return _ahead(gm, example_inputs, nop)


@register_debug_backend
def aot_eager_decomp_partition(gm, example_inputs, **options):
    """Both passes of the graph in core operators, with as few bytes saved as possible."""
    from corten._decomp import core_aten_decompositions
    from corten._functorch.compilers import nop
    from corten._functorch.partitioners import min_cut_rematerialization_partition

    return _ahead(
        gm, example_inputs, nop, decompositions=dict(core_aten_decompositions()),
        partition_fn=min_cut_rematerialization_partition,
    )


def _ahead(gm, example_inputs, compiler, **options):
    from corten._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(gm, tuple(example_inputs), fw_compiler=compiler, **options)
