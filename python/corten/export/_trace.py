"""Makes exported programs: runs a module once with tensors that stand for any of their sizes."""

from __future__ import annotations

import contextlib
import inspect
import re

import corten
from corten import nn, ops
from corten._export.verifier import TrainingIRVerifier
from corten._export.utils import Names, placeholder_prefixes
from corten.export import _regions, _stand_ins
from corten.export._recorder import Recorder, paused
from corten.export._unlift import _get_forward_arg_names
from corten.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from corten.export.graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, SymBoolArgument,
    SymFloatArgument, SymIntArgument, TensorArgument,
)
from corten.fx import GraphModule, Node
from corten.fx.experimental import _symexpr as ex
from corten.fx.node import has_side_effect
from corten.utils._pytree import tree_flatten, tree_flatten_with_path, tree_unflatten

has_side_effect(ops.aten._assert_scalar.default)

__all__ = []

_CONSTANTS = (int, float, bool, str, type(None))
_ABOUT_TREES = (
    "Export only supports pytree containers of basic types (Tensor, int, float, ...) as input. To register a custom "
    "dataclass, use torch.export.register_dataclass. To register a custom container type, use "
    "torch.utils._pytree.register_pytree_node. To register a constant input, use "
    "torch.utils._pytree.register_constant"
)


def _check_arguments(args, kwargs):
    from corten._dynamo.exc import UserError, UserErrorType

    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}",
        )
    symbolic = (corten.SymInt, corten.SymFloat, corten.SymBool)
    others = (corten.Tensor, corten.dtype, corten.device, corten.layout, corten.memory_format, *symbolic)
    for leaf in tree_flatten((args, kwargs))[0]:
        if not isinstance(leaf, (*_CONSTANTS, *others)):
            raise ValueError(f"Unsupported input type {type(leaf)}. {_ABOUT_TREES}")


def _leaf_names(mod, args, kwargs):
    """The names of the leaves of the inputs, after the parameters of ``forward``."""
    bound = inspect.signature(mod.forward).bind(*args, **kwargs)
    combined = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind == inspect.Parameter.VAR_KEYWORD:
            combined.update(value)
        else:
            combined[name] = value
    named = [key for key in kwargs if key in combined]
    order = [key for key in combined if key not in named] + named
    paths = tree_flatten_with_path({key: combined[key] for key in order})[0]
    return ["_".join(map(_key_name, path)) for path, _ in paths]


def _key_name(key):
    name = getattr(key, "name", None)
    if name is None:
        name = str(key.idx if hasattr(key, "idx") else key.key)
    return re.sub(r"[^a-zA-Z0-9]", "_", name).lower()


class _State:
    """The parameters and buffers of a module, and the tensors that stand for them meanwhile."""

    def __init__(self, mod, inputs):
        self.mod, self.inputs = mod, inputs
        self.parameters = dict(mod.named_parameters(remove_duplicate=False))
        self.buffers = dict(mod.named_buffers(remove_duplicate=False))
        self.without_state = {
            f"{path}.{name}" if path else name
            for path, module in mod.named_modules(remove_duplicate=False)
            for name in module._non_persistent_buffers_set
        }
        self.stand_ins, self.names_of = {}, {}

    def items(self):
        """The tensors by name and kind."""
        for name, value in self.parameters.items():
            yield name, value, InputKind.PARAMETER
        for name, value in self.buffers.items():
            yield name, value, InputKind.BUFFER

    def attributes(self):
        """The other tensors that modules hold, by name."""
        found = {}
        for path, module in self.mod.named_modules(remove_duplicate=False):
            for name, value in vars(module).items():
                if isinstance(value, corten.Tensor):
                    found.setdefault(id(value), f"{path}.{name}" if path else name)
        return found

    @contextlib.contextmanager
    def replaced(self):
        """A block in which the module has the tensors that stand for its own."""
        places = []
        for name, value, _ in self.items():
            owner, _, last = name.rpartition(".")
            module = self.mod.get_submodule(owner)
            home = module._parameters if last in module._parameters else module._buffers
            places.append((home, last, value))
        for home, last, value in places:
            home[last] = self.stand_ins[id(value)]
        held = [(module, set(vars(module))) for module in self.mod.modules()]
        kept = {id(module): dict(vars(module)) for module in self.mod.modules()}
        try:
            yield
        finally:
            self.assigned = self._assigned(held, kept)
            self.written = [
                (home[last], self.stand_ins[id(value)]) for home, last, value in places
                if home.get(last) is not self.stand_ins[id(value)] and home.get(last) is not None
            ]
            for home, last, value in places:
                home[last] = value

    def _assigned(self, held, kept):
        """The attributes that were given tensors, which are taken away again."""
        names = []
        for module, _ in held:
            before = kept[id(module)]
            for name, value in list(vars(module).items()):
                if isinstance(value, corten.Tensor) and before.get(name) is not value:
                    names.append(name)
                    if name in before:
                        module.__dict__[name] = before[name]
                    else:
                        del module.__dict__[name]
        return names


