"""What translations write with: operators, constants, casts and sizes."""

from __future__ import annotations

from contextlib import contextmanager

from corten.onnx._graph import (
    BFLOAT16, BOOL, COMPLEX, DOUBLE, DTYPE_NAMES, FLOAT, FLOATS, HALF, INT64, INTEGERS, UINT8, Graph, Node, Value, element_type,
)
from corten.onnx.errors import OnnxExporterError

_WIDTHS = {2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 12: 4, 13: 8}
_UNSIGNED = frozenset((2, 4, 12, 13))
_SIGNED = {1: 3, 2: 5, 4: 6, 8: 7}


def dimension(size, names):
    """A size of a shape: a number, or the name of what is known when the model runs."""
    if isinstance(size, (int, str)) or size is None:
        return size
    constant = getattr(size.node, "maybe_as_int", lambda: None)()
    return constant if constant is not None else names(size)


class Meta:
    """Element type and shape of a result, as the graph that is translated says."""

    __slots__ = ("dtype", "is_size", "shape", "val")

    def __init__(self, val, names):
        self.val = val
        self.is_size = not hasattr(val, "dtype")
        if self.is_size:
            kind = type(val).__name__
            self.shape = (1,)
            self.dtype = BOOL if "ool" in kind else DOUBLE if "loat" in kind else INT64
        else:
            self.dtype = element_type(val.dtype)
            self.shape = tuple(dimension(size, names) for size in val.shape)

    @property
    def rank(self):
        return len(self.shape)


