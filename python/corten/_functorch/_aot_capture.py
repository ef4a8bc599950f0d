"""Graphs of functions with their backward passes: the analysis of a function, and the traces of it."""

from __future__ import annotations

import contextlib
import dataclasses

import corten
from corten import fx
from corten.fx.experimental.proxy_tensor import make_fx
from corten.fx.graph import CodeGen
from corten.utils import _pytree as pytree

__all__ = ["Captured", "Facts", "analyse", "capture_forward", "capture_joint", "fake_inputs", "reset_codegen"]


@dataclasses.dataclass
class Facts:
    """What a function does with its inputs."""

    #: Inputs whose elements it writes to.
    mutated: list
    #: For every output, the input that it is, or None.
    is_input: list
    #: For every output, the input whose memory it shares, and its place there, or None.
    alias: list
    #: Which outputs require gradients.
    requires_grad: list
    is_tensor: list
    out_spec: object = None
    outputs: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Captured:
    """A graph with what is known of the function."""

    module: object
    facts: Facts
    inputs: list


def fake_mode_of(args):
    """The mode of tensors without data among arguments, or a new one."""
    from corten._guards import detect_fake_mode
    from corten._subclasses.fake_tensor import FakeTensorMode
    from corten.fx.experimental._make_fx import new_shape_env

    found = detect_fake_mode(args)
    if found is not None:
        return found
    return FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=True, shape_env=new_shape_env(),
                          static_shapes=True)


def fake_inputs(mode, leaves):
    """Tensors without data for tensors; equal objects for equal ones."""
    known = {}

    def one(leaf):
        if not isinstance(leaf, corten.Tensor):
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = leaf, mode.from_tensor(leaf)
        return known[id(leaf)][1]

    return [one(leaf) for leaf in leaves]


def _fresh(leaves):
    """Aliases that are leaves of a graph of their own, with the sizes and strides of inputs."""
    made = []
    for leaf in leaves:
        if isinstance(leaf, corten.Tensor):
            leaf = corten.empty_strided(
                leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device,
            ).requires_grad_(leaf.requires_grad)
        made.append(leaf)
    return made


def _storage(tensor):
    if tensor.layout != corten.strided:
        return None
    return tensor.untyped_storage()._cdata


def _writable(leaves):
    """Inputs that may be written to: leaves that require gradients are seen through an alias."""
    return [
        leaf.view_as(leaf) if isinstance(leaf, corten.Tensor) and leaf.requires_grad and leaf.is_leaf else leaf
        for leaf in leaves
    ]


def analyse(flat_fn, mode, leaves):
    """Runs a function on tensors without data and says what it does with them."""
    with mode, _random_numbers_kept():
        inputs = _fresh(leaves)
        tensors = {place: leaf for place, leaf in enumerate(inputs) if isinstance(leaf, corten.Tensor)}
        before = {place: leaf._version for place, leaf in tensors.items()}
        with corten.enable_grad() if corten.is_grad_enabled() else corten.no_grad():
            outputs, spec = pytree.tree_flatten(flat_fn(*inputs))
        mutated = [place for place, leaf in tensors.items() if leaf._version != before[place]]
        homes = {_storage(leaf): place for place, leaf in reversed(list(tensors.items())) if _storage(leaf)}
        same = {id(leaf): place for place, leaf in tensors.items()}
        facts = Facts(mutated, [], [], [], [], spec, outputs)
        for value in outputs:
            tensor = isinstance(value, corten.Tensor)
            facts.is_tensor.append(tensor)
            facts.is_input.append(same.get(id(value)) if tensor else None)
            home = homes.get(_storage(value)) if tensor else None
            geometry = (value.shape, value.stride(), value.storage_offset()) if home is not None else None
            facts.alias.append(None if home is None else (home, *geometry))
            facts.requires_grad.append(tensor and value.requires_grad)
    return facts


@contextlib.contextmanager
def _random_numbers_kept():
    """A block that leaves the generator as it was."""
    state = corten.get_rng_state()
    try:
        yield
    finally:
        corten.set_rng_state(state)


def reset_codegen(module):
    """Has a graph be a function of its inputs, whatever trees these came in."""
    module.graph.set_codegen(CodeGen())
    module.recompile()
    return module


def _writes(module):
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        if schema is not None and "!" in str(schema):
            return True
    return False


def _without_write_back(module):
    """Takes the copies to inputs out, with which functional programs end."""
    graph = module.graph
    for node in reversed(list(graph.nodes)):
        if node.op == "output":
            continue
        if not str(node.target).endswith("aten.copy_.default"):
            break
        if node.args[0].op == "placeholder":
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or node.is_impure())
    module.recompile()
    return module


def _traced(function, args, table, mode):
    """The graph of a function; without writes, if it has some."""
    def make(one):
        with mode, _random_numbers_kept():
            return reset_codegen(make_fx(one, decomposition_table=table, tracing_mode="fake")(*args))

    module = make(function)
    if _writes(module):
        functional = corten.func.functionalize(function, remove="mutations")
        functional.__name__ = getattr(function, "__name__", "function")
        module = _without_write_back(make(_with_parameters_of(function, functional)))
    return module


def _with_parameters_of(function, functional):
    """``functional`` under the names of another function's parameters."""
    import inspect

    if getattr(function, "_flat_count", None) is not None:
        return functional
    names = ", ".join(inspect.signature(function).parameters)
    return eval(f"lambda {names}: f({names})", {"f": functional})  # noqa: S307


def capture_forward(flat_fn, mode, leaves, facts, table):
    """The graph of the forward pass: what is written to inputs, then the outputs."""
    def forward(*args):
        outputs = pytree.tree_leaves(flat_fn(*args))
        return [*(args[place] for place in facts.mutated), *outputs]

    forward._flat_count = len(leaves)
    with corten.no_grad():
        inputs = [leaf.detach() if isinstance(leaf, corten.Tensor) else leaf for leaf in leaves]
        return Captured(_traced(forward, inputs, table, mode), facts, inputs)


def differentiable(facts):
    """The places of outputs that get a gradient: those that are no views of inputs."""
    return [
        place for place, needed in enumerate(facts.requires_grad)
        if needed and facts.is_input[place] is None and facts.alias[place] is None
    ]


def capture_joint(flat_fn, mode, leaves, facts, table):
    """The graph of both passes: of inputs and the gradients of outputs."""
    wanted = differentiable(facts)

    def joint(primals, tangents):
        with corten.enable_grad():
            own = _writable(primals) if facts.mutated else primals
            outputs = pytree.tree_leaves(flat_fn(*own))
            values = [outputs[place] for place in wanted]
            targets = [one for one in primals if isinstance(one, corten.Tensor) and one.requires_grad]
            found = iter(_gradients(values, targets, tangents))
        grads = [
            next(found) if isinstance(one, corten.Tensor) and one.requires_grad else None for one in primals
        ]
        return [*(own[place] for place in facts.mutated), *outputs], grads

    with mode:
        tangents = [corten.empty_strided(
            facts.outputs[place].shape, facts.outputs[place].stride(), dtype=facts.outputs[place].dtype,
            device=facts.outputs[place].device,
        ) for place in wanted]
    module = _traced(joint, (list(leaves), tangents), table, mode)
    return Captured(module, facts, [list(leaves), tangents])


def _gradients(values, targets, tangents):
    if not values:
        return [None] * len(targets)
    return corten.autograd.grad(values, targets, tangents, allow_unused=True)


def fx_module(module):
    """Whether something is a module of a graph."""
    return isinstance(module, fx.GraphModule)
