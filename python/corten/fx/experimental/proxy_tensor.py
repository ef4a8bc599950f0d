"""Traces of functions by their tensors: ``make_fx`` runs a function and records every operator that is called."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import itertools

import corten
from corten import fx, nn, ops
from corten.fx._symbolic_trace import Tracer
from corten.fx.graph_module import GraphModule
from corten.utils import _pytree as pytree
from corten.utils._python_dispatch import (
    TorchDispatchMode, _TorchDispatchModeKey, _disable_current_modes, _get_current_dispatch_mode_stack,
)

from .symbolic_shapes import is_accessor_node
from ._proxy_call import proxy_call
from ._proxy_slots import (  # noqa: F401
    _ProxyTensor, _TensorSlots, extract_val, get_proxy_slot, has_proxy_slot, py_sym_types, set_meta,
    set_proxy_slot, snapshot_fake, track_tensor, track_tensor_tree,
)

__all__ = [
    "DecompositionInterpreter", "ProxyTorchDispatchMode", "PythonKeyTracer", "decompose",
    "disable_autocast_cache", "disable_proxy_modes_tracing", "dispatch_trace", "extract_val", "fake_signature",
    "fetch_object_proxy", "get_innermost_proxy_mode", "get_isolated_graphmodule", "get_proxy_mode",
    "get_proxy_slot", "get_torch_dispatch_modes", "handle_sym_dispatch", "has_proxy_slot", "is_sym_node",
    "make_fx", "maybe_disable_fake_tensor_mode", "maybe_disable_thunkify", "maybe_enable_thunkify",
    "maybe_handle_decomp", "proxy_call", "py_sym_types", "selective_decompose", "set_meta",
    "set_original_aten_op", "set_proxy_slot", "snapshot_fake", "thunkify", "track_tensor", "track_tensor_tree",
    "wrap_key", "wrapper_and_args_for_make_fx",
]

#: The operator whose call is being recorded, before it was decomposed.
ORIGINAL_ATEN = contextvars.ContextVar("ORIGINAL_ATEN", default=None)
HANDLED_TYPES = (corten.Tensor, nn.Parameter)


def fake_signature(fn, nargs):
    """``fn`` as a function of ``nargs`` named parameters."""
    names = ",".join(f"arg{place}" for place in range(nargs))
    return eval(f"lambda {names}: fn({names})", {"fn": fn})  # noqa: S307


def is_sym_node(node):
    """Whether the value of a node is a number that the trace leaves open."""
    return "val" in node.meta and isinstance(node.meta["val"], py_sym_types)


@contextlib.contextmanager
def set_original_aten_op(func):
    """A block in which nodes are noted as parts of an operator's decomposition."""
    if ORIGINAL_ATEN.get() is not None or not fx.traceback.has_preserved_node_meta():
        yield
        return
    token = ORIGINAL_ATEN.set(func)
    fx.traceback.current_meta["original_aten"] = func
    try:
        yield
    finally:
        ORIGINAL_ATEN.reset(token)
        fx.traceback.current_meta.pop("original_aten", None)


#: Modes that record above autograd, the innermost last.
_before_dispatch = []


