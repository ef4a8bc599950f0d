"""Views, parts and joins."""

from __future__ import annotations

import math

from corten.onnx._graph import BOOL, INT64, Value
from corten.onnx._table import translation

_END = 2**63 - 1


@translation("view", "reshape", "_unsafe_view", "_reshape_alias", "view_copy")
def view(g, self, size, *rest):
    if not isinstance(size, (list, tuple)):
        return g.cast(self, g.out.dtype)
    return g.reshape(self, size, g.out.shape)


@translation("view_as", "reshape_as")
def view_as(g, self, other):
    return g.op("Reshape", self, g.sizes(other))


@translation("flatten")
def flatten(g, self, start_dim=0, end_dim=-1):
    if self.rank == 0:
        return g.op("Reshape", self, g.vector([1]))
    start, end = start_dim % self.rank, end_dim % self.rank
    return _regrouped(g, self, start, end, [-1])


def _regrouped(g, value, start, end, sizes):
    """The dimensions ``start`` to ``end`` with other sizes, one of which may be -1."""
    parts = [g.size(value, dim) for dim in range(value.rank)]
    return g.reshape(value, [*parts[:start], *sizes, *parts[end + 1 :]], g.out.shape)


@translation("unflatten")
def unflatten(g, self, dim, sizes):
    dim = dim % self.rank
    return _regrouped(g, self, dim, dim, list(sizes))


@translation("permute", "permute_copy")
def permute(g, self, dims):
    return g.transpose(self, [dim % self.rank for dim in dims])