class _Tracing:
    """One export."""

    def __init__(self, mod, args, kwargs, dynamic_shapes, preserved):
        self.mod, self.args, self.kwargs, self.preserved = mod, args, kwargs, preserved
        self.leaves, self.in_spec = tree_flatten((args, kwargs))
        self.inputs = _stand_ins.StandIns(mod, args, kwargs, dynamic_shapes)
        self.state = _State(mod, self.inputs)
        self.recorder = Recorder(mod, inputs=self.inputs)
        self.specs, self.order = [], []

    def _input(self, value, kind, target=None, persistent=None):
        node = self.recorder.graph.placeholder(f"arg{len(self.order)}_1")
        node.meta["val"] = value
        if isinstance(value, corten.Tensor):
            described = self.inputs.describe(value)
            if value.requires_grad:
                described.requires_grad_(True)
            self.recorder.keep(node, described, value)
        self.order.append((node, kind, target, persistent))
        return node

    def _place_inputs(self):
        recorder, state = self.recorder, self.state
        for name, value, kind in state.items():
            stand_in = state.stand_ins.get(id(value))
            if stand_in is None:
                stand_in = state.stand_ins[id(value)] = self.inputs.convert(value)
            persistent = name not in state.without_state if kind == InputKind.BUFFER else None
            recorder.bind(stand_in, self._input(stand_in, kind, name, persistent))
        self.flat = [self.inputs.convert_input(place, leaf) for place, leaf in enumerate(self.leaves)]
        for value in self.flat:
            node = self._input(value, InputKind.USER_INPUT)
            recorder.numbers.note(node, value)
            if recorder.before_users is None:
                recorder.before_users = node
            if isinstance(value, corten.Tensor) or recorder.is_symbolic(value):
                recorder.bind(value, node)

    def run(self):
        """Runs the module and gives the flat result."""
        with paused():
            self._place_inputs()
        recorder = self.recorder
        recorder.names_of_constants = self.state.attributes()
        args, kwargs = tree_unflatten(self.flat, self.in_spec)
        calls = _PreservedCalls(self, self.preserved)
        with _exporting(), self.state.replaced(), self.inputs.mode(), calls, recorder.recording():
            result = _run_recorded(self.mod, args, kwargs)
            with paused():
                leaves, self.out_spec = tree_flatten(result)
            self._write_assigned()
        self.calls = calls.signatures
        if self.state.assigned:
            names = ", ".join(f"self.{name}" for name in self.state.assigned)
            many = len(self.state.assigned) > 1
            import warnings

            warnings.warn(
                f"The tensor attribute{'s' if many else ''} {names} {'were' if many else 'was'} assigned during "
                "export. Such attributes must be registered as buffers using the `register_buffer` API "
                "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_buffer).", stacklevel=4,
            )
        return leaves

    def _write_assigned(self):
        """Buffers that were given other tensors get their elements."""
        for name, value in self.state.buffers.items():
            owner, _, last = name.rpartition(".")
            stand_in = self.state.stand_ins[id(value)]
            found = self.mod.get_submodule(owner)._buffers.get(last)
            if found is not None and found is not stand_in:
                target, source = self.recorder.node_of(stand_in), self.recorder.node_of(found)
                node = self.recorder.graph.create_node(
                    "call_function", ops.aten.copy_.default, (target, source), {}, name="copy__default",
                )
                self.recorder.note(node)
                node.meta["stack_trace"] = source.meta.get("stack_trace")
                node.meta["val"] = target.meta["val"]
                self.state.mod.get_submodule(owner)._buffers[last] = stand_in

    def output(self, leaves):
        """Adds the result; gives what it consists of."""
        found, specs = [], []
        for leaf in leaves:
            if isinstance(leaf, corten.Tensor):
                node = self.recorder.node_of(leaf)
            elif isinstance(leaf, (corten.SymInt, corten.SymFloat, corten.SymBool)):
                node = self.recorder.symbol(leaf)
            elif isinstance(leaf, _CONSTANTS):
                node = leaf
            else:
                raise RuntimeError(
                    f"Found {type(leaf)} in output, which is not a known type. If this type holds tensors, you need to "
                    "register a pytree for it. See https://github.com/pytorch/functorch/issues/475 for a brief "
                    "explanation why. If you don't need to register a pytree, please leave a comment explaining your "
                    "use case and we'll make this more ergonomic to deal with"
                )
            found.append(node)
            specs.append((OutputKind.USER_OUTPUT, node))
        self._assert_conditions()
        self.recorder.graph.output(tuple(found))
        return specs

    def _assert_conditions(self):
        """Adds checks of what the program relies on and only data tells."""
        env = self.recorder.inputs.fake_mode.shape_env
        known = {} if env is None else env.deferred_runtime_asserts
        for one in [one for several in known.values() for one in several]:
            condition = env.replace(one.expr)
            if ex.is_number(condition) or not self.recorder.numbers.computes(condition):
                continue
            node = self.recorder.numbers.of(condition)
            text = one.msg or f"Runtime assertion failed for expression {condition} on node '{node.name}'"
            check = self.recorder.graph.create_node(
                "call_function", ops.aten._assert_scalar.default, (node, text), {}, name="_assert_scalar_default",
            )
            self.recorder.note(check)
            check.meta["val"] = None


