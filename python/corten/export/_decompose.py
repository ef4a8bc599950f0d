"""Programs in the core set of operators, without operators that write."""

from __future__ import annotations

import copy

import corten
from corten import ops
from corten._export.utils import Names
from corten._ops import HigherOrderOperator
from corten._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from corten.export._unlift import _unlift_exported_program_lifted_states
from corten.export.graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument,
)
from corten.func import functionalize
from corten.fx import GraphModule, Interpreter, map_arg
from corten.fx.experimental._symbolic_proxies import argument as number_argument
from corten.fx.experimental.proxy_tensor import get_proxy_mode, make_fx, py_sym_types, track_tensor_tree
from corten.utils._pytree import tree_map_only

__all__ = ["core_table", "decompose"]


def core_table():
    """The operators that are replaced, and by what."""
    from corten._decomp import core_aten_decompositions

    return dict(core_aten_decompositions().items())


class _Lowering(Interpreter):
    """Runs a graph while another one is recorded of it, whose nodes get the notes of this one's."""

    def __init__(self, module, table):
        super().__init__(module)
        self.table = table

    def run_node(self, n):
        """Runs a node."""
        self.node = n
        graph = get_proxy_mode().tracer.graph
        last = next(iter(reversed(graph.nodes)), None)
        result = super().run_node(n)
        made = last.next if last is not None else next(iter(graph.nodes), None)
        while made is not None and made is not graph._root:
            for key in ("stack_trace", "nn_module_stack", "torch_fn"):
                if key in n.meta:
                    made.meta.setdefault(key, n.meta[key])
            made = made.next
        return result

    def call_function(self, target, args, kwargs):
        """Calls an operator."""
        if isinstance(target, HigherOrderOperator) and any(isinstance(arg, GraphModule) for arg in args):
            return self._with_graphs(target, args, kwargs)
        if target in _ITEM and isinstance(self.node.meta.get("val"), py_sym_types):
            return self._number(args[0])
        if target is ops.aten._assert_scalar.default and isinstance(args[0], py_sym_types):
            return self._assertion(*args)
        return super().call_function(target, args, kwargs)

    def _number(self, tensor):
        """The value of a tensor as the number that is left open in the program."""
        tracer, value = get_proxy_mode().tracer, self.node.meta["val"]
        proxy = tracer.create_proxy(
            "call_function", ops.aten._local_scalar_dense.default, (_proxies(tracer, _plain(tensor)),), {},
            name="_local_scalar_dense",
        )
        track_tensor_tree(value, proxy, constant=None, tracer=tracer)
        return value

    @staticmethod
    def _assertion(condition, message):
        """A check of numbers that are left open, which the program makes when it runs."""
        tracer = get_proxy_mode().tracer
        given = number_argument(tracer, condition), message
        tracer.create_proxy("call_function", ops.aten._assert_scalar.default, given, {}, name="_assert_scalar_default")

    def _with_graphs(self, target, args, kwargs):
        """A call of an operator that takes graphs, whose graphs are made of the same operators."""
        from corten._functionalization import thread, wrap

        if target._name in ("wrap_with_set_grad_enabled", "wrap_with_autocast"):
            return target.run(*args, **kwargs)
        tracer = get_proxy_mode().tracer
        args = tree_map_only(corten.Tensor, _plain, args)
        given = [
            self._attribute(tracer, arg) if isinstance(arg, GraphModule) else _proxies(tracer, arg) for arg in args
        ]
        proxy = tracer.create_proxy("call_function", target, tuple(given), kwargs, name=target._name)
        results = self.node.meta["val"]
        track_tensor_tree(results, proxy, constant=None, tracer=tracer)
        return tree_map_only(corten.Tensor, lambda one: wrap(one, thread.levels[-1]), results)

    def _attribute(self, tracer, module):
        inner = lowered(module, [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")], self.table)
        for node, old in zip(inner.graph.find_nodes(op="placeholder"), module.graph.find_nodes(op="placeholder")):
            node.name = node.target = old.name
        inner.recompile()
        name = self.names[id(module)]
        setattr(tracer.root, name, inner)
        return tracer.create_proxy("get_attr", name, (), {})

    def get_attr(self, target, args, kwargs):
        """An attribute."""
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, GraphModule):
            self.names[id(value)] = target
        return value


#: What gives the value of a tensor as a number.
_ITEM = (ops.aten.item.default, ops.aten._local_scalar_dense.default)


def _plain(tensor):
    """The tensor below functionalisation."""
    from corten._functionalization import _from_functional_tensor, _is_functional_tensor, _sync

    if not _is_functional_tensor(tensor):
        return tensor
    _sync(tensor)
    return _from_functional_tensor(tensor)


def _proxies(tracer, value):
    if isinstance(value, (list, tuple)):
        return type(value)(_proxies(tracer, one) for one in value)
    return tracer.unwrap_proxy(value)


def lowered(module, inputs, table):
    """The graph of a module in the operators of a table."""
    mode = next((value.fake_mode for value in inputs if isinstance(value, FakeTensor)), None)
    mode = mode or FakeTensorMode(allow_non_fake_inputs=True, export=True)
    runner = _Lowering(module, table)
    runner.mode, runner.names = mode, {}

    def call(*args):
        return runner.run(*args)

    def described(value):
        if not isinstance(value, corten.Tensor):
            return value
        made = mode.from_tensor(value)
        with mode:
            return made.detach()

    with corten.no_grad():
        flat = [described(value) for value in inputs]
        made = make_fx(functionalize(call), decomposition_table=table, tracing_mode="fake",
                       _allow_non_fake_inputs=True)(*flat)
    _numbers(made)
    return made


def _numbers(module):
    """Operands that were made of numbers are numbers."""
    for node in module.graph.find_nodes(op="get_attr"):
        value = getattr(module, node.target)
        if isinstance(value, corten.Tensor) and value.dim() == 0 and node.target.startswith("_tensor_constant"):
            with unset_fake_temporarily():
                number = value.item()
            for user in list(node.users):
                user.args = map_arg(user.args, lambda one, old=node, new=number: new if one is old else one)
            module.graph.erase_node(node)
    module.recompile()


def _lift(made, arranged, constants):
    """Makes tensors that decompositions brought inputs of the graph."""
    graph = made.graph
    _remove_unused(graph)
    users = [place for place, (spec, _) in enumerate(arranged) if spec.kind == InputKind.USER_INPUT]
    first = graph.find_nodes(op="placeholder")[users[0]] if users else None
    for node in graph.find_nodes(op="get_attr"):
        value = getattr(made, node.target)
        if not isinstance(value, corten.Tensor):
            continue
        if not node.users:
            graph.erase_node(node)
            continue
        name = f"lifted_tensor_{len(constants)}"
        with graph.inserting_before(first) if first is not None else graph.inserting_before():
            one = graph.placeholder(f"c_{name}")
        one.meta = dict(node.meta)
        node.replace_all_uses_with(one)
        graph.erase_node(node)
        constants[name] = value
        place = users[0] if users else len(arranged)
        arranged.insert(place, (InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(one.name), name), one))
        users = [place + 1 for place in users]


