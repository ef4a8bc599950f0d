"""Graphs of ONNX while they are made: values, nodes and initializers by name."""

from __future__ import annotations

from dataclasses import dataclass, field

#: The numbers of element types in ONNX files, by the names of dtypes.
ELEMENT_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16, "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20,
}
#: The names of dtypes by the numbers of element types.
DTYPE_NAMES = {number: name for name, number in ELEMENT_TYPES.items()}

FLOAT, UINT8, INT8, INT32, INT64, BOOL, HALF, DOUBLE, BFLOAT16 = 1, 2, 3, 6, 7, 9, 10, 11, 16
FLOATS = frozenset((FLOAT, HALF, DOUBLE, BFLOAT16))
INTEGERS = frozenset((2, 3, 4, 5, 6, 7, 12, 13))
COMPLEX = frozenset((14, 15))


def element_type(dtype):
    """The number of a dtype of any library that prints dtypes as ``torch.float32``."""
    return ELEMENT_TYPES[str(dtype).rpartition(".")[2]]


class Value:
    """An output of a node, an input or an initializer.

    ``shape`` has numbers and, for sizes that are known when the model runs, names; it is ``None`` where the
    number of dimensions is not known. ``data`` has the elements of a small constant, ``tensor`` those of a large one.
    ``is_size`` says that it stands for a number of Python: it has one dimension of one element.
    """

    __slots__ = ("data", "dtype", "is_size", "name", "shape", "tensor")

    def __init__(self, name, dtype=None, shape=None, *, is_size=False, data=None, tensor=None):
        self.name, self.dtype, self.shape = name, dtype, shape
        self.is_size, self.data, self.tensor = is_size, data, tensor

    def __repr__(self):
        return f"%{self.name}<{DTYPE_NAMES.get(self.dtype, '?')}, {self.shape}>"

    @property
    def rank(self):
        return len(self.shape)


@dataclass
class Node:
    """A call of an operator."""

    op_type: str
    inputs: list
    outputs: list
    attributes: dict
    domain: str = ""
    name: str = ""
    metadata: dict = field(default_factory=dict)


class Graph:
    """Nodes in order. The graphs of branches and loops know the one around them and share its names."""

    def __init__(self, name, parent=None):
        self.name, self.parent = name, parent
        self.root = parent.root if parent else self
        self.nodes, self.inputs, self.outputs = [], [], []
        if parent is None:
            self.initializers, self._taken, self._counts, self._constants = {}, set(), {}, {}
            self.domains = {}

    def unique(self, name):
        """``name``, with a number behind it where it is taken."""
        root = self.root
        found = name
        while found in root._taken:
            root._counts[name] = root._counts.get(name, 0) + 1
            found = f"{name}_{root._counts[name]}"
        root._taken.add(found)
        return found

    def value(self, name="val", dtype=None, shape=None, **options):
        """A value of a name of its own."""
        if name == "val":
            root = self.root
            number = root._counts.get("val", 0)
            while f"val_{number}" in root._taken:
                number += 1
            root._counts["val"] = number + 1
            name = f"val_{number}"
        return Value(self.unique(name), dtype, shape, **options)

    def rename(self, value, name):
        """Gives a value a name that is not taken."""
        value.name = self.unique(name)

    def constant(self, data, dtype, shape):
        """A constant: an initializer of the outermost graph, once for equal ones."""
        key = (tuple(map(repr, data)), dtype, tuple(shape))
        known = self.root._constants.get(key)
        if known is None:
            known = self.value(dtype=dtype, shape=tuple(shape), data=tuple(data))
            self.root._constants[key] = known
        return known

    def initializer(self, name, tensor, dtype, shape):
        """A named tensor that is written with the model."""
        value = self.value(name, dtype, tuple(shape), tensor=tensor)
        self.root.initializers[value.name] = value
        return value

    def used(self):
        """The values that nodes and outputs use, those of graphs within nodes included."""
        found = {id(value): value for value in self.outputs}
        for node in self.nodes:
            found.update((id(value), value) for value in node.inputs if value is not None)
            for attribute in node.attributes.values():
                if isinstance(attribute, Graph):
                    found.update(attribute.used())
        return found


@dataclass
class Model:
    """A graph with what stands around it in a file."""

    graph: Graph
    opset: int
    producer_version: str = ""
    functions: list = field(default_factory=list)
    metadata: dict = field(default_factory=dict)

    @property
    def ir_version(self):
        """The least version of the format that has the operators' set."""
        return 10 if self.opset <= 22 else 11 if self.opset <= 23 else 12