@contextlib.contextmanager
def _exporting():
    """A block in which programs learn that they are exported."""
    from corten import compiler

    before = compiler._is_compiling_flag, compiler._is_exporting_flag
    compiler._is_compiling_flag = compiler._is_exporting_flag = True
    try:
        yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = before


def _run_recorded(mod, args, kwargs):
    return mod(*args, **kwargs)


class _PreservedCalls:
    """Notes inputs and outputs of the modules whose calls are to be kept."""

    def __init__(self, tracing, names):
        self.tracing, self.names, self.signatures, self.handles = tracing, names, {}, []

    def _specs(self, leaves):
        return [_argument_of(self.tracing.recorder, leaf) for leaf in leaves]

    def __enter__(self):
        for name in self.names:
            module = self.tracing.mod.get_submodule(name)
            self.handles.append(module.register_forward_hook(self._hook(name), with_kwargs=True))
        return self

    def _hook(self, name):
        def note(module, args, kwargs, output):
            if name in self.signatures:
                return
            with paused():
                inputs, in_spec = tree_flatten((args, kwargs))
                outputs, out_spec = tree_flatten(output)
            self.signatures[name] = ModuleCallSignature(
                self._specs(inputs), self._specs(outputs), in_spec, out_spec,
                _get_forward_arg_names(module, args, kwargs),
            )

        return note

    def __exit__(self, kind, value, traceback):
        for handle in self.handles:
            handle.remove()


def _argument_of(recorder, value):
    """A value as an argument by name: a node for now."""
    if isinstance(value, corten.Tensor):
        return _specification(recorder.node_of(value))
    if recorder.is_symbolic(value):
        return _specification(recorder.symbol(value))
    return ConstantArgument("", value)


def _specification(node):
    """A node as an argument by name."""
    if not isinstance(node, Node):
        return ConstantArgument("", node)
    value = node.meta.get("val")
    kinds = ((corten.SymBool, SymBoolArgument), (corten.SymFloat, SymFloatArgument), (corten.SymInt, SymIntArgument))
    for kind, made in kinds:
        if isinstance(value, kind):
            return made(node.name)
    return TensorArgument(node.name) if isinstance(value, corten.Tensor) else ConstantArgument(node.name, value)


def _is_dead(node):
    if node.op != "call_function" or node.users:
        return False
    target = node.target
    schema = getattr(target, "_schema", None)
    if schema is not None and ("!" in str(schema) or str(schema).endswith("-> ()")):
        return False
    return not node.is_impure() and target is not corten._C._set_grad_enabled


def _remove_dead(graph):
    for node in reversed(list(graph.nodes)):
        if _is_dead(node):
            graph.erase_node(node)


_CONVERSIONS = ("aten.to.dtype", "aten.to.device", "aten.to.dtype_layout")


def _assert_metadata(graph):
    """Checks of the operands of conversions, whose dtype and device the program was made for."""
    for node in list(graph.nodes):
        if node.op != "call_function" or str(node.target) not in _CONVERSIONS:
            continue
        before = node.prev
        if before.target is ops.aten._assert_tensor_metadata.default and before.args[0] is node.args[0]:
            continue
        value = node.args[0].meta["val"]
        with graph.inserting_before(node):
            made = graph.create_node(
                "call_function", ops.aten._assert_tensor_metadata.default, (node.args[0],),
                {"dtype": value.dtype, "device": _device(node.args[0]), "layout": value.layout},
                name="_assert_tensor_metadata_default",
            )
        made.meta.update({key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta})


