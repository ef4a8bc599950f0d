"""Indexing: gathers, scatters and masks."""

from __future__ import annotations

from corten.onnx._graph import BOOL, INT64, Value
from corten.onnx._table import translation
from corten.onnx._translations.pointwise import truth


@translation("embedding")
def embedding(g, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return g.op("Gather", weight, indices)


@translation("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(g, *arguments, **options):
    g.refuse("bags of embeddings are not supported")


@translation("one_hot")
def one_hot(g, self, num_classes=-1):
    if not isinstance(num_classes, Value) and num_classes < 0:
        g.refuse("the number of classes must be given")
    return g.op("OneHot", self, g.as_size(num_classes), g.vector([0, 1]), dtype=INT64)


@translation("index_select")
def index_select(g, self, dim, index):
    if index.rank == 0:
        index = g.unsqueeze(index, [0])
    return g.op("Gather", self if self.rank else g.unsqueeze(self, [0]), index, axis=dim % max(self.rank, 1))


@translation("gather")
def gather(g, self, dim, index, *, sparse_grad=False):
    if self.rank == 0:
        return g.op("Expand", self, g.sizes(index))
    return g.op("GatherElements", self, g.cast(index, INT64), axis=dim)


@translation("take_along_dim")
def take_along_dim(g, self, indices, dim=None):
    if dim is None:
        flat = g.op("Reshape", self, g.vector([-1]), shape=(None,))
        return g.op("GatherElements", flat, g.op("Reshape", indices, g.vector([-1]), shape=(None,)))
    dim = dim % self.rank
    sizes = [1 if i == dim else g.size(indices, i) for i in range(self.rank)]
    others = [1 if i == dim else g.size(self, i) for i in range(self.rank)]
    return g.op("GatherElements", g.expand(self, sizes), g.expand(indices, others), axis=dim)


@translation("take")
def take(g, self, index):
    return g.op("Gather", g.op("Reshape", self, g.vector([-1]), shape=(None,)), index)


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@translation("scatter")
def scatter(g, self, dim, index, source, *, reduce=None):
    if not isinstance(source, Value) or not source.rank and index.rank:
        source = g.op("Expand", g.cast(source, self.dtype), g.sizes(index), dtype=self.dtype, shape=index.shape)
    return _scatter(g, self, dim, index, source, _REDUCTIONS.get(reduce))


@translation("scatter_add")
def scatter_add(g, self, dim, index, src):
    return _scatter(g, self, dim, index, src, "add")


@translation("scatter_reduce")
def scatter_reduce(g, self, dim, index, src, reduce, *, include_self=True):
    if reduce not in _REDUCTIONS:
        g.refuse(f"the reduction {reduce!r} is not supported")
    if not include_self:
        start = {"sum": 0, "prod": 1, "amax": float("-inf"), "amin": float("inf")}[reduce]
        neutral = g.op("Expand", g.like(start, self), g.sizes(index), shape=index.shape)
        self = _scatter(g, self, dim, index, neutral, None)
        self.shape = g.out.shape
    return _scatter(g, self, dim, index, src, _REDUCTIONS[reduce])


def _scatter(g, value, dim, index, source, reduction):
    if value.rank == 0:
        value, index, source = (g.unsqueeze(part, [0]) if part.rank == 0 else part for part in (value, index, source))
        found = g.op("ScatterElements", value, g.cast(index, INT64), source, reduction=reduction)
        return g.op("Squeeze", found, g.vector([0]))
    if source.shape != index.shape:
        # PyTorch reads as much of the source as there are positions.
        ends = [g.size(index, i) for i in range(index.rank)]
        source = g.slice(source, [0] * index.rank, ends, range(index.rank))
    return g.op("ScatterElements", value, g.cast(index, INT64), source, axis=dim, reduction=reduction)


@translation("index_add", "index_copy", "index_fill")
def index_add(g, self, dim, index, source, *, alpha=1):
    from corten.onnx._translations.views import scatter_along

    dim = dim % max(self.rank, 1)
    if "index_add" not in g.label:
        if not isinstance(source, Value) or source.rank == 0 and self.rank:
            sizes = [g.size(self, i) if i != dim else g.size(index, 0) for i in range(self.rank)]
            shape = tuple(index.shape[0] if i == dim else size for i, size in enumerate(self.shape))
            source = g.expand(g.cast(source, self.dtype), sizes, shape)
        return scatter_along(g, self, source, dim, g.cast(index, INT64))
    source = source if alpha == 1 else g.binary("Mul", source, alpha)
    shape = [1] * self.rank
    shape[dim] = -1
    spread = g.op("Expand", g.op("Reshape", index, g.vector(shape)), g.sizes(source))
    return g.op("ScatterElements", self, g.cast(spread, INT64), source, axis=dim, reduction="add")


@translation("nonzero", "argwhere")
def nonzero(g, self):
    found = g.op("NonZero", _nonzero_input(g, self), dtype=INT64, shape=(self.rank, None))
    return g.transpose(found, [1, 0])


@translation("nonzero_numpy")
def nonzero_numpy(g, self):
    return positions(g, self)


def _nonzero_input(g, value):
    return value if value.dtype in (BOOL, INT64, 1) else truth(g, value)


def positions(g, mask):
    """The positions of true elements, a vector for each dimension."""
    found = g.op("NonZero", truth(g, mask), dtype=INT64, shape=(mask.rank, None))
    return tuple(g.op("Gather", found, g.scalar(i, INT64), shape=(None,)) for i in range(mask.rank))


@translation("masked_select")
def masked_select(g, self, mask):
    if mask.shape != self.shape:
        both = g.op("And", g.op("Expand", truth(g, mask), g.sizes(self)), g.scalar(True, BOOL), dtype=BOOL)
        self, mask = g.op("Expand", self, g.op("Shape", both, dtype=INT64)), both
    flat = g.op("Reshape", self, g.vector([-1]), shape=(None,))
    return g.op("Compress", flat, g.op("Reshape", truth(g, mask), g.vector([-1]), shape=(None,)), axis=0)


@translation("masked_scatter")
def masked_scatter(g, self, mask, source):
    if mask.shape != self.shape:
        mask = g.op("Expand", mask, g.sizes(self), shape=self.shape)
    found = g.op("NonZero", truth(g, mask), dtype=INT64, shape=(self.rank, None))
    rows = g.transpose(found, [1, 0])
    count = g.op("Shape", found, dtype=INT64, shape=(1,), start=1, end=2)
    flat = g.op("Reshape", source, g.vector([-1]), shape=(None,))
    taken = g.slice(flat, [0], [count], [0])
    return g.op("ScatterND", self, rows, taken)


@translation("index", "_unsafe_index", "index.Tensor")
def index(g, self, indices):
    """Positions of several dimensions at once, as NumPy's."""
    indices = _without_masks(g, indices, self.rank)
    dims = [dim for dim, part in enumerate(indices) if part is not None]
    if not dims:
        return self
    if len(dims) == 1:
        return g.op("Gather", self, g.cast(indices[dims[0]], INT64), axis=dims[0])
    order = [*dims, *(dim for dim in range(self.rank) if dim not in dims)]
    parts, rank = _together(g, [indices[dim] for dim in dims])
    found = g.op("GatherND", g.transpose(self, order), parts, shape=(None,) * (rank + self.rank - len(dims)))
    if dims != list(range(dims[0], dims[0] + len(dims))) or dims[0] == 0:
        return found
    # Positions of neighbours stay where the first of them is.
    before = dims[0]
    return g.transpose(found, [*range(rank, rank + before), *range(rank), *range(rank + before, found.rank)])


def _without_masks(g, indices, rank):
    """Masks as the positions of their true elements."""
    found = []
    for part in indices:
        if part is not None and part.dtype in (BOOL, 2):
            found.extend(positions(g, part))
        else:
            found.append(part)
    return found + [None] * (rank - len(found))


def _together(g, indices):
    """Positions broadcast together, with a last dimension of one element for each; and their dimensions."""
    rank = max(part.rank for part in indices)
    indices = [g.cast(part, INT64) for part in indices]
    if len({part.shape for part in indices}) > 1 or any(size is None for size in indices[0].shape):
        total = indices[0]
        for part in indices[1:]:
            total = g.binary("Add", total, part)
        sizes = g.op("Shape", total, dtype=INT64, shape=(rank,))
        indices = [g.op("Expand", part, sizes, shape=(None,) * rank) for part in indices]
    columns = [g.op("Unsqueeze", part, g.vector([rank]), shape=(None,) * (rank + 1)) for part in indices]
    return g.op("Concat", *columns, dtype=INT64, shape=(None,) * (rank + 1), axis=-1), rank


@translation("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(g, self, indices, values, accumulate=False, *rest):
    indices = list(indices)
    if len([part for part in indices if part is not None]) == 1 and _is_mask(indices) and not values.rank:
        return _fill(g, self, indices, values)
    indices = _without_masks(g, indices, self.rank)
    dims = [dim for dim, part in enumerate(indices) if part is not None]
    if not dims:
        return g.op("Expand", g.cast(values, self.dtype), g.sizes(self), shape=self.shape)
    order = [*dims, *(dim for dim in range(self.rank) if dim not in dims)]
    parts, rank = _together(g, [indices[dim] for dim in dims])
    target = g.transpose(self, order)
    rest_sizes = [g.size(target, dim) for dim in range(len(dims), self.rank)]
    leading = g.op("Shape", parts, dtype=INT64, shape=(rank,), start=0, end=rank)
    sizes = g.op("Concat", leading, g.ints(rest_sizes), dtype=INT64, shape=(None,), axis=0) if rest_sizes else leading
    values = _moved(g, g.cast(values, self.dtype), dims, rank, self.rank)
    values = g.op("Expand", values, sizes, shape=(None,) * (rank + len(rest_sizes)))
    found = g.op("ScatterND", target, parts, values, shape=target.shape, reduction="add" if accumulate else None)
    return g.transpose(found, [order.index(dim) for dim in range(self.rank)])


def _is_mask(indices):
    return all(part is None or part.dtype == BOOL for part in indices)


def _fill(g, value, indices, number):
    """One number where a mask is true."""
    position = next(i for i, part in enumerate(indices) if part is not None)
    mask = indices[position]
    behind = value.rank - position - mask.rank
    mask = g.unsqueeze(mask, range(mask.rank, mask.rank + behind)) if behind else mask
    return g.op("Where", mask, g.cast(number, value.dtype), value, dtype=value.dtype)


def _moved(g, values, dims, rank, target_rank):
    """Values with the dimensions of positions first, as ScatterND has them."""
    before = dims[0]
    if dims != list(range(before, before + len(dims))) or before == 0:
        return values
    total = rank + target_rank - len(dims)
    if values.rank < total:
        values = g.unsqueeze(values, range(total - values.rank))
    return g.transpose(values, [*range(before, before + rank), *range(before), *range(before + rank, total)])