@translation("transpose", "swapaxes", "swapdims", "transpose_copy")
def transpose(g, self, dim0, dim1):
    if self.rank == 0:
        return self
    order = list(range(self.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.transpose(self, order)


@translation("t", "numpy_T", "mT", "adjoint", "t_copy")
def t(g, self):
    return self if self.rank < 2 else transpose(g, self, -2, -1)


@translation("movedim", "moveaxis")
def movedim(g, self, source, destination):
    source = [source] if isinstance(source, int) else list(source)
    destination = [destination] if isinstance(destination, int) else list(destination)
    places = {to % self.rank: dim % self.rank for dim, to in zip(source, destination)}
    rest = iter([dim for dim in range(self.rank) if dim not in places.values()])
    return g.transpose(self, [places[i] if i in places else next(rest) for i in range(self.rank)])


@translation("expand", "broadcast_to", "expand_copy")
def expand(g, self, size, *, implicit=False):
    # A size of 1 keeps that of the operand, as -1 does in PyTorch.
    sizes = [1 if not isinstance(part, Value) and part == -1 else part for part in size]
    return g.expand(self, sizes, g.out.shape)


@translation("expand_as")
def expand_as(g, self, other):
    return g.op("Expand", self, g.sizes(other))


@translation("broadcast_tensors")
def broadcast_tensors(g, tensors):
    if all(isinstance(size, int) for out in g.outs for size in out.shape):
        return tuple(g.expand(value, out.shape) for value, out in zip(tensors, g.outs))
    total = tensors[0]
    zeros = [g.expand(g.scalar(0, INT64), g.sizes(value), value.shape) for value in tensors]
    total = zeros[0]
    for value in zeros[1:]:
        total = g.binary("Add", total, value)
    sizes = g.op("Shape", total, dtype=INT64)
    return tuple(g.op("Expand", value, sizes) for value in tensors)


@translation("squeeze", "squeeze_copy")
def squeeze(g, self, dim=None):
    dims = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [d % self.rank for d in dims if self.rank]
    return g.squeeze(self, [d for d in dims if self.shape[d] == 1])


@translation("unsqueeze", "unsqueeze_copy")
def unsqueeze(g, self, dim):
    return g.unsqueeze(self, [dim])


@translation("slice", "slice_copy")
def slice_(g, self, dim=0, start=None, end=None, step=1):
    start, end = (0 if start is None else start), (_END if end is None else end)
    if not isinstance(start, Value) and start == 0 and step == 1 and not isinstance(end, Value):
        known = self.shape[dim]
        if end == _END or isinstance(known, int) and end >= known:
            return self
    return g.slice(self, [start], [end], [dim % self.rank], [step])


@translation("narrow", "narrow_copy")
def narrow(g, self, dim, start, length):
    if isinstance(start, Value) or start >= 0:
        return slice_(g, self, dim, start, g.compute("Add", start, length))
    return slice_(g, self, dim, start, g.compute("Add", g.compute("Add", start, length), g.size(self, dim)))


@translation("select", "select_copy")
def select(g, self, dim, index):
    if isinstance(index, Value):
        index = g.op("Squeeze", index, g.vector([0]), shape=()) if index.is_size else g.cast(index, INT64)
    else:
        index = g.scalar(index, INT64)
    return g.op("Gather", self, index, axis=dim % self.rank)


@translation("diagonal", "diagonal_copy")
def diagonal(g, self, offset=0, dim1=0, dim2=1):
    rows, columns = self.shape[dim1], self.shape[dim2]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        g.refuse("the sizes of the matrices must be known")
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    row = [i + max(0, -offset) for i in range(count)]
    column = [i + max(0, offset) for i in range(count)]
    dim1, dim2 = dim1 % self.rank, dim2 % self.rank
    order = [dim1, dim2, *(dim for dim in range(self.rank) if dim not in (dim1, dim2))]
    positions = g.graph.constant([part for pair in zip(row, column) for part in pair], INT64, (count, 2))
    found = g.op("GatherND", g.transpose(self, order), positions, shape=(None,) * (self.rank - 1))
    return g.transpose(found, [*range(1, self.rank - 1), 0])


@translation("unfold", "unfold_copy")
def unfold(g, self, dimension, size, step):
    dim = dimension % max(self.rank, 1)
    count = self.shape[dim]
    if not isinstance(count, int):
        g.refuse("the size of the dimension must be known")
    starts = range(0, count - size + 1, step)
    positions = g.graph.constant([start + i for start in starts for i in range(size)], INT64, (len(starts), size))
    windows = g.op("Gather", self, positions, shape=(None,) * (self.rank + 1), axis=dim)
    return g.transpose(windows, [*(i for i in range(self.rank + 1) if i != dim + 1), dim + 1])


@translation("view_as_real", "view_as_complex", "complex", "polar", "imag", "angle")
def complex_numbers(g, *arguments, **options):
    g.refuse("complex numbers have no operators in ONNX")


# Joins and splits.


@translation("cat", "concat", "concatenate")
def cat(g, tensors, dim=0):
    # PyTorch lets empty tensors of one dimension stand among others.
    rank = max(value.rank for value in tensors)
    parts = [g.cast(value, g.out.dtype) for value in tensors if value.rank == rank and (rank > 1 or value.shape != (0,))]
    parts = parts or [g.cast(tensors[0], g.out.dtype)]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=dim)


@translation("stack")
def stack(g, tensors, dim=0):
    dim = dim % (tensors[0].rank + 1)
    return g.op("Concat", *(g.unsqueeze(g.cast(value, g.out.dtype), [dim]) for value in tensors), axis=dim)


@translation("hstack", "vstack", "dstack", "column_stack")
def stacked(g, tensors):
    least = {"h": 1, "v": 2, "d": 3, "c": 2}[g.label.split(".")[1][0]]
    raised = [_raised(g, value, least, g.label) for value in tensors]
    dim = 0 if "vstack" in g.label or raised[0].rank == 1 else 2 if "dstack" in g.label else 1
    return cat(g, raised, dim)


def _raised(g, value, least, label):
    for _ in range(least - value.rank):
        front = "vstack" in label or "dstack" in label and value.rank == 1
        value = g.unsqueeze(value, [0 if front else value.rank])
    return value


@translation("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "split_copy", "split_with_sizes_copy")
def split(g, self, split_size, dim=0):
    dim = dim % self.rank
    if not isinstance(split_size, (list, tuple)):
        count, total = len(g.outs), self.shape[dim]
        if isinstance(split_size, Value) or not isinstance(total, int):
            sizes = [split_size] * (count - 1)
            rest = g.size(self, dim)
            for size in sizes:
                rest = g.compute("Sub", rest, size)
            split_size = [*sizes, rest]
        else:
            split_size = [min(split_size, total - i * split_size) for i in range(count)]
    return _split(g, self, list(split_size), dim)


def _split(g, value, sizes, dim):
    if len(sizes) == 1:
        return (value,)
    return g.op("Split", value, g.ints(sizes), outputs=len(sizes), axis=dim)


@translation("chunk", "unsafe_chunk")
def chunk(g, self, chunks, dim=0):
    dim = dim % self.rank
    sizes = [out.shape[dim] for out in g.outs]
    if all(isinstance(size, int) for size in sizes):
        return _split(g, self, sizes, dim)
    size = g.compute("Div", g.compute("Add", g.size(self, dim), chunks - 1), chunks)
    return split(g, self, size, dim)


@translation("tensor_split")
def tensor_split(g, self, sections, dim=0):
    sizes = [out.shape[dim] for out in g.outs]
    if not all(isinstance(size, int) for size in sizes):
        g.refuse("the size of the dimension must be known")
    return _split(g, self, sizes, dim % self.rank)


@translation("unbind", "unbind_copy")
def unbind(g, self, dim=0):
    return tuple(select(g, self, dim, i) for i in range(self.shape[dim]))


@translation("repeat")
def repeat(g, self, repeats):
    repeats = list(repeats)
    if len(repeats) > self.rank:
        self = g.unsqueeze(self, range(len(repeats) - self.rank))
    return g.op("Tile", self, g.ints(repeats))


@translation("tile")
def tile(g, self, dims):
    dims = [1] * (self.rank - len(dims)) + list(dims)
    return repeat(g, self, dims)


@translation("repeat_interleave")
def repeat_interleave(g, self, repeats, dim=None, *, output_size=None):
    if isinstance(repeats, Value) and not repeats.is_size:
        g.refuse("a number of repetitions for each element is not supported")
    if dim is None:
        self, dim = g.op("Reshape", self, g.vector([-1]), shape=(None,)), 0
    dim = dim % self.rank
    spread = g.unsqueeze(self, [dim + 1])
    sizes = [1] * spread.rank
    sizes[dim + 1] = repeats
    spread = g.expand(spread, sizes)
    parts = [g.size(self, i) for i in range(self.rank)]
    parts[dim] = -1
    return g.op("Reshape", spread, g.ints(parts))


@translation("flip", "fliplr", "flipud")
def flip(g, self, dims=None):
    dims = ([1] if "fliplr" in g.label else [0]) if dims is None else [dim % self.rank for dim in dims]
    if not dims:
        return self
    count = len(dims)
    return g.slice(self, [-1] * count, [-_END] * count, dims, [-1] * count)


@translation("roll")
def roll(g, self, shifts, dims=()):
    shifts = [shifts] if not isinstance(shifts, (list, tuple)) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    value = self
    if not dims:
        value, dims = g.op("Reshape", self, g.vector([-1]), shape=(math.prod(self.shape) if _known(self) else None,)), [0]
    for shift, dim in zip(shifts, dims):
        value = _rolled(g, value, shift, dim)
    return value if len(value.shape) == self.rank else g.op("Reshape", value, g.sizes(self))


def _rolled(g, value, shift, dim):
    size = value.shape[dim]
    if isinstance(shift, Value):
        g.refuse("shifts must be known")
    if isinstance(size, int):
        shift = shift % size if size else 0
    if shift == 0:
        return value
    tail, head = g.slice(value, [-shift], [_END], [dim % value.rank]), g.slice(value, [0], [-shift], [dim % value.rank])
    return g.op("Concat", tail, head, shape=value.shape, axis=dim)


def _known(value):
    return all(isinstance(size, int) for size in value.shape)


@translation("rot90")
def rot90(g, self, k=1, dims=(0, 1)):
    first, second = (dim % self.rank for dim in dims)
    if k % 4 == 0:
        return self
    ends = {1: [second], 2: [first, second], 3: [first]}[k % 4]
    count = len(ends)
    turned = g.slice(self, [-1] * count, [-_END] * count, ends, [-1] * count)
    turned.shape = self.shape
    return turned if k % 4 == 2 else transpose(g, turned, first, second)


# Padding.


@translation("pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
             "replication_pad2d", "replication_pad3d", "_pad_circular", "_pad_enum")
def pad(g, self, pad, mode=None, value=None):
    name = g.label.split(".")[1]
    if name == "constant_pad_nd":
        mode, value = "constant", mode
    elif name != "pad":
        mode = {"reflection": "reflect", "replication": "replicate"}.get(name.split("_")[0], "circular")
    mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.get(mode, "constant")
    if mode == "wrap" and g.opset < 19:
        g.refuse("circular padding needs opset 19")
    sizes = list(pad)
    before, behind = [0] * self.rank, [0] * self.rank
    for i in range(len(sizes) // 2):
        before[-1 - i], behind[-1 - i] = sizes[2 * i], sizes[2 * i + 1]
    if self.dtype == BOOL and mode == "constant":
        found = g.op("Pad", g.cast(self, INT64), g.ints(before + behind), g.scalar(int(value or 0), INT64), mode=mode)
        return g.cast(found, BOOL)
    fill = None if mode != "constant" else g.cast(value or 0, self.dtype)
    return g.op("Pad", self, g.ints(before + behind), fill, mode=mode)


# Triangles.


@translation("tril", "triu")
def tril(g, self, diagonal=0):
    value = g.cast(self, INT64) if self.dtype == BOOL else self
    offset = None if not isinstance(diagonal, Value) and diagonal == 0 else g.cast(diagonal, INT64)
    found = g.op("Trilu", value, offset, shape=self.shape, upper=int("triu" in g.label))
    return g.cast(found, self.dtype)


@translation("diag_embed")
def diag_embed(g, self, offset=0, dim1=-2, dim2=-1):
    if offset != 0 or {dim1 % (self.rank + 1), dim2 % (self.rank + 1)} != {self.rank - 1, self.rank}:
        g.refuse("only the main diagonal of the last dimensions is supported")
    return _diagonal_matrix(g, self)


def _diagonal_matrix(g, value):
    count = g.size(value, -1)
    identity = g.op("EyeLike", g.expand(g.scalar(0, INT64), [count, count]), dtype=INT64)
    rows = g.unsqueeze(value, [value.rank - 1])
    return g.op("Where", g.cast(identity, BOOL), rows, g.like(0, value), dtype=value.dtype)


@translation("diag")
def diag(g, self, diagonal=0):
    if self.rank == 1 and diagonal == 0:
        return _diagonal_matrix(g, self)
    if self.rank == 1:
        g.refuse("only the main diagonal is supported")
    return globals()["diagonal"](g, self, diagonal)


@translation("meshgrid")
def meshgrid(g, tensors, *, indexing="ij"):
    count = len(tensors)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[0], order[1] = 1, 0
    tensors = [value if value.rank else g.unsqueeze(value, [0]) for value in tensors]
    sizes = [None] * count
    for position, value in zip(order, tensors):
        sizes[position] = g.size(value, 0)
    found = []
    for position, value in zip(order, tensors):
        others = [dim for dim in range(count) if dim != position]
        found.append(g.expand(g.unsqueeze(value, others) if others else value, sizes))
    return tuple(found)


# Rearrangements of images.


@translation("pixel_shuffle")
def pixel_shuffle(g, self, upscale_factor):
    if self.rank == 4:
        return g.op("DepthToSpace", self, blocksize=upscale_factor, mode="CRD")
    return g.squeeze(g.op("DepthToSpace", g.unsqueeze(self, [0]), shape=(None,) * 4, blocksize=upscale_factor, mode="CRD"), [0])


@translation("pixel_unshuffle")
def pixel_unshuffle(g, self, downscale_factor):
    if self.rank != 4 or not all(isinstance(size, int) for size in self.shape[1:]):
        g.refuse("the sizes of the image must be known")
    channels, height, width = self.shape[1:]
    block = downscale_factor
    parts = g.op("Reshape", self, g.vector([-1, channels, height // block, block, width // block, block]), shape=(None,) * 6)
    parts = g.transpose(parts, [0, 1, 3, 5, 2, 4])
    return g.op("Reshape", parts, g.vector([-1, channels * block * block, height // block, width // block]))


@translation("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(g, self, groups):
    grouped = g.op("Reshape", self, g.vector([0, groups, -1, *self.shape[2:]]), shape=(None,) * (self.rank + 1))
    turned = g.transpose(grouped, [0, 2, 1, *range(3, self.rank + 1)])
    return g.op("Reshape", turned, g.sizes(self))


@translation("slice_scatter")
def slice_scatter(g, self, src, dim=0, start=None, end=None, step=1):
    dim = dim % self.rank
    size = g.size(self, dim)
    count = g.op("Range", g.scalar(0, INT64), g.cast_scalar(size), g.scalar(1, INT64), dtype=INT64, shape=(None,))
    bounds = 0 if start is None else start, _END if end is None else end
    positions = g.slice(count, [bounds[0]], [bounds[1]], [0], [step])
    return scatter_along(g, self, src, dim, positions)


def scatter_along(g, value, source, dim, positions):
    """Writes parts at positions of a dimension."""
    order = [dim, *(i for i in range(value.rank) if i != dim)]
    inverse = [order.index(i) for i in range(value.rank)]
    rows = g.op("Unsqueeze", positions, g.vector([1]), shape=(None, 1))
    found = g.op("ScatterND", g.transpose(value, order), rows, g.transpose(g.cast(source, value.dtype), order),
                 shape=tuple(value.shape[i] for i in order))
    return g.transpose(found, inverse)


@translation("select_scatter")
def select_scatter(g, self, src, dim, index):
    return scatter_along(g, self, g.unsqueeze(src, [dim % self.rank]), dim % self.rank, g.as_size(index))