def _device(node):
    value = node.meta["val"]
    return getattr(value, "fake_device", value.device)


class _Naming:
    """Names of the nodes: inputs after the parameters of ``forward``, the state after its names."""

    def __init__(self, tracing):
        self.tracing, self.names, self.of = tracing, Names(), {}

    def apply(self, users):
        tracing, names = self.tracing, self.names
        inputs = iter(users)
        for node, kind, target, _ in tracing.order:
            if kind == InputKind.USER_INPUT:
                self.of[node] = names.take(next(inputs), True)
        for node, kind, target, _ in tracing.order:
            if kind != InputKind.USER_INPUT:
                base = re.sub(r"[^a-zA-Z0-9]", "_", target).lower()
                self.of[node] = names.take(placeholder_prefixes[kind] + base, True)
        for node in tracing.recorder.graph.nodes:
            if node.op != "placeholder":
                self.of[node] = names.take(node.name)
        for node, name in self.of.items():
            node.name = name
            if node.op == "placeholder":
                node.target = name
        _regions.name_inputs(tracing.recorder.graph.owning_module, Names)


def _ordered_inputs(tracing):
    """The placeholders in their order, with the constants among them."""
    known = {node: entry for entry in tracing.order for node in entry[:1]}
    for name, (value, node) in tracing.recorder.constants.items():
        known[node] = (node, InputKind.CONSTANT_TENSOR, name, None)
    return [known[node] for node in tracing.recorder.graph.nodes if node.op == "placeholder"]


def _export(mod, args, kwargs=None, dynamic_shapes=None, *, strict=False, preserve_module_call_signature=()):
    """The program of a module."""
    kwargs = dict(kwargs or {})
    _check_arguments(args, kwargs)
    tracing = _Tracing(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature)
    leaves = tracing.run()
    with paused():
        return _finish(tracing, leaves)


def _finish(tracing, leaves):
    recorder, graph = tracing.recorder, tracing.recorder.graph
    outputs = tracing.output(leaves)
    tracing.inputs.finish(recorder)
    _assert_metadata(graph)
    module = GraphModule(recorder.submodules, graph)
    _regions.wrap(module, recorder)
    tracing.order = _ordered_inputs(tracing)
    users = _leaf_names(tracing.mod, tracing.args, tracing.kwargs)
    named = {name: [arg for arg in (*call.inputs, *call.outputs)] for name, call in tracing.calls.items()}
    before = {node.name: node for node in graph.nodes}
    _Naming(tracing).apply(users)
    for args in named.values():
        for arg in args:
            if arg.name in before:
                arg.name = before[arg.name].name
    module.graph = graph
    signature = _signature(tracing, outputs)
    return _program(tracing, module, signature)


def _signature(tracing, outputs):
    inputs = []
    for node, kind, target, persistent in tracing.order:
        inputs.append(InputSpec(kind, _specification(node), target, persistent))
    final = tracing.recorder.graph.output_node().args[0]
    return ExportGraphSignature(inputs, [
        OutputSpec(kind, _specification(node), None) for (kind, _), node in zip(outputs, final)
    ])


def _program(tracing, module, signature):
    state, mod = tracing.state, tracing.mod
    values = {**state.parameters, **{
        name: value for name, value in state.buffers.items() if name not in state.without_state
    }}
    constants = {name: value for name, (value, _) in tracing.recorder.constants.items()}
    constants.update({name: value for name, value in state.buffers.items() if name in state.without_state})
    root = ModuleCallSignature(
        [], [], tracing.in_spec, tracing.out_spec, _get_forward_arg_names(mod, tracing.args, tracing.kwargs),
    )
    entries = [ModuleCallEntry("", root)] + [
        ModuleCallEntry(name, tracing.calls.get(name))
        for name, _ in mod.named_modules(remove_duplicate=False) if name
    ]
    return ExportedProgram(
        root=module, graph=module.graph, graph_signature=signature, state_dict=values,
        range_constraints=tracing.inputs.range_constraints(), module_call_graph=entries,
        example_inputs=(tracing.args, tracing.kwargs), constants=constants, verifiers=[TrainingIRVerifier],
    )


def _wrapped_as_module(function):
    """A function as a module."""
    from corten.export._wrapper_utils import _WrapperModule

    return function if isinstance(function, nn.Module) else _WrapperModule(function)