class ProxyTorchDispatchMode(TorchDispatchMode):
    """A mode that records the calls of operators as nodes of a tracer's graph."""

    _mode_key = _TorchDispatchModeKey.PROXY

    def __init__(self, tracer, tracing_mode="real", pre_dispatch=False, _allow_fake_constant=False,
                 _error_on_data_dependent_ops=True, decomposition_table=None):
        super().__init__()
        self.tracer, self.tracing_mode, self.pre_dispatch = tracer, tracing_mode, pre_dispatch
        self._allow_fake_constant = _allow_fake_constant
        self._error_on_data_dependent_ops = _error_on_data_dependent_ops
        self.decomposition_table, self.decomp_layers = decomposition_table or {}, 0
        self.enter_stack = []

    @property
    def enable_tracing(self):
        """Whether calls are recorded."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with set_original_aten_op(func):
            return proxy_call(self, func, args, kwargs or {})

    def __enter__(self):
        if not self.pre_dispatch:
            return super().__enter__()
        _before_dispatch.append(self)
        self.enter_stack.append((corten._C._set_trace_handler(self._record), corten._C._set_tracing_enabled(True)))
        return self

    def __exit__(self, kind, value, traceback):
        if not self.pre_dispatch:
            return super().__exit__(kind, value, traceback)
        handler, enabled = self.enter_stack.pop()
        corten._C._set_trace_handler(handler)
        corten._C._set_tracing_enabled(enabled)
        _before_dispatch.pop()
        return None

    def _record(self, name, *args, **kwargs):
        """Records a call above autograd, before composite operators call others."""
        from ._proxy_call import before_dispatch

        enabled = corten._C._set_tracing_enabled(False)
        try:
            func, args, kwargs = before_dispatch(name, args, kwargs)
            return proxy_call(self, func, args, kwargs)
        finally:
            corten._C._set_tracing_enabled(enabled)

    def _note_alias(self, tensor, made):
        slot = self.tracer.tensor_tracker.get(tensor)
        if slot is not None:
            self.tracer.tensor_tracker[made] = slot

    @classmethod
    def is_infra_mode(cls):
        """It belongs to the library."""
        return True

    @contextlib.contextmanager
    def enable_decompositions(self, decomposition_table):
        """A block in which the mode has another table."""
        before, self.decomposition_table = self.decomposition_table, decomposition_table or {}
        try:
            yield self.decomposition_table
        finally:
            self.decomposition_table = before

    def __sym_dispatch__(self, func, types, args, kwargs):
        """The number that a function of numbers gives, recorded."""
        from ._symbolic_proxies import dispatch

        return dispatch(self.tracer, func, args, kwargs)


class PythonKeyTracer(Tracer):
    """Records what the mode sees; modules and attributes are what they are."""

    enable_thunkify = False
    _record_forward_stack_traces_only = False
    proxy_module_inputs = False

    def __init__(self, *, autowrap_modules=()):
        super().__init__(autowrap_modules=autowrap_modules)
        _init_proxy_trackers(self)

    def call_module(self, m, forward, args, kwargs):
        """Calls the module."""
        return forward(*args, **kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """The attribute as it is."""
        return attr_val

    def create_arg(self, a):
        """As :meth:`Tracer.create_arg`; parameters from elsewhere become attributes of the root."""
        if isinstance(a, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            name = next(
                name for name in (f"_param_constant{place}" for place in itertools.count())
                if not hasattr(self.root, name)
            )
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, py_sym_types):
            from ._symbolic_proxies import argument

            return super().create_arg(argument(self, a))
        if isinstance(a, corten.Tensor) and a.layout != corten.strided and getattr(a, "_of_parts", False):
            made = self._of_parts(a)
            if made is not None:
                return made
        return super().create_arg(a)

    def _of_parts(self, sparse):
        """The node that puts a sparse tensor together of values of the trace, where a part is one."""
        from corten.sparse._entries import SparseTensor

        parts = sparse._held[:2] if isinstance(sparse, SparseTensor) else sparse._parts
        if not any(hasattr(self.unwrap_proxy(part), "node") for part in parts):
            return None
        args = tuple(self.create_arg(self.unwrap_proxy(part)) for part in parts)
        if isinstance(sparse, SparseTensor):
            named = {"is_coalesced": sparse.is_coalesced()}
            return self.create_node("call_function", corten.sparse_coo_tensor, (*args, tuple(sparse.shape)), named)
        named = {"layout": sparse.layout}
        return self.create_node("call_function", corten.sparse_compressed_tensor, (*args, tuple(sparse.shape)), named)

    def unwrap_proxy(self, e):
        """What stands for a tensor or number in nodes."""
        if isinstance(e, corten.Tensor):
            return get_proxy_slot(e, self, e, lambda slot: slot.proxy)
        if isinstance(e, py_sym_types):
            return get_proxy_slot(e, self, e, _forced)
        return e

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a node; of attributes it is noted what they are."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if kind == "get_attr" and isinstance(target, str):
            value = self.root
            for part in target.split("."):
                value = getattr(value, part, None)
            if isinstance(value, corten.Tensor):
                with disable_proxy_modes_tracing():
                    node.meta["val"] = extract_val(value)
        return node


def _init_proxy_trackers(tracer):
    tracer.tensor_tracker = _TensorSlots()
    tracer.script_object_tracker, tracer.opaque_tracker, tracer.sympy_expr_tracker = {}, {}, {}
    tracer.symnode_tracker = tracer.sympy_expr_tracker
    tracer.torch_fn_metadata, tracer.torch_fn_counts = None, {}


def _forced(slot):
    return slot if isinstance(slot, fx.Proxy) else slot.force()


def _is_needed(node):
    """Whether a node stays although nothing uses it: all but reads and computations of numbers."""
    if node.is_impure():
        return True
    if node.op != "call_function":
        return node.op in ("placeholder", "output", "call_module", "call_method")
    if is_accessor_node(node):
        return False
    values = [arg.meta.get("val") for arg in node.all_input_nodes]
    return not (isinstance(node.meta.get("val"), py_sym_types) and all(isinstance(v, py_sym_types) for v in values))


def dispatch_trace(root, tracer, concrete_args=None):
    """The module of a function's graph."""
    graph = tracer.trace(root, concrete_args)
    graph.eliminate_dead_code(_is_needed)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def wrap_key(f, tensors, tracer, pre_dispatch=False):
    """A function of placeholders that runs ``f`` on tensors, and gives the nodes of what it returns."""
    leaves, _ = pytree.tree_flatten(tensors)

    @functools.wraps(f)
    def wrapped(*proxies, **_unused):
        given, _ = pytree.tree_flatten(proxies)
        if len(given) != len(leaves):
            raise AssertionError(f"Expected same length: {len(given)} vs {len(leaves)}")
        with disable_proxy_modes_tracing():
            track_tensor_tree(leaves, given, constant=None, tracer=tracer)
            for value, proxy in zip(leaves, given):
                if isinstance(value, (int, float, bool)) and isinstance(proxy, fx.Proxy):
                    set_meta(proxy, value)
        return pytree.tree_map(tracer.unwrap_proxy, f(*tensors))

    return wrapped