def _table_of(given):
    if given is None:
        return core_table()
    return dict(given.materialize() if hasattr(given, "materialize") else given)


def decompose(program, decomp_table=None):
    """The program after its operators were replaced."""
    table = _table_of(decomp_table)
    order = _order(program)
    users = [(spec, node) for spec, node in _placeholders(program) if spec.kind == InputKind.USER_INPUT]
    specs = {spec.target: spec for spec in program.graph_signature.input_specs}
    by_old = {spec.target: node for spec, node in _placeholders(program)}
    arranged = [(specs[name], by_old[name]) for name in order] + users
    module = _arranged(program, [node for _, node in arranged])
    made = lowered(module, [node.meta.get("val") for _, node in arranged], table)
    constants = dict(program.constants)
    _lift(made, arranged, constants)
    return _finished(program, made, arranged, constants)


def _placeholders(program):
    return zip(program.graph_signature.input_specs, program.graph.find_nodes(op="placeholder"))


def _order(program):
    """The names of parameters, buffers and constants in the order of a module that has them all."""
    module = _unlift_exported_program_lifted_states(program, check_guards=False)
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    names += [name for name, _ in module.named_buffers(remove_duplicate=False)]
    wanted = [
        spec.target for spec in program.graph_signature.input_specs if spec.kind != InputKind.USER_INPUT
    ]
    return [name for name in names if name in wanted] + [name for name in wanted if name not in names]


