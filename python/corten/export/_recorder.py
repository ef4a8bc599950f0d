"""Records the operators that a program calls, before operators made of others call these, as a graph."""

from __future__ import annotations

import contextlib
import functools
import operator
import re
import sys
import traceback

import corten
from corten import _C, ops
from corten._ops import HigherOrderOperator
from corten.export import _operators, _overloads, _symbols  # noqa: F401
from corten.fx.graph import Graph
from corten.fx.passes.shape_prop import _extract_tensor_metadata
from corten.overrides import TorchFunctionMode
from corten.utils._pytree import tree_map_only
from corten.utils import _python_dispatch
from corten.utils._python_dispatch import _overload

__all__ = ["Recorder", "current"]

_stack = []


def current():
    """The recorder that runs innermost, or None."""
    return _stack[-1] if _stack else None


def recording():
    """The recorder that runs innermost, where calls are being recorded; None otherwise."""
    if not _stack or not _C._set_tracing_enabled(False):
        return None
    _C._set_tracing_enabled(True)
    return _stack[-1]


def _handle(name, *args, **kwargs):
    if _python_dispatch.lift_arguments is not None:
        args, kwargs = _python_dispatch.lift_arguments(name, args, kwargs)
    return current().call(name, args, kwargs)


@contextlib.contextmanager
def paused():
    """A block in which calls are not recorded."""
    before = _C._set_tracing_enabled(False)
    try:
        yield
    finally:
        _C._set_tracing_enabled(before)


#: Folders whose frames are no lines of the program.
_OWN = tuple(
    corten.__path__[0] + folder for folder in (
        "/export/", "/_export/", "/overrides.py", "/nn/functional", "/nn/modules/module.py", "/fx/", "/ops.py",
        "/utils/", "/_higher_order_ops/", "/functional.py", "/nn/modules/_hooks.py", "/_tensor", "/_",
        "/autograd/grad_mode.py",
    )
)


