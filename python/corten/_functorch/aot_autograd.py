"""Functions compiled ahead of time, with their backward passes: a compiler is given graphs and inputs."""

from __future__ import annotations

import dataclasses
import functools

import corten
from corten import fx, nn
from corten.utils import _pytree as pytree

from ._aot_capture import (
    analyse, capture_forward, capture_joint, fake_inputs, fake_mode_of, with_visible_writes,
)
from ._aot_export import (  # noqa: F401
    BackwardSignature, GraphSignature, aot_export_joint_simple, aot_export_module,
)
from ._aot_runtime import inference_runner, training_runner
from .partitioners import default_partition

__all__ = [
    "aot_export_joint_simple", "aot_export_module", "aot_function", "aot_module", "aot_module_simplified",
    "boxed_nop_preserve_node_meta", "compiled_function", "compiled_module", "create_aot_dispatcher_function",
    "get_aot_compilation_context", "get_aot_graph_name", "get_graph_being_compiled", "make_boxed_compiler",
    "make_boxed_func",
]


@dataclasses.dataclass
class AOTConfig:
    """How a function is compiled."""

    fw_compiler: object
    bw_compiler: object
    partition_fn: object
    decompositions: dict
    inference_compiler: object = None


def make_boxed_func(f):
    """``f`` as a function of one list, which is emptied."""
    @functools.wraps(f)
    def boxed(args):
        inputs = list(args)
        args.clear()
        return f(*inputs)

    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler):
    """A compiler whose functions take one list."""
    @functools.wraps(compiler)
    def boxed(graph, inputs):
        made = compiler(graph, inputs)
        if made is None:
            raise AssertionError("Expected compiler to return a function, got None")
        return made if getattr(made, "_boxed_call", False) else make_boxed_func(made)

    return boxed


def boxed_nop_preserve_node_meta(fx_g, example_inputs):
    """Runs a graph node by node."""
    def run(args):
        with fx.traceback.preserve_node_meta():
            return fx.Interpreter(fx_g).boxed_run(args)

    run._boxed_call = True
    return run


def _compile(flat_fn, leaves, config):
    """What runs a function of leaves, compiled for inputs like these."""
    mode = fake_mode_of(leaves)
    fakes, flat_fn = fake_inputs(mode, leaves), with_visible_writes(flat_fn)
    facts = analyse(flat_fn, mode, fakes)
    if not facts.mutated:
        fakes = fake_inputs(mode, leaves, apart=True)
    trains = corten.is_grad_enabled() and any(
        isinstance(leaf, corten.Tensor) and leaf.requires_grad for leaf in leaves
    ) and any(facts.requires_grad)
    if not trains:
        captured = capture_forward(flat_fn, mode, fakes, facts, config.decompositions)
        compiler = config.inference_compiler or config.fw_compiler
        return inference_runner(compiler(captured.module, _examples(mode, captured.module)), facts)
    captured = capture_joint(flat_fn, mode, fakes, facts, config.decompositions)
    count = len(facts.mutated) + len(facts.outputs)
    forward, backward = config.partition_fn(captured.module, captured.inputs, num_fwd_outputs=count)
    compiled = config.fw_compiler(forward, _examples(mode, forward))
    return training_runner(compiled, lambda: config.bw_compiler(backward, _examples(mode, backward)), facts, count)


def _examples(mode, module):
    """The inputs of a graph without data."""
    return [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]


create_aot_dispatcher_function = _compile


def _key(leaves):
    """What a compiled function depends on."""
    def one(leaf):
        if isinstance(leaf, corten.Tensor):
            return leaf.shape, leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad
        return leaf if isinstance(leaf, (int, float, bool, str, complex, type(None))) else id(leaf)

    return corten.is_grad_enabled(), *map(one, leaves)


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                 num_params_buffers=0, keep_inference_input_mutations=False, inference_compiler=None, *,
                 dynamic=False, enable_log=True, disable_functionalization=False):
    """``fn``, traced when it is called with inputs of a kind for the first time: ``fw_compiler`` and ``bw_compiler``
    make functions of the graphs of both passes."""
    config = AOTConfig(fw_compiler, bw_compiler or fw_compiler, partition_fn, decompositions or {}, inference_compiler)
    known = {}

    @functools.wraps(fn)
    def compiled(*args, **kwargs):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = str(spec), _key(leaves)
        found = known.get(key)
        if found is None:
            def flat(*values):
                given, named = pytree.tree_unflatten(list(values), spec)
                return fn(*given, **named)

            found = known[key] = _compile(flat, leaves, config)
        return found(leaves)

    return compiled


def _functional(mod, names, values, args, kwargs):
    return corten.func.functional_call(mod, dict(zip(names, values)), args, kwargs)


def _state(mod):
    """The parameters and buffers of a module, by name."""
    state = {**dict(mod.named_parameters(remove_duplicate=False)), **dict(mod.named_buffers(remove_duplicate=False))}
    return list(state), list(state.values())


def aot_module(mod, *args, **kwargs):
    """A module, compiled as by :func:`aot_function`; its parameters are inputs of the graphs."""
    def call(named, args, kwargs):
        return corten.func.functional_call(mod, named, args, kwargs)

    compiled = aot_function(call, *args, **kwargs)

    class AOTModule(nn.Module):
        """A compiled module."""

        def __init__(self):
            super().__init__()
            self.orig_module = mod

        def forward(self, *args, **kwargs):
            names, values = _state(self.orig_module)
            return compiled(dict(zip(names, values)), args, kwargs)

    return AOTModule()


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=default_partition,
                          decompositions=None, keep_inference_input_mutations=False, inference_compiler=None,
                          cudagraphs=None, **options):
    """A function of a module's arguments, compiled for some of them; the module gives a tuple.

    Raises:
        RuntimeError: It gives something else.
    """
    names, state = _state(mod)
    config = AOTConfig(fw_compiler, bw_compiler or fw_compiler, partition_fn, decompositions or {}, inference_compiler)

    def flat(*values):
        made = _functional(mod, names, values[:len(names)], values[len(names):], {})
        if not isinstance(made, (tuple, list)):
            raise RuntimeError(
                "Graph output must be a (). This is so that we can avoid pytree processing of the outputs. Please "
                "change the module to have tuple outputs or use aot_module instead."
            )
        return made

    compiled = _compile(flat, [*state, *args], config)

    def forward(*runtime_args):
        return compiled([*state, *runtime_args])

    forward.zero_grad, forward.named_parameters, forward.named_buffers = (
        mod.zero_grad, mod.named_parameters, mod.named_buffers,
    )
    return forward


compiled_function, compiled_module = aot_function, aot_module


def get_graph_being_compiled():
    """The name of the graph that is being compiled: there is none outside of compilers."""
    return ""


get_aot_graph_name = get_graph_being_compiled


def get_aot_compilation_context():
    """What is known of the graph that is being compiled."""
    return [], "", 0
