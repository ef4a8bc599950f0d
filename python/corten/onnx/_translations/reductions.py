"""Reductions, scans, softmax and order."""

from __future__ import annotations

import math

from corten.onnx._graph import BOOL, FLOATS, INT64, Value
from corten.onnx._table import translation
from corten.onnx._translations.pointwise import comparison, truth, unary


def _dims(dim):
    """The dimensions to reduce, ``None`` for all."""
    if dim is None:
        return None
    dims = [dim] if isinstance(dim, int) else list(dim)
    return dims or None


def _reduction(g, op_type, value, dim, keepdim):
    if value.rank == 0:
        return value
    return g.reduce(op_type, value, _dims(dim), keepdim)


@translation("sum")
def sum_(g, self, dim=None, keepdim=False, *, dtype=None):
    return _reduction(g, "ReduceSum", g.cast(self, g.out.dtype), dim, keepdim)


@translation("mean")
def mean(g, self, dim=None, keepdim=False, *, dtype=None):
    return _reduction(g, "ReduceMean", g.cast(self, g.out.dtype), dim, keepdim)


@translation("prod")
def prod(g, self, dim=None, keepdim=False, *, dtype=None):
    return _reduction(g, "ReduceProd", g.cast(self, g.out.dtype), dim, keepdim)


@translation("amax")
def amax(g, self, dim=(), keepdim=False):
    return _extreme(g, "ReduceMax", self, dim, keepdim)


@translation("amin")
def amin(g, self, dim=(), keepdim=False):
    return _extreme(g, "ReduceMin", self, dim, keepdim)


def _extreme(g, op_type, value, dim, keepdim):
    if value.dtype == BOOL:
        return g.cast(_reduction(g, op_type, g.cast(value, INT64), dim, keepdim), BOOL)
    return _reduction(g, op_type, value, dim, keepdim)


@translation("max", "min")
def max_(g, self, dim=None, keepdim=False):
    op_type, best = ("ReduceMax", "ArgMax") if ".max" in g.label else ("ReduceMin", "ArgMin")
    if dim is None:
        return _extreme(g, op_type, self, None, False)
    if self.rank == 0:
        return self, g.scalar(0, INT64)
    values = _extreme(g, op_type, self, [dim], keepdim)
    return values, _position(g, best, self, dim, keepdim)


@translation("argmax", "argmin")
def argmax(g, self, dim=None, keepdim=False):
    op_type = "ArgMax" if "argmax" in g.label else "ArgMin"
    if self.rank == 0:
        return g.scalar(0, INT64)
    if dim is not None:
        return _position(g, op_type, self, dim, keepdim)
    found = _position(g, op_type, g.op("Reshape", self, g.vector([-1]), shape=(None,)), 0, False)
    return found if not keepdim else g.op("Reshape", found, g.vector([1] * self.rank), dtype=INT64)


def _position(g, op_type, value, dim, keepdim):
    value = g.cast(value, INT64) if value.dtype == BOOL else value
    return g.op(op_type, value, dtype=INT64, axis=dim, keepdims=int(keepdim))


@translation("aminmax")
def aminmax(g, self, *, dim=None, keepdim=False):
    return tuple(_extreme(g, kind, self, dim, keepdim) for kind in ("ReduceMin", "ReduceMax"))


@translation("any")
def any_(g, self, dim=None, keepdim=False):
    found = _reduction(g, "ReduceMax", g.cast(truth(g, self), INT64), dim, keepdim)
    return g.cast(found, BOOL)


@translation("all")
def all_(g, self, dim=None, keepdim=False):
    found = _reduction(g, "ReduceMin", g.cast(truth(g, self), INT64), dim, keepdim)
    return g.cast(found, BOOL)


@translation("count_nonzero")
def count_nonzero(g, self, dim=None):
    return _reduction(g, "ReduceSum", g.cast(truth(g, self), INT64), dim, False)


# Moments.


def moments(g, value, dim, correction, keepdim):
    """Variance and mean over dimensions."""
    dims = list(range(value.rank)) if _dims(dim) is None else _dims(dim)
    center = g.reduce("ReduceMean", value, dims, True)
    distance = g.binary("Sub", value, center)
    square = g.binary("Mul", distance, distance)
    average = g.reduce("ReduceMean", square, dims, keepdim)
    if correction:
        average = g.binary("Mul", average, _bessel(g, value, dims, correction))
    found = center if keepdim else g.reduce("ReduceMean", value, dims, False)
    return average, found


def _bessel(g, value, dims, correction):
    """The factor that makes a mean of squares unbiased."""
    count = 1
    for dim in dims:
        count = g.compute("Mul", count, g.size(value, dim))
    if not isinstance(count, Value):
        return count / (count - correction) if count > correction else math.nan
    count = g.op("Squeeze", g.op("Cast", count, dtype=value.dtype, to=value.dtype), g.vector([0]), shape=())
    return g.binary("Div", count, g.binary("Sub", count, float(correction)))


