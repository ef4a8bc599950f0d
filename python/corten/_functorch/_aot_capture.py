"""Graphs of functions with their backward passes: the analysis of a function, and the traces of it."""

from __future__ import annotations

import contextlib
import dataclasses

import corten
from corten import fx
from corten.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from corten.fx.graph import CodeGen
from corten.utils import _pytree as pytree
from corten.utils._python_dispatch import TorchDispatchMode

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


def fake_inputs(mode, leaves, apart=False):
    """Tensors without data for tensors; equal objects for equal ones, unless they are to be ``apart``."""
    known = {}

    def one(leaf):
        if not isinstance(leaf, corten.Tensor):
            return leaf
        if apart:
            return mode.from_tensor(leaf) if id(leaf) not in known and not known.setdefault(id(leaf)) else _apart(mode, leaf)
        if id(leaf) not in known:
            known[id(leaf)] = leaf, mode.from_tensor(leaf)
        return known[id(leaf)][1]

    return [one(leaf) for leaf in leaves]


def _apart(mode, leaf):
    """A tensor without data like another one, which is an input of its own."""
    with mode:
        made = corten.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
    return made.requires_grad_(leaf.requires_grad)


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


def _writable(leaves, mutated):
    """Inputs that may be written to: leaves that require gradients are seen through an alias."""
    return [
        leaf.view_as(leaf) if place in mutated and leaf.requires_grad and leaf.is_leaf else leaf
        for place, leaf in enumerate(leaves)
    ]


class _VisibleWrites(TorchDispatchMode):
    """Has batch normalisation, whose schema does not tell that it writes to its statistics, do so by ``copy_``."""

    def __init__(self, written):
        super().__init__()
        self.written = written

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        aten = corten.ops.aten
        if func is not aten.native_batch_norm.default or not args[5] or args[3] is None or args[4] is None:
            return func(*args, **(kwargs or {}))
        made = aten._native_batch_norm_legit_functional.default(*args)
        for statistic, value in zip(args[3:5], made[3:]):
            aten.copy_.default(statistic, value)
            self.written.append(statistic)
        return tuple(made[:3])


def with_visible_writes(flat_fn):
    """A function that does what another one does, whose writes are all seen."""
    def visible(*args):
        with _VisibleWrites(visible.written):
            return flat_fn(*args)

    visible.written = []
    return visible


def analyse(flat_fn, mode, leaves):
    """Runs a function on tensors without data and says what it does with them."""
    with mode, _random_numbers_kept():
        inputs = _fresh(leaves)
        tensors = {place: leaf for place, leaf in enumerate(inputs) if isinstance(leaf, corten.Tensor)}
        before = {place: leaf._version for place, leaf in tensors.items()}
        with corten.enable_grad() if corten.is_grad_enabled() else corten.no_grad():
            outputs, spec = pytree.tree_flatten(flat_fn(*inputs))
        written = {_storage(one) for one in getattr(flat_fn, "written", ())}
        mutated = [
            place for place, leaf in tensors.items() if leaf._version != before[place] or _storage(leaf) in written
        ]
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
    module.meta["trees"] = module.graph._codegen
    module.graph.set_codegen(CodeGen())
    module.recompile()
    return module


def with_trees(module):
    """Has a graph be a function of the trees in which its inputs came."""
    output = module.graph.output_node()
    output.args = (list(output.args[0]),)
    module.graph.set_codegen(module.meta.pop("trees"))
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


class _Retrace(fx.Interpreter):
    """Runs a graph while another one is recorded, whose nodes belong to the same pass."""

    def run_node(self, n):
        graph = get_proxy_mode().tracer.graph
        last = next(iter(reversed(graph.nodes)), None)
        made = super().run_node(n)
        for node in reversed(graph.nodes):
            if node is last:
                break
            for key in ("partitioner_tag", "nn_module_stack", "stack_trace"):
                if key in n.meta:
                    node.meta.setdefault(key, n.meta[key])
        return made


def _functional(module, args, table, mode):
    """A graph that does the same without writes."""
    def run(*values):
        return _Retrace(module).run(*values)

    functional = corten.func.functionalize(run, remove="mutations")
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    leaves = [leaf.detach() if isinstance(leaf, corten.Tensor) else leaf for leaf in pytree.tree_leaves(args)]
    with mode, _random_numbers_kept(), corten.no_grad():
        made = reset_codegen(make_fx(functional, decomposition_table=table, tracing_mode="fake")(*leaves))
    for node, name in zip([node for node in made.graph.nodes if node.op == "placeholder"], names):
        node.name = node.target = name
    return _without_write_back(made)


def _traced(function, args, table, mode):
    """The graph of a function; without writes, if it has some."""
    with mode, _random_numbers_kept():
        module = reset_codegen(make_fx(function, decomposition_table=table, tracing_mode="fake")(*args))
    if _writes(module):
        trees = module.meta["trees"]
        module = _functional(module, args, table, mode)
        module.meta["trees"] = trees
    output = module.graph.output_node()
    if isinstance(output.args[0], list):
        output.args = (tuple(output.args[0]),)
    module.recompile()
    return module


def note_forward():
    """Notes of the nodes that were recorded so far that they belong to the forward pass."""
    mode = get_proxy_mode()
    if mode is not None:
        for node in mode.tracer.graph.nodes:
            node.meta["partitioner_tag"] = "is_forward"


def capture_forward(flat_fn, mode, leaves, facts, table):
    """The graph of the forward pass: what is written to inputs, then the outputs."""
    def forward(*args):
        outputs = pytree.tree_leaves(flat_fn(*args))
        return [*(args[place] for place in facts.mutated), *outputs]

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
            own = _writable(primals, facts.mutated)
            outputs = pytree.tree_leaves(flat_fn(*own))
            note_forward()
            values = [outputs[place] for place in wanted]
            targets = {id(one): one for one in primals if isinstance(one, corten.Tensor) and one.requires_grad}
            found = dict(zip(targets, _gradients(values, list(targets.values()), tangents)))
        grads = [found.pop(id(one), None) for one in primals]
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