def stack_trace():
    """The lines of the program that make the call, as tracebacks have them."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_OWN):
            found.append((frame, frame.f_lineno))
        elif frame.f_code.co_name == "_run_recorded":
            break
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(found)).format()).rstrip("\n")


class _Names(TorchFunctionMode):
    """Remembers which function of Python makes the calls, and records tensors that are made of numbers."""

    def __init__(self, recorder):
        self.recorder, self.counts = recorder, {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        recorder, before = self.recorder, self.recorder.function
        name = getattr(func, "__name__", None)
        if name is not None and name != "__get__":
            self.counts[name] = number = self.counts.get(name, 0) + 1
            recorder.function = (f"{name}_{number}", f"{type(func).__name__}.{name}")
        try:
            return self._called(recorder, func, name, args, kwargs)
        finally:
            recorder.function = before

    @staticmethod
    def _called(recorder, func, name, args, kwargs):
        if func in _CONSTANTS and recorder.makes_constant(func, args):
            made = func(*args, **kwargs)
            return made if id(made) in recorder.known else recorder.constant(made, func is not corten.as_tensor)
        if name in _METHODS and current() is recorder and args and func is getattr(corten.Tensor, name, None):
            if name in _CONVERSIONS:
                return recorder.call("aten::to.dtype", (args[0], _CONVERSIONS[name]), kwargs, choose=False)
            if name == "new_tensor" and not isinstance(args[1], corten.Tensor):
                made = func(*args, **kwargs)
                return made if id(made) in recorder.known else recorder.constant(made)
            if name == "contiguous" and args[0].is_contiguous(**kwargs):
                return args[0]
            if name == "to" or name == "cpu":
                converted = _overloads.conversion(args if name == "to" else (*args, "cpu"), kwargs)
                return recorder.call(*converted, choose=False)
        return func(*args, **kwargs)


_CONSTANTS = (corten.tensor, corten.as_tensor)
_CONVERSIONS = {
    "float": corten.float32, "double": corten.float64, "half": corten.float16, "bfloat16": corten.bfloat16,
    "long": corten.int64, "int": corten.int32, "bool": corten.bool, "short": corten.int16,
    "char": corten.int8, "byte": corten.uint8, "cfloat": corten.complex64, "cdouble": corten.complex128,
}
_METHODS = frozenset((*_CONVERSIONS, "new_tensor", "contiguous", "to", "cpu"))


class _Modules:
    """The modules that are being called, by global hooks."""

    def __init__(self, root):
        self.root, self.stack, self.calls = root, [], {}
        self.paths = {}
        for path, module in root.named_modules(remove_duplicate=False):
            self.paths.setdefault(id(module), path)

    def enter(self, module, args):
        path = self.paths.get(id(module))
        if path is None:
            self.stack.append(None)
            return
        number = self.calls.get(path, 0)
        self.calls[path] = number + 1
        suffix, kind = f"@{number}" if number else "", type(module)
        self.stack.append((f"L__self__{path}{suffix}", (path, f"{kind.__module__}.{kind.__qualname__}")))

    def leave(self, module, args, output):
        self.stack.pop()

    def current(self):
        return dict(one for one in self.stack if one is not None)

    @contextlib.contextmanager
    def watched(self):
        from corten.nn.modules import module

        before = module.register_module_forward_pre_hook(self.enter)
        after = module.register_module_forward_hook(self.leave)
        try:
            yield
        finally:
            before.remove()
            after.remove()


class Recorder:
    """A graph that grows while a program runs.

    Args:
        root: The module that is called; the paths of modules begin there.
        parent: The recorder of the program around, for the branches of operators that take functions.
        inputs: Makes the tensors that the program runs with.
    """

    def __init__(self, root=None, parent=None, inputs=None):
        self.graph, self.known, self.kept = Graph(), {}, []
        self.parent, self.inputs = parent, parent.inputs if parent else inputs
        self.constants, self.lifted = {}, 0
        self.function = parent.function if parent else None
        self.modules = parent.modules if parent else _Modules(root)
        self.grad_enabled = self.initial_grad = corten.is_grad_enabled()
        self.submodules, self.captured = {}, []
        #: How often the program said that a stage of a pipeline ends.
        self.pipeline_stage = 0
        self.before_users, self.names_of_constants = None, {}
        self.numbers = _symbols.Nodes(self)

    # Values

    def describe(self, value):
        """What is kept as the value of a node, given the tensor."""
        return self.inputs.describe(value)

    def bind(self, value, node):
        """Says that a tensor, or a number that is not known, is the value of a node."""
        self.numbers.note(node, value)
        self.known[id(value)] = node
        self.kept.append(value)

    def is_symbolic(self, value):
        """Whether a value is a number that is not known."""
        return isinstance(value, (corten.SymInt, corten.SymFloat, corten.SymBool)) and hasattr(value, "node")

    def placeholder(self, name, value):
        """A new input before all calls."""
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), None)
        before = self.before_users or first
        if before is None:
            node = self.graph.placeholder(name)
        else:
            with self.graph.inserting_before(before):
                node = self.graph.placeholder(name)
        node.meta["val"] = value
        return node

    def node_of(self, value):
        """The node of a tensor; one that the program did not get becomes a constant, or an input of a branch."""
        found = self.known.get(id(value))
        if found is not None:
            return found
        if self.parent is not None:
            return self.capture(value)
        return self.lift(value)

    def capture(self, value):
        """An input of a branch for a value of the program around."""
        outer = self.parent.node_of(value)
        node = self.placeholder(outer.name, self.describe(value))
        self.captured.append(outer)
        self.bind(value, node)
        return node

    def lift(self, value, name=None):
        """An input for a tensor that the program holds itself."""
        name = name or self.names_of_constants.get(id(value)) or f"lifted_tensor_{self.lifted}"
        self.lifted += name == f"lifted_tensor_{self.lifted}"
        node = self.placeholder("c_" + re.sub(r"[^a-zA-Z0-9]", "_", name).lower(), self.describe(value))
        self.constants[name] = (value, node)
        self.bind(value, node)
        return node

    def argument(self, value):
        """An argument as the graph has it."""
        if isinstance(value, corten.Tensor):
            return self.node_of(value)
        if isinstance(value, (corten.SymInt, corten.SymFloat, corten.SymBool)):
            return self.symbol(value)
        if isinstance(value, corten.Size):
            value = tuple(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.argument, value)) if type(value) in (list, tuple) else [
                self.argument(one) for one in value
            ]
        return value

    def symbol(self, value):
        """The node of a number that is not known, or the number where it is."""
        return _symbols.node_of(self, value)

    # Calls

    def makes_constant(self, func, args):
        """Whether a function makes a tensor out of numbers alone."""
        return bool(args) and not isinstance(args[0], corten.Tensor) and current() is self

    def constant(self, value, detached=True):
        """A tensor that the program made of numbers: an input, and a copy of it."""
        with paused():
            kept, value = self.inputs.constant(value)
            self.lift(kept)
            self.emit(ops.aten.lift_fresh_copy.default, (kept,), {}, value)
            if detached:
                self.emit(ops.aten.detach_.default, (value,), {}, value)
        return value

    def call(self, name, args, kwargs, choose=True):
        """Calls an operator and records it."""
        self.follow_grad_mode()
        if name == "aten::lift_fresh":
            return self.constant(args[0], self.method != "as_tensor")
        with paused():
            if choose:
                name, args, kwargs = _overloads.chosen(name, args, kwargs)
                args = self.of_method(name, args)
                name = _overloads.of_method(name, self.method, args)
            if name in ("aten::reshape", "aten::view") and self.is_number(args[0]):
                return self.run(name, args, kwargs) if isinstance(args[0], corten.Tensor) else corten.tensor(args[0])
            if name == "aten::reshape" and self.is_same(args):
                return args[0]
            result = self.run(name, args, kwargs)
            if _is_question(name):
                self.asked(args, result)
            else:
                args, kwargs = _overloads.without_defaults(name, args, kwargs)
                self.emit(_overload(name), args, kwargs, result)
        return result

    def is_number(self, value):
        """Whether an operand was made of a number that elements are set to."""
        if not isinstance(value, corten.Tensor):
            return True
        return self.method == "__setitem__" and value.dim() == 0 and id(value) not in self.known

    def is_same(self, args):
        """Whether indexing brings an operand into the shape that it has."""
        return self.method == "__setitem__" and tuple(args[0].shape) == tuple(args[1])

    @property
    def method(self):
        """The name of the method of Python that makes the calls."""
        return self.function[0].rpartition("_")[0] if self.function is not None else ""

    def of_method(self, name, args):
        """Arguments as Python's indexing gives them."""
        if name == "aten::slice.Tensor" and self.method == "__getitem__" and len(args) > 3 and args[3] is None:
            return (*args[:3], sys.maxsize, *args[4:])
        return args

    def run(self, name, args, kwargs):
        """The result of an operator."""
        if name == "aten::one_hot" and args[1] >= 0:
            # The kernel looks at the elements.
            return args[0].new_empty((*args[0].shape, args[1]))
        return _C._op_call(name, *args, **kwargs)

    def asked(self, args, result):
        """Records that the program asked for a number of data, where it is not known."""
        env = self.inputs.fake_mode.shape_env
        symbol = result.node.expr if self.is_symbolic(result) else env.value_by_sample(result)
        if symbol is not None:
            number = result if self.is_symbolic(result) else env.number(symbol)
            self.emit(ops.aten.item.default, args[:1], {}, number)

    def follow_grad_mode(self):
        enabled = corten.is_grad_enabled()
        if enabled is not self.grad_enabled:
            self.grad_enabled = enabled
            node = self.graph.call_function(_C._set_grad_enabled, (enabled,))
            self.note(node)

    def emit(self, target, args, kwargs, result):
        """Adds a call, whose results are known by its node from now on."""
        args = tuple(self.argument(list(one) if isinstance(one, tuple) else one) for one in args)
        kwargs = {key: self.argument(list(one) if isinstance(one, tuple) else one) for key, one in kwargs.items()}
        packet = target._name if isinstance(target, HigherOrderOperator) else target.overloadpacket.__name__
        node = self.graph.create_node("call_function", target, args, kwargs, name=self.graph._target_to_str(packet))
        self.note(node)
        self.results(node, result)
        return node

    def emit_nodes(self, target, args, result):
        """Adds a call whose arguments are nodes already."""
        node = self.graph.call_function(target, args, {})
        self.note(node)
        self.results(node, result)
        return node

    def note(self, node):
        """Says where a call was made."""
        node.meta["stack_trace"] = stack_trace()
        node.meta["nn_module_stack"] = self.modules.current()
        if self.pipeline_stage:
            node.meta["pipeline_stage"] = self.pipeline_stage
        if self.function is not None:
            node.meta["torch_fn"] = self.function

    def results(self, node, result):
        """Says which values a call gave."""
        if isinstance(result, (tuple, list)):
            node.meta["val"] = type(result)(
                self.describe(one) if isinstance(one, corten.Tensor) else one for one in result
            ) if type(result) in (tuple, list) else tuple(map(self.describe, result))
            for place, one in enumerate(result):
                self.element(node, place, one)
            return
        self.keep(node, tree_map_only(corten.Tensor, self.describe, result), result)
        if isinstance(result, corten.Tensor) or self.is_symbolic(result):
            self.bind(result, node)

    @staticmethod
    def keep(node, described, value):
        """Keeps what is known of a node's value."""
        node.meta["val"] = described
        if isinstance(value, corten.Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(value)

    def element(self, node, place, value):
        """The node of one of several results."""
        if isinstance(value, (list, tuple)):
            inner = self.graph.call_function(operator.getitem, (node, place))
            inner.meta.update(node.meta)
            self.results(inner, value)
        elif isinstance(value, corten.Tensor) or self.is_symbolic(value):
            inner = self.graph.call_function(operator.getitem, (node, place))
            inner.meta.update({key: kept for key, kept in node.meta.items() if key != "val"})
            self.keep(inner, self.describe(value) if isinstance(value, corten.Tensor) else value, value)
            self.bind(value, inner)

    @contextlib.contextmanager
    def recording(self):
        """A block whose calls are recorded."""
        _C._set_record_handler(_handle)
        names = _Names(self) if self.parent is None else contextlib.nullcontext()
        watched = self.modules.watched() if self.parent is None else contextlib.nullcontext()
        _stack.append(self)
        kept, before = _C._set_recording(True), _C._set_tracing_enabled(True)
        try:
            with watched, names:
                yield self
        finally:
            _C._set_tracing_enabled(before)
            _C._set_recording(kept)
            _stack.pop()


@functools.cache
def _is_question(name):
    """Whether an operator gives numbers, no tensors."""
    returns = _overload(name)._schema.returns
    return bool(returns) and not any("Tensor" in str(one.type) for one in returns)
