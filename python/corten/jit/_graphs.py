"""Graphs of the operators that a program calls, as tools that count their work read them."""

from __future__ import annotations

import corten
from corten.utils._pytree import tree_leaves
from corten import _C

#: The trace that runs on this thread: only the one that asked for it is recorded.
_state = None


class TracingState:
    """A trace that runs: its graph, and the part of the model that it is in."""

    def __init__(self, graph):
        self.graph, self.scopes = graph, []

    def push_scope(self, name):
        """Enters a part of the model."""
        self.scopes.append(name)

    def pop_scope(self):
        """Leaves a part of the model."""
        self.scopes.pop()

    def current_scope(self):
        """The path of the part of the model."""
        return "/".join(self.scopes)


class Type:
    """The type of a value: of a tensor, with its shape, or of something else."""

    def __init__(self, value):
        self._sizes = list(value.shape) if isinstance(value, corten.Tensor) else None
        self._dtype = value.dtype if isinstance(value, corten.Tensor) else None
        self._kind = type(value).__name__

    def kind(self):
        """``TensorType``, or the name of a class."""
        return "TensorType" if self._sizes is not None else self._kind

    def sizes(self):
        """The shape of a tensor."""
        return self._sizes

    def dim(self):
        """The number of dimensions of a tensor."""
        return None if self._sizes is None else len(self._sizes)

    def dtype(self):
        """The dtype of a tensor."""
        return self._dtype


class Value:
    """A value of a graph: a result of a node."""

    def __init__(self, node, value, number):
        self._node, self._type, self._number = node, Type(value), number
        self._constant = None if isinstance(value, corten.Tensor) else value

    def node(self):
        """The node that it is a result of."""
        return self._node

    def type(self):
        """Its type."""
        return self._type

    def isCompleteTensor(self):
        """Whether it is a tensor of known shape."""
        return self._type.sizes() is not None

    def toIValue(self):
        """The value, where it is not a tensor."""
        return self._constant

    def debugName(self):
        """A name that no other value has."""
        return str(self._number)

    def unique(self):
        """A number that no other value has."""
        return self._number


class Node:
    """A call of an operator, or where a value comes from."""

    def __init__(self, kind, scope):
        self._kind, self._scope, self._inputs, self._outputs = kind, scope, [], []

    def kind(self):
        """The operator, such as ``aten::add``, or ``prim::Constant`` and others."""
        return self._kind

    def inputs(self):
        """The arguments in the order of the schema."""
        return iter(self._inputs)

    def outputs(self):
        """The results."""
        return iter(self._outputs)

    def output(self):
        """The only result."""
        (found,) = self._outputs
        return found

    def scopeName(self):
        """The path of the part of the model that made the call."""
        return self._scope


class Graph:
    """The operators that a program called, in order."""

    def __init__(self):
        self._inputs, self._outputs, self._nodes, self._count = [], [], [], 0
        # The tensors are kept: a value is found by the object that it stands for.
        self._known = {}
        self._param = Node("prim::Param", "")

    def inputs(self):
        """The values that were there before: arguments, parameters, buffers."""
        return iter(self._inputs)

    def outputs(self):
        """The results of the program."""
        return iter(self._outputs)

    def nodes(self):
        """The nodes in the order of the calls."""
        return iter(self._nodes)

    def add(self, node):
        """Appends a node."""
        self._nodes.append(node)
        return node

    def value(self, node, value):
        """A new value, a result of a node."""
        made = Value(node, value, self._count)
        self._count += 1
        node._outputs.append(made)
        if isinstance(value, corten.Tensor):
            self._known[id(value)] = made, value
        return made

    def input(self, tensor):
        """A value that was there before."""
        made = self.value(self._param, tensor)
        self._inputs.append(made)
        return made

    def argument(self, value, scope):
        """The value of an argument."""
        if isinstance(value, corten.Tensor):
            known = self._known.get(id(value))
            return self.value(self.add(Node("prim::Constant", scope)), value) if known is None else known[0]
        if isinstance(value, (list, tuple)) and any(isinstance(one, corten.Tensor) for one in value):
            node = self.add(Node("prim::ListConstruct", scope))
            node._inputs.extend(self.argument(one, scope) for one in value)
            return self.value(node, None)
        return self.value(self.add(Node("prim::Constant", scope)), value)


def _convolution(name, args):
    """Convolutions are recorded as the operator that all of them are calls of."""
    transposed = "transpose" in name
    if transposed:
        x, weight, bias, stride, padding, output_padding, groups, dilation = args
    else:
        x, weight, bias, stride, padding, dilation, groups = args
        output_padding = [0] * (x.dim() - 2)
        if isinstance(padding, str):
            return "aten::_convolution_mode", args
    return "aten::_convolution", (
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, False, False,
        True, True,
    )


def _record(name, *args, **kwargs):
    state = _state
    _C._set_tracing_enabled(False)
    try:
        result = _C._op_call(name, *args, **kwargs)
    finally:
        _C._set_tracing_enabled(True)
    if state is not None:
        kind, given = name.partition(".")[0], (*args, *kwargs.values())
        if kind.removeprefix("aten::").startswith(("conv1d", "conv2d", "conv3d", "conv_transpose")):
            kind, given = _convolution(kind, given)
        scope = state.current_scope()
        inputs = [state.graph.argument(one, scope) for one in given]
        node = state.graph.add(Node(kind, scope))
        node._inputs.extend(inputs)
        for one in result if isinstance(result, (tuple, list)) else (result,):
            state.graph.value(node, one)
    return result


def tracing_state():
    """The trace that runs, if one does."""
    return _state


def get_trace_graph(f, args=(), kwargs=None):
    """The graph of the operators that a call makes, and its result."""
    global _state
    _C._set_trace_handler(_record)
    args = args if isinstance(args, tuple) else (args,)
    graph, before = Graph(), _state
    for tensor in tree_leaves((args, kwargs)):
        if isinstance(tensor, corten.Tensor):
            graph.input(tensor)
    if isinstance(f, corten.nn.Module):
        for tensor in (*f.parameters(), *f.buffers()):
            graph.input(tensor)
    _state = TracingState(graph)
    enabled = _C._set_tracing_enabled(True)
    try:
        result = f(*args, **(kwargs or {}))
    finally:
        _C._set_tracing_enabled(enabled)
        _state = before
    for tensor in tree_leaves(result):
        if id(tensor) in graph._known:
            graph._outputs.append(graph._known[id(tensor)][0])
    return graph, result
