"""Whole calls as graphs for backends of programs: a function is traced without data, and guards say for which inputs
the graph holds."""

from __future__ import annotations

import functools
import inspect
import threading

import corten
from corten import nn
from corten.utils import _pytree as pytree
from corten.utils._python_dispatch import TorchDispatchMode

__all__ = ["CaptureError", "capture", "compile_with_backend", "runner"]


class CaptureError(RuntimeError):
    """A program that is no graph: it depends on values, or changes grad mode on the way."""


class _Captured:
    """The graph of one call, and how arguments and results belong to it."""

    def __init__(self, module, places, out_spec):
        self.module, self.places, self.out_spec = module, places, out_spec

    def inputs(self, leaves):
        """The inputs of the graph among the leaves of arguments."""
        return [leaves[place] for place in self.places]


def _called(function):
    """What is traced: the function, or the forward of a module."""
    return function.forward if isinstance(function, nn.Module) else function


def _modules(function):
    """The modules that a function is made of, whose flags decide what it does."""
    owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
    found = [owner] if isinstance(owner, nn.Module) else []
    plain = inspect.unwrap(function) if callable(function) else function
    cells = getattr(plain, "__closure__", None) or ()
    names = getattr(getattr(plain, "__code__", None), "co_names", ())
    space = getattr(plain, "__globals__", {})
    values = [cell.cell_contents for cell in cells if cell != _EMPTY] + [space.get(name) for name in names]
    return found + [value for value in values if isinstance(value, nn.Module)]


_EMPTY = type("Cell", (), {})()


def _guards(function, leaves):
    """What a graph depends on beside the values of tensors."""
    def one(leaf):
        if isinstance(leaf, corten.Tensor):
            return leaf.shape, leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad, type(leaf)
        hashable = isinstance(leaf, (int, float, bool, str, complex, bytes, type(None), corten.dtype, corten.device))
        return (type(leaf), leaf) if hashable else id(leaf)

    flags = tuple(part.training for module in _modules(function) for part in module.modules())
    return (
        corten.is_grad_enabled(), corten.is_autocast_enabled("cpu"), corten.get_default_dtype(), flags,
        *map(one, leaves),
    )


def capture(function, args=(), kwargs=None):
    """The graph of a call, whose parameters and other tensors are attributes of its module. It is recorded below
    autograd, and computes gradients as the function does when it is run.

    Raises:
        CaptureError: The program depends on values of tensors, or changes grad mode on the way.
    """
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, corten.Tensor)]
    trees = []

    def flat(*tensors):
        values = list(leaves)
        for place, tensor in zip(places, tensors):
            values[place] = tensor
        given, named = pytree.tree_unflatten(values, spec)
        with _SameGradMode(corten.is_grad_enabled()):
            made, out_spec = pytree.tree_flatten(_called(function)(*given, **named))
        trees.append(out_spec)
        return tuple(made)

    module = _traced(flat, [leaves[place] for place in places])
    return _Captured(module, places, trees[-1])


def _traced(flat, tensors):
    from corten._subclasses.fake_tensor import FakeTensorMode
    from corten.fx.experimental._make_fx import new_shape_env
    from corten.fx.experimental.proxy_tensor import make_fx

    mode = FakeTensorMode(
        allow_non_fake_inputs=True, allow_fallback_kernels=True, shape_env=new_shape_env(), static_shapes=True,
    )
    fakes = [mode.from_tensor(tensor.detach()) for tensor in tensors]
    before = corten.is_grad_enabled()
    state = corten.get_rng_state()
    try:
        with mode:
            module = make_fx(flat, decomposition_table={}, tracing_mode="fake")(*fakes)
    except Exception as error:
        raise CaptureError(str(error)) from error
    finally:
        corten.set_rng_state(state)
        corten.set_grad_enabled(before)
    module.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or _has_effect(node))
    module.recompile()
    return module


def _has_effect(node):
    if node.op != "call_function" or node.is_impure():
        return node.op == "call_function"
    schema = getattr(node.target, "_schema", None)
    return schema is not None and "!" in str(schema)


class _SameGradMode(TorchDispatchMode):
    """Refuses calls in another grad mode than that around the trace: a graph has one only."""

    def __init__(self, enabled):
        super().__init__()
        self.enabled = enabled

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if corten.is_grad_enabled() != self.enabled:
            raise CaptureError("the function changes grad mode, which a graph cannot")
        return func(*args, **(kwargs or {}))


def compile_with_backend(function, backend, *, fullgraph=False, options=None):
    """A function that hands the graph of every new kind of call to ``backend``, and runs what that gives. Programs
    that are no graph run as they are, unless the ``fullgraph`` is asked for."""
    known, lock = {}, threading.RLock()
    options = dict(options or {})

    @functools.wraps(_called(function))
    def compiled(*args, **kwargs):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = str(spec), _guards(function, leaves)
        found = known.get(key)
        if found is None:
            with lock:
                found = known.get(key)
                if found is None:
                    found = known[key] = _compile(function, backend, args, kwargs, fullgraph, options)
        if found == "eager":
            return _called(function)(*args, **kwargs)
        captured, run = found
        made = run(*captured.inputs(leaves))
        return pytree.tree_unflatten(list(made), captured.out_spec)

    compiled._known_graphs = known
    return compiled


def runner(function, backend, options):
    """What runs a function that ``compile`` was given with a backend of the program: a function of positional
    arguments and of those by name."""
    compiled = compile_with_backend(function, backend, fullgraph=bool(options.fullgraph), options=options.options)
    return lambda args, kwargs: compiled(*args, **kwargs)


def _compile(function, backend, args, kwargs, fullgraph, options):
    try:
        captured = capture(function, args, kwargs)
    except CaptureError:
        if fullgraph:
            raise
        return "eager"
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
    made = backend(captured.module, captured.inputs(leaves), **options)
    if not callable(made):
        raise TypeError(f"a backend gives something that can be called, not {type(made)}")
    return captured, made