# Modes

def get_torch_dispatch_modes():
    """All modes, the innermost last."""
    return _get_current_dispatch_mode_stack()


def get_proxy_mode():
    """The mode that records calls, or None."""
    for mode in reversed(_get_current_dispatch_mode_stack()):
        if isinstance(mode, ProxyTorchDispatchMode):
            return mode
    return _before_dispatch[-1] if _before_dispatch else None


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing():
    """A block in which calls are not recorded; gives the mode that recorded them."""
    found = get_proxy_mode()
    if found is None or found.pre_dispatch:
        enabled = found is not None and corten._C._set_tracing_enabled(False)
        try:
            yield found
        finally:
            if found is not None:
                corten._C._set_tracing_enabled(enabled)
        return
    with _disable_current_modes() as modes, contextlib.ExitStack() as stack:
        for mode in reversed(modes):
            if not isinstance(mode, ProxyTorchDispatchMode):
                TorchDispatchMode.__enter__(mode)
                stack.callback(TorchDispatchMode.__exit__, mode, None, None, None)
        yield found


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode():
    """A block in which tensors have data."""
    from corten._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily() as mode:
        yield mode


@contextlib.contextmanager
def decompose(decomposition_table):
    """A block in which the mode that records calls has a table of decompositions."""
    mode = get_proxy_mode()
    if mode is None:
        yield decomposition_table
        return
    with mode.enable_decompositions(decomposition_table) as table:
        yield table


@contextlib.contextmanager
def disable_autocast_cache():
    """A block in which casts of parameters are not kept."""
    before = corten.is_autocast_cache_enabled()
    corten.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        corten.set_autocast_cache_enabled(before)


@contextlib.contextmanager
def maybe_disable_thunkify():
    """A block in which nodes of numbers are made at once."""
    yield


maybe_enable_thunkify = maybe_disable_thunkify


def thunkify(tracer, f, *args, **kwargs):
    """What gives the result of ``f`` when it is first asked for."""
    from ._symbolic_proxies import Thunk

    return Thunk(functools.partial(f, *args, **kwargs))


def handle_sym_dispatch(func, args, kwargs):
    """The number that a function of numbers gives, recorded by the mode in force."""
    mode = get_proxy_mode()
    if mode is None:
        raise AssertionError("Expected proxy mode to be set")
    with disable_proxy_modes_tracing():
        return mode.__sym_dispatch__(func, [], args, kwargs)


def maybe_handle_decomp(proxy_mode, op, args, kwargs):
    """The result of what a mode's table has for an operator, or ``NotImplemented``."""
    from ._proxy_call import decomposed

    return decomposed(proxy_mode, op, args, kwargs)


def fetch_object_proxy(tracer, t):
    """What is known of the node of a tensor; the tensor if nothing is."""
    return get_proxy_slot(t, tracer, t)


# Graphs of graphs