class Builder:
    """Writes nodes into a graph. ``out`` is what the operator that is translated gives, ``outs`` all of its results."""

    def __init__(self, graph, opset):
        self.graph, self.opset = graph, opset
        self.out, self.outs, self.metadata, self.label = None, [], {}, ""

    @contextmanager
    def within(self, name):
        """Writes into a new graph within this one for the time of the block."""
        outer = self.graph
        self.graph = Graph(self.graph.unique(name), outer)
        kept = self.out, self.outs, self.metadata, self.label
        try:
            yield self.graph
        finally:
            self.graph = outer
            self.out, self.outs, self.metadata, self.label = kept

    def op(self, op_type, *inputs, outputs=1, dtype=None, shape=None, domain="", **attributes):
        """Calls an operator. Attributes of ``None`` are left out; the type is that of the first input unless it is given."""
        inputs = list(inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        for value in inputs:
            if value is not None and value.dtype in COMPLEX:
                raise OnnxExporterError(f"{self.label or op_type}: complex numbers have no operators in ONNX")
        if dtype is None and inputs and inputs[0] is not None:
            dtype = inputs[0].dtype
        values = [self.graph.value(dtype=dtype, shape=shape) for _ in range(outputs)]
        kept = {name: attribute for name, attribute in attributes.items() if attribute is not None}
        name = self.graph.unique(f"node_{op_type}")
        if domain:
            self.graph.root.domains.setdefault(domain, 1)
        self.graph.nodes.append(Node(op_type, inputs, values, kept, domain, name, dict(self.metadata)))
        return values[0] if outputs == 1 else tuple(values)

    # Constants and types.

    def scalar(self, number, dtype):
        """A constant without dimensions."""
        return self.graph.constant([_number(number, dtype)], dtype, ())

    def vector(self, numbers, dtype=INT64):
        """A constant of one dimension."""
        return self.graph.constant([_number(number, dtype) for number in numbers], dtype, (len(numbers),))

    def cast(self, value, dtype):
        """A value or a number as a value of a type."""
        if isinstance(value, Value):
            if value.is_size and not (self.out is not None and self.out.is_size):
                value = self.op("Squeeze", value, self.vector([0]), shape=())
            if value.dtype == dtype:
                return value
            if value.data is not None and value.dtype in INTEGERS and dtype in FLOATS | INTEGERS:
                return self.graph.constant([_number(number, dtype) for number in value.data], dtype, value.shape)
            return self.op("Cast", value, dtype=dtype, shape=value.shape, to=dtype)
        return self.scalar(value, dtype)

    def like(self, number, value):
        """A number in the type of a value."""
        return self.scalar(number, value.dtype)

    def refuse(self, reason):
        """Ends the export of the operator with a reason."""
        raise OnnxExporterError(f"{self.label}: {reason}")

    # Sizes.

    def ints(self, sizes):
        """Whole numbers, some of them known when the model runs, as a vector of 64-bit integers."""
        if isinstance(sizes, Value):
            return sizes
        sizes = list(sizes)
        if not any(isinstance(size, Value) for size in sizes):
            return self.vector(sizes)
        parts, run = [], []
        for size in sizes:
            if isinstance(size, Value):
                if run:
                    parts.append(self.vector(run))
                    run = []
                parts.append(self.as_size(size))
            else:
                run.append(size)
        if run:
            parts.append(self.vector(run))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, dtype=INT64, shape=(len(sizes),), axis=0)

    def as_size(self, value):
        """A number of Python, or a value of one element, as one 64-bit integer in one dimension."""
        if not isinstance(value, Value):
            return self.vector([value])
        if value.is_size or value.shape == (1,):
            return value if value.dtype == INT64 else self.op("Cast", value, dtype=INT64, shape=(1,), to=INT64)
        value = self.cast(value, INT64)
        return self.op("Reshape", value, self.vector([1]), shape=(1,))

    def size(self, value, dim):
        """The size of a dimension: a number where it is known, else a value of one element."""
        dim = dim % value.rank
        known = value.shape[dim]
        if isinstance(known, int):
            return known
        found = self.op("Shape", value, dtype=INT64, shape=(1,), start=dim, end=dim + 1)
        found.is_size = True
        return found

    def sizes(self, value):
        """The shape of a value as a vector."""
        if value.shape is not None and all(isinstance(size, int) for size in value.shape):
            return self.vector(value.shape)
        return self.op("Shape", value, dtype=INT64, shape=(len(value.shape),) if value.shape is not None else None)

    def compute(self, op_type, a, b):
        """``a op b`` of two sizes, computed at once where both are numbers."""
        if not isinstance(a, Value) and not isinstance(b, Value):
            return {"Add": int.__add__, "Sub": int.__sub__, "Mul": int.__mul__, "Div": int.__floordiv__}[op_type](a, b)
        found = self.op(op_type, self.as_size(a), self.as_size(b), dtype=INT64, shape=(1,))
        found.is_size = True
        return found

    # Frequent operators.

    def reshape(self, value, sizes, shape=None):
        """A reshape to sizes, one of which may be -1."""
        sizes = list(sizes)
        open_sizes = [i for i, size in enumerate(sizes) if isinstance(size, Value)]
        if len(open_sizes) == 1 and all(size != -1 and size != 0 for size in sizes if not isinstance(size, Value)):
            sizes[open_sizes[0]] = -1
        if shape is None:
            shape = tuple(size if isinstance(size, int) and size >= 0 else None for size in sizes)
        return self.op("Reshape", value, self.ints(sizes), shape=shape, allowzero=1 if 0 in sizes else None)

    def transpose(self, value, order):
        """The dimensions in another order."""
        order = list(order)
        if order == sorted(order):
            return value
        return self.op("Transpose", value, shape=tuple(value.shape[dim] for dim in order), perm=order)

    def unsqueeze(self, value, dims, rank=None):
        """New dimensions of one element at positions of the result."""
        rank = (rank or value.rank) + len(dims)
        dims = sorted(dim % rank for dim in dims)
        shape = list(value.shape) if value.shape is not None else None
        if shape is not None:
            for dim in dims:
                shape.insert(dim, 1)
        return self.op("Unsqueeze", value, self.vector(dims), shape=tuple(shape) if shape is not None else None)

    def squeeze(self, value, dims):
        """Without dimensions of one element."""
        if not dims:
            return value
        dims = sorted(dim % value.rank for dim in dims)
        shape = tuple(size for dim, size in enumerate(value.shape) if dim not in dims)
        return self.op("Squeeze", value, self.vector(dims), shape=shape)

    def expand(self, value, sizes, shape=None):
        """A broadcast to sizes."""
        return self.op("Expand", value, self.ints(sizes), shape=shape)

    def binary(self, op_type, a, b, dtype=None):
        """An operator of two operands of one type."""
        if dtype is None:
            dtype = a.dtype if isinstance(a, Value) else b.dtype
        a, b = self.cast(a, dtype), self.cast(b, dtype)
        return self.op(op_type, a, b, dtype=dtype, shape=_broadcast(a.shape, b.shape))

    def reduce(self, op_type, value, dims=None, keepdims=True, shape=None):
        """A reduction over dimensions, or over all."""
        axes = None if dims is None else self.vector([dim % max(value.rank, 1) for dim in dims])
        if shape is None and keepdims and value.shape is not None:
            reduced = range(value.rank) if dims is None else [dim % max(value.rank, 1) for dim in dims]
            shape = tuple(1 if dim in reduced else size for dim, size in enumerate(value.shape))
        return self.op(op_type, value, axes, shape=shape, keepdims=int(keepdims))

    def slice(self, value, starts, ends, axes, steps=None):
        """A part of a value."""
        return self.op(
            "Slice", value, self.ints(starts), self.ints(ends), self.vector(axes),
            None if steps is None else self.vector(steps), shape=(None,) * value.rank if value.shape is not None else None,
        )


