"""``Proxy``: a value that is not known yet, of which every use is recorded."""

from __future__ import annotations

import collections
import dis
import enum
import inspect
import operator
import traceback as stack_frames

import corten
from corten.overrides import is_tensor_method_or_property

from . import traceback
from .graph import magic_methods, reflectable_magic_methods
from .node import Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]

_BASE_TYPES = (
    str, int, float, bool, complex, type(None), type(...), corten.dtype, corten.device,
    corten.memory_format, corten.layout, corten.Tensor, enum.Enum,
)


class TraceError(ValueError):
    """A program that cannot be recorded."""


class Scope:
    """Which module a node belongs to: its path and its class."""

    def __init__(self, module_path, module_type):
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """A block in which a scope is another one."""

    def __init__(self, scope, current_scope):
        self._scope, self._before = scope, vars(scope).copy()
        vars(scope).update(vars(current_scope))

    def __enter__(self):
        return self._scope

    def __exit__(self, kind, value, traceback):
        vars(self._scope).update(self._before)


class TracerBase:
    """What records nodes: values become arguments by :meth:`create_arg`."""

    graph = None
    record_stack_traces = False
    trace_asserts = False
    proxy_buffer_attributes = False
    check_mutable_operations = False

    def __init__(self):
        self.scope, self.module_stack = Scope("", None), collections.OrderedDict()
        self.num_calls, self.node_name_to_scope = {}, {}

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a node to the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self._note(kind, node)
        # A tracer of a class that does not call this one's has none.
        if (scope := vars(self).get("scope")) is not None:
            self.node_name_to_scope[node.name] = scope.module_path, scope.module_type
            if self.module_stack:
                node.meta["nn_module_stack"] = self.module_stack.copy()
        return node

    def _note(self, kind, node):
        """Notes of a new node what is noted of the one that is being replayed."""
        known = traceback.current_meta
        if traceback.has_preserved_node_meta() and kind not in ("placeholder", "output"):
            for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "original_aten", "from_node", "seq_nr",
                        "custom", "recompute", "partitioner_tag"):
                if known.get(key) is not None:
                    node.meta[key] = known[key]
        elif known.get("custom"):
            node.meta["custom"] = known["custom"]

    def proxy(self, node):
        """The value of a node."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None,
                     proxy_factory_fn=None):
        """The value of a new node, whose arguments may hold other values."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces:
            trace = _user_stack(getattr(self, "_record_forward_stack_traces_only", False))
            if trace:
                node.stack_trace = trace
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a):
        """An argument of a node: a plain value, or a node for a value that is not known.

        Raises:
            NotImplementedError: It is of a kind that graphs do not hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            made = tuple(self.create_arg(item) for item in a)
            return made if not hasattr(a, "_fields") else type(a)(*made)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            for key in a:
                if isinstance(key, Proxy):
                    raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node. "
                                       f"Got key: {key}")
            return {key: self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(item) for item in (a.start, a.stop, a.step)))
        if isinstance(a, (Node, *_BASE_TYPES)) or callable(a) and hasattr(a, "__name__"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj):
        """Refused: what is not known decides nothing."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        """Refused: how many items there are is not known."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop "
            "or as a *args or **kwargs function argument. See the torch.fx docs on pytorch.org for a "
            "more detailed explanation of what types of control flow can be traced, and check out the "
            "Proxy docstring for help troubleshooting Proxy iteration errors"
        )

    def keys(self, obj):
        """The keys of a dictionary, recorded; ``**`` of it is refused."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Records in a graph that exists."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph


def _user_stack(forward_only=False):
    """Where the program that is traced is."""
    frames = [frame for frame in stack_frames.extract_stack() if "/corten/" not in frame.filename]
    if forward_only:
        frames = [frame for frame in frames if frame.name == "forward"]
    return "".join(stack_frames.StackSummary.from_list(frames).format())


class Proxy:
    """A value that is not known yet: what is done with it becomes nodes of the graph."""

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__") and name != "__call__":
            raise AttributeError(name)
        return Attribute(self, name)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __deepcopy__(self, memo):
        from copy import deepcopy

        made = object.__new__(type(self))
        made.__dict__.update({key: deepcopy(value, memo) for key, value in self.__dict__.items()})
        return made

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        count = _unpacked(inspect.currentframe().f_back)
        if count is not None:
            return (self[place] for place in range(count))
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts and _asserted(inspect.currentframe().f_back, self):
            return True
        return self.tracer.to_bool(self)

    def keys(self):
        """The keys, if the value is a dictionary."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args, kwargs = args or (), kwargs or {}
        tracers = []
        map_aggregate((args, kwargs), lambda leaf: isinstance(leaf, Proxy) and tracers.append(leaf.tracer))
        if not tracers:
            raise TraceError("no value of a trace among the arguments")
        tracer = tracers[0]
        if any(other is not tracer for other in tracers):
            raise RuntimeError("found multiple different tracers while trying to trace operations")
        name = getattr(orig_method, "__name__", "")
        if is_tensor_method_or_property(orig_method):
            if name == "__get__":
                attribute = getattr(orig_method.__self__, "__name__", "")
                return tracer.create_proxy("call_function", getattr, (args[0], attribute), {})
            return tracer.create_proxy("call_method", name, args, kwargs)
        name = tracer.graph._target_to_str(name)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class Attribute(Proxy):
    """An attribute of a value; a method if it is called."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        """The read of the attribute, recorded when it is first needed."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _unpacked(frame):
    """How many values the calling statement unpacks, if that is what it does."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def _asserted(frame, value):
    """Records the check of an ``assert`` statement; says whether it was one."""
    instructions = [one for one in dis.get_instructions(frame.f_code) if one.offset > frame.f_lasti]
    names = [one.opname for one in instructions[:4]]
    if not names or "LOAD_ASSERTION_ERROR" not in names:
        return False
    value.tracer.create_proxy("call_function", corten._assert, (value, ""), {})
    return True


def _define(name, target):
    def method(self, *args, **kwargs):
        return self.tracer.create_proxy("call_function", target, (self, *args), kwargs)

    method.__name__ = name
    setattr(Proxy, name, method)


def _define_reflected(name, target):
    def method(self, other):
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    method.__name__ = name
    setattr(Proxy, name, method)


for _name in magic_methods:
    if hasattr(operator, _name):
        _define(f"__{_name.strip('_')}__", getattr(operator, _name))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name) and _name != "getitem":
        _define_reflected(f"__r{_name.strip('_')}__", getattr(operator, _name))
Proxy.__hash__ = object.__hash__