def _arranged(program, nodes):
    """The graph with its placeholders in another order, and what it writes back among its results."""
    module = copy.deepcopy(program.graph_module)
    graph = module.graph
    # By their order: copies may be named otherwise, as `input` is, which is a function of Python's.
    places = zip(program.graph.find_nodes(op="placeholder"), graph.find_nodes(op="placeholder"))
    copies = {node.name: copied for node, copied in places}
    for node in reversed(nodes):
        graph._root.append(copies[node.name])
    module.recompile()
    return module


def _finished(program, made, arranged, constants):
    graph = made.graph
    placeholders = graph.find_nodes(op="placeholder")
    for (spec, old), node in zip(arranged, placeholders):
        node.meta = {key: old.meta[key] for key in ("val", "tensor_meta") if key in old.meta}
    outputs = graph.output_node()
    written = _written(graph, placeholders, arranged, program)
    signature = program.graph_signature
    results = list(outputs.args[0])
    final, specs = [], []
    for kind, target, value in written:
        final.append(value)
        specs.append((kind, target))
    for spec, value in zip(signature.output_specs, results):
        final.append(value)
        specs.append((spec.kind, spec.target))
    outputs.args = (tuple(final),)
    _remove_unused(graph)
    _rename(graph, placeholders, arranged)
    made.recompile()
    return _program(program, made, arranged, specs, constants)


def _written(graph, placeholders, arranged, program):
    """What is written to inputs, as results."""
    kinds = {
        InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
        InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    }
    found = {}
    for node in list(graph.nodes):
        is_copy = node.op == "call_function" and node.target is ops.aten.copy_.default
        if is_copy and node.args[0] in placeholders:
            place = placeholders.index(node.args[0])
            spec, old = arranged[place]
            if spec.kind not in kinds:
                raise RuntimeError(
                    f"Constant {spec.target} is mutated in the forward method. Pls register it as buffer"
                )
            target = spec.target if spec.kind != InputKind.USER_INPUT else old.name
            node.replace_all_uses_with(node.args[1])
            found[place] = (kinds[spec.kind], target, node.args[1])
            graph.erase_node(node)
    users = [place for place in sorted(found) if found[place][0] == OutputKind.USER_INPUT_MUTATION]
    others = [place for place in sorted(found) if place not in users]
    return [found[place] for place in (*others, *users)]


def _remove_unused(graph):
    for node in reversed(list(graph.nodes)):
        if node.op not in ("call_function", "get_attr") or node.users:
            continue
        schema = str(getattr(node.target, "_schema", ""))
        if "!" in schema or schema.endswith("-> ()") or node.op == "call_function" and node.is_impure(False):
            continue
        graph.erase_node(node)


def _rename(graph, placeholders, arranged):
    names = Names()
    order = sorted(range(len(arranged)), key=lambda place: arranged[place][0].kind != InputKind.USER_INPUT)
    for place in order:
        placeholders[place].name = placeholders[place].target = names.take(arranged[place][1].name, True)
    for node in graph.nodes:
        if node.op != "placeholder":
            node.name = names.take(node.name)


def _program(program, made, arranged, specs, constants):
    from corten._export.verifier import Verifier
    from corten.export._trace import _specification
    from corten.export.exported_program import ExportedProgram

    nodes = made.graph.find_nodes(op="placeholder")
    inputs = []
    for node, (spec, _) in zip(nodes, arranged):
        arg = copy.copy(spec.arg)
        if not isinstance(arg, ConstantArgument):
            arg.name = node.name
        inputs.append(InputSpec(spec.kind, arg, spec.target, spec.persistent))
    final = made.graph.output_node().args[0]
    outputs = [OutputSpec(kind, _specification(node), target) for (kind, target), node in zip(specs, final)]
    module = GraphModule({name: child for name, child in made.named_children()}, made.graph)
    return ExportedProgram(
        root=module, graph=module.graph, graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict=program.state_dict, range_constraints=copy.copy(program.range_constraints),
        module_call_graph=copy.deepcopy(program.module_call_graph), example_inputs=program.example_inputs,
        constants=constants, verifiers=[Verifier],
    )