def _broadcast(a, b):
    """The shape of a result of two shapes, as far as it is known."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    return tuple(y if x == 1 else x if y in (1, x) or isinstance(x, int) else y if isinstance(y, int) else None for x, y in zip(a, b))


def _number(number, dtype):
    """A number of Python in the type of a constant."""
    if dtype in FLOATS:
        return float(number)
    return bool(number) if dtype == BOOL else int(number)


def category(dtype):
    """0 for truth values, 1 for integers, 2 for floats."""
    return 2 if dtype in FLOATS else 1 if dtype in INTEGERS else 0


def join(a, b):
    """The type of an operator of two tensors of the same priority."""
    if a == b or b is None:
        return a
    if a is None:
        return b
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if category(a) == 2:
        return DOUBLE if DOUBLE in (a, b) else FLOAT if FLOAT in (a, b) or {a, b} == {HALF, BFLOAT16} else a
    if (a in _UNSIGNED) == (b in _UNSIGNED):
        return a if _WIDTHS[a] >= _WIDTHS[b] else b
    unsigned, signed = (a, b) if a in _UNSIGNED else (b, a)
    return signed if _WIDTHS[signed] > _WIDTHS[unsigned] else _SIGNED[min(8, 2 * _WIDTHS[unsigned])]


def promote(*operands):
    """The type that tensors and numbers are computed in together: tensors with dimensions before those without,
    both before numbers."""
    groups = [None, None, None]
    for operand in operands:
        if isinstance(operand, Value):
            group = 2 if operand.is_size else 0 if operand.shape is None or operand.shape else 1
            dtype = operand.dtype if not operand.is_size or operand.dtype != DOUBLE else FLOAT
        else:
            group, dtype = 2, BOOL if isinstance(operand, bool) else INT64 if isinstance(operand, int) else FLOAT
        groups[group] = join(groups[group], dtype)
    result = None
    for dtype in groups:
        if dtype is not None and (result is None or category(dtype) > category(result)):
            result = dtype
    return result


def type_name(dtype):
    """The name of an element type in messages."""
    return DTYPE_NAMES.get(dtype, str(dtype))


__all__ = ["UINT8", "Builder", "Meta", "category", "dimension", "join", "promote", "type_name"]