class DecompositionInterpreter(fx.Interpreter):
    """Runs a graph and records what it does in another one."""

    def __init__(self, module, new_graph, decomposition_table=None, **kwargs):
        super().__init__(module, **kwargs)
        self.new_graph = new_graph
        self.tracer = fx.proxy.GraphAppendingTracer(new_graph)
        _init_proxy_trackers(self.tracer)
        self.decomposition_table = decomposition_table or {}
        self.mode = ProxyTorchDispatchMode(self.tracer, "real", decomposition_table=self.decomposition_table)

    def placeholder(self, target, args, kwargs):
        """An input, which is one of the new graph."""
        made = super().placeholder(target, args, kwargs)
        proxy = fx.Proxy(self.new_graph.placeholder(target), self.tracer)
        return track_tensor_tree(made, proxy, constant=None, tracer=self.tracer)

    def get_attr(self, target, args, kwargs):
        """An attribute, which the new graph reads."""
        made = super().get_attr(target, args, kwargs)
        proxy = fx.Proxy(self.new_graph.get_attr(target), self.tracer)
        return track_tensor_tree(made, proxy, constant=None, tracer=self.tracer)

    def output(self, target, args, kwargs):
        """The output of both graphs."""
        made = super().output(target, args, kwargs)

        def node(value):
            if not isinstance(value, corten.Tensor):
                return value
            return get_proxy_slot(value, self.tracer, value, lambda slot: slot.proxy.node)

        self.new_graph.output(pytree.tree_map(node, made))
        return made

    def run(self, *args, **kwargs):
        """Runs the graph."""
        with self.mode:
            return super().run(*args, **kwargs)


class _SelectiveDecomposeInterpreter(fx.Interpreter):
    """Runs a graph; some of its nodes with a table of decompositions."""

    def __init__(self, module, should_decompose, decomposition_table, **kwargs):
        super().__init__(module, **kwargs)
        self.should_decompose, self.decomposition_table = should_decompose, decomposition_table

    def run_node(self, n):
        """The value of one node."""
        if not self.should_decompose(n):
            return super().run_node(n)
        with decompose(self.decomposition_table):
            return super().run_node(n)


def selective_decompose(joint_gm, *args, decomposition, should_decompose, trace_joint_graph):
    """A graph in which the nodes that ``should_decompose`` names are what a table has for their operators."""
    def run(*values):
        return _SelectiveDecomposeInterpreter(joint_gm, should_decompose, decomposition).run(*values)

    def joint(primals, tangents):
        return run(*args)

    return make_fx(joint if trace_joint_graph else run, decomposition_table={})(*args)


def wrapper_and_args_for_make_fx(func, args, kwargs):
    """``func`` as a function of the list of the leaves of its arguments, and that list."""
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def wrapped(flat_args):
        given, named = pytree.tree_unflatten(flat_args, spec)
        return func(*given, **named)

    return wrapped, leaves


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real", decomposition_table=None):
    """The graph of a call, without traces of it in the one that is being made."""
    wrapped, leaves = wrapper_and_args_for_make_fx(func, args, kwargs)
    with disable_proxy_modes_tracing():
        return make_fx(wrapped, decomposition_table=decomposition_table, tracing_mode=tracing_mode)(leaves)


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *, pre_dispatch=False,
            record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True,
            record_stack_traces=False, proxy_module_inputs=False, _disable_torch_fn_metadata_mode=False,
            dynamic_shapes=None):
    """A function that runs ``f`` and gives the module of the operators that it called.

    ``tracing_mode`` says what ``f`` is run on: the tensors given ("real"), tensors without data ("fake"), or such
    whose sizes are left open ("symbolic"). Without a ``decomposition_table`` calls of ``detach`` are recorded as
    ``alias``.

    ```
    >>> import corten
    >>> from corten.fx.experimental.proxy_tensor import make_fx
    >>> make_fx(lambda x: x.sin() + 1)(corten.ones(2)).code.strip().splitlines()[1].strip()
    'sin = torch.ops.aten.sin.default(x_1);  x_1 = None'

    ```
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"tracing_mode must be real/fake/symbolic, got {tracing_mode}")
    from ._make_fx import MakeFx

    maker = MakeFx(
        f, decomposition_table, tracing_mode, _allow_non_fake_inputs, pre_dispatch, record_module_stack,
        _allow_fake_constant, _error_on_data_dependent_ops, record_stack_traces,
    )
    return functools.wraps(f)(maker) if inspect.isroutine(f) else maker


def _nop(x):
    return ops.aten.alias.default(x)