def _correction(rest, unbiased, correction):
    if unbiased is not None:
        return int(unbiased)
    return 1 if correction is None else correction


@translation("var", "std")
def var(g, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    found, _ = moments(g, self, dim, _correction((), unbiased, correction), keepdim)
    return unary(g, "Sqrt", found) if ".std" in g.label else found


@translation("var_mean", "std_mean")
def var_mean(g, self, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    spread, center = moments(g, self, dim, _correction((), unbiased, correction), keepdim)
    return (unary(g, "Sqrt", spread) if "std_mean" in g.label else spread), center


@translation("linalg_vector_norm")
def vector_norm(g, self, ord=2, dim=None, keepdim=False, *, dtype=None):  # noqa: A002
    return _norm(g, g.cast(self, g.out.dtype), ord, dim, keepdim)


@translation("norm")
def norm(g, self, p=2, dim=None, keepdim=False, *, dtype=None):
    return _norm(g, g.cast(self, g.out.dtype), 2 if p is None else p, dim, keepdim)


@translation("linalg_norm", "frobenius_norm")
def linalg_norm(g, self, ord=None, dim=None, keepdim=False, *, dtype=None):  # noqa: A002
    if ord is not None and _dims(dim) is not None and len(_dims(dim)) == 2:
        g.refuse("norms of matrices are not supported")
    return _norm(g, g.cast(self, g.out.dtype), 2 if ord is None else ord, dim, keepdim)


def _norm(g, value, order, dim, keepdim):
    if order == 2:
        return _reduction(g, "ReduceL2", value, dim, keepdim)
    if order == 1:
        return _reduction(g, "ReduceL1", value, dim, keepdim)
    size = unary(g, "Abs", value)
    if math.isinf(order):
        return _reduction(g, "ReduceMax" if order > 0 else "ReduceMin", size, dim, keepdim)
    if order == 0:
        nonzero = g.cast(truth(g, value), value.dtype)
        return _reduction(g, "ReduceSum", nonzero, dim, keepdim)
    total = _reduction(g, "ReduceSum", g.binary("Pow", size, float(order)), dim, keepdim)
    return g.binary("Pow", total, 1.0 / order)


@translation("logsumexp")
def logsumexp(g, self, dim, keepdim=False):
    return _reduction(g, "ReduceLogSumExp", g.cast(self, g.out.dtype), dim, keepdim)


# Scans.


@translation("cumsum")
def cumsum(g, self, dim, *, dtype=None):
    value = g.cast(self, g.out.dtype)
    return value if value.rank == 0 else g.op("CumSum", value, g.scalar(dim, INT64))


@translation("cumprod")
def cumprod(g, self, dim, *, dtype=None):
    """Products by rows of a triangle of the elements, of which those that are not in the product are ones."""
    value = g.cast(self, g.out.dtype)
    dim = dim % value.rank
    last = [i for i in range(value.rank) if i != dim] + [dim]
    rows = g.unsqueeze(g.transpose(value, last), [value.rank - 1])
    count = g.size(value, dim)
    square = g.expand(g.scalar(True, BOOL), [count, count])
    within = g.op("Trilu", square, upper=0, dtype=BOOL)
    triangle = g.op("Where", within, rows, g.like(1, rows), dtype=value.dtype, shape=(None,) * (value.rank + 1))
    products = g.reduce("ReduceProd", triangle, [-1], False)
    return g.op("Transpose", products, perm=[last.index(i) for i in range(value.rank)])


@translation("logcumsumexp")
def logcumsumexp(g, self, dim):
    most = g.reduce("ReduceMax", self, [dim], True)
    total = g.op("CumSum", unary(g, "Exp", g.binary("Sub", self, most)), g.scalar(dim, INT64), shape=self.shape)
    return g.binary("Add", unary(g, "Log", total), most)


# Softmax.


def _softmax(g, op_type, value, dim):
    value = g.cast(value, g.out.dtype)
    if value.rank == 0:
        return g.scalar(1.0 if op_type == "Softmax" else 0.0, value.dtype)
    return g.op(op_type, value, shape=value.shape, axis=dim)


@translation("softmax", "_softmax", "special_softmax", "_safe_softmax")
def softmax(g, self, dim, *rest, **options):
    found = _softmax(g, "Softmax", self, dim)
    if "safe" not in g.label:
        return found
    nan = g.op("IsNaN", found, dtype=BOOL)
    return g.op("Where", nan, g.like(0.0, found), found, dtype=found.dtype)


@translation("log_softmax", "_log_softmax", "special_log_softmax")
def log_softmax(g, self, dim, *rest, **options):
    return _softmax(g, "LogSoftmax", self, dim)


@translation("softmin")
def softmin(g, self, dim):
    return _softmax(g, "Softmax", unary(g, "Neg", self), dim)


# Order.


@translation("topk")
def topk(g, self, k, dim=-1, largest=True, sorted=True):  # noqa: A002
    if self.rank == 0:
        return self, g.scalar(0, INT64)
    return _top(g, self, g.as_size(k), dim, largest, sorted)


def _top(g, value, count, dim, largest, in_order=True):
    dtype = value.dtype
    if dtype not in FLOATS and dtype != INT64:
        value = g.cast(value, INT64)
    values, positions = g.op("TopK", value, count, outputs=2, axis=dim, largest=int(largest), sorted=int(in_order))
    positions.dtype = INT64
    return g.cast(values, dtype), positions


@translation("sort")
def sort(g, self, *rest, **options):
    dim, descending = _order(rest, options)
    if self.rank == 0:
        return self, g.scalar(0, INT64)
    return _top(g, self, g.as_size(g.size(self, dim)), dim, descending)


@translation("argsort")
def argsort(g, self, *rest, **options):
    return sort(g, self, *rest, **options)[1]


def _order(rest, options):
    """Dimension and direction: ``sort.stable`` has whether the order is stable before them, by name."""
    options.pop("stable", None)
    return (lambda dim=-1, descending=False: (dim, descending))(*rest, **options)


@translation("median", "nanmedian")
def median(g, self, dim=None, keepdim=False):
    flat = self if dim is not None else g.op("Reshape", self, g.vector([-1]), shape=(None,))
    axis = 0 if dim is None else dim % self.rank
    count = g.size(self, axis) if dim is not None else _numel(g, self)
    half = g.compute("Div", g.compute("Add", count, 1), 2)
    values, positions = _top(g, flat, g.as_size(half), axis, False)
    last = g.scalar(-1, INT64) if not keepdim else g.vector([-1])
    found = tuple(g.op("Gather", part, last, axis=axis) for part in (values, positions))
    return found[0] if dim is None else found


def _numel(g, value):
    count = 1
    for dim in range(value.rank):
        count = g.compute("Mul", count, g.size(value, dim))
    return count


@translation("cross")
def cross(g, self, other, dim=None):
    return linalg_cross(g, self, other, dim=-1 if dim is None else dim)


@translation("linalg_cross")
def linalg_cross(g, self, other, *, dim=-1):
    def turned(value, order):
        return g.op("Gather", value, g.vector(order), shape=value.shape, axis=dim)

    first = g.binary("Mul", turned(self, [1, 2, 0]), turned(other, [2, 0, 1]))
    return g.binary("Sub", first, g.binary("Mul", turned(self, [2, 0, 1]), turned(other, [1, 2, 0])))


@translation("cosine_similarity")
def cosine_similarity(g, x1, x2, dim=1, eps=1e-8):
    lengths = [g.binary("Max", g.reduce("ReduceL2", x, [dim], True), eps) for x in (x1, x2)]
    product = g.binary("Mul", g.binary("Div", x1, lengths[0]), g.binary("Div", x2, lengths[1]))
    return g.reduce("ReduceSum", product, [dim], False)


@translation("isin")
def isin(g, elements, test_elements, *, assume_unique=False, invert=False):
    if not isinstance(test_elements, Value):
        found = comparison(g, "Equal", elements, test_elements)
    else:
        candidates = g.op("Reshape", test_elements, g.vector([-1]), shape=(None,))
        spread = elements if not isinstance(elements, Value) else g.unsqueeze(elements, [elements.rank])
        equal = comparison(g, "Equal", spread, candidates)
        equal.shape = (None,) * ((elements.rank if isinstance(elements, Value) else 0) + 1)
        found = g.cast(g.reduce("ReduceMax", g.cast(equal, INT64), [-1], False), BOOL)
    return g.op("Not", found, dtype=BOOL) if invert else found


@translation("bucketize")
def bucketize(g, self, boundaries, *, out_int32=False, right=False):
    return searchsorted(g, boundaries, self, out_int32=out_int32, right=right)


@translation("searchsorted")
def searchsorted(g, sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        g.refuse("a sorter is not supported")
    right = right or side == "right"
    sequence = g.unsqueeze(sorted_sequence, [sorted_sequence.rank - 1]) if sorted_sequence.rank > 1 else sorted_sequence
    values = g.unsqueeze(self, [self.rank]) if isinstance(self, Value) else self
    below = comparison(g, "LessOrEqual" if right else "Less", sequence, values)
    below.shape = (None,) * (self.rank + 1 if isinstance(self, Value) else 1)
    count = g.reduce("ReduceSum", g.cast(below, INT64), [-1], False)
    return g.cast(count, g.out.dtype)




__all__ = ["moments"]
