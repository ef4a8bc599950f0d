"""Tensors that are made, and random numbers."""

from __future__ import annotations

from corten.onnx._graph import BOOL, DOUBLE, FLOAT, FLOATS, INT64, Value
from corten.onnx._table import translation
from corten.onnx._translations.pointwise import unary


@translation("full", "new_full")
def full(g, *arguments, **options):
    size, value = arguments[-2:]
    return _filled(g, size, value)


@translation("zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
def zeros(g, *arguments, **options):
    size = arguments[1] if ".new_" in g.label else arguments[0]
    return _filled(g, size, int("ones" in g.label))


@translation("full_like", "zeros_like", "ones_like", "empty_like")
def full_like(g, self, fill_value=None, **options):
    value = int("ones" in g.label) if fill_value is None else fill_value
    if all(isinstance(size, int) for size in self.shape):
        return _filled(g, self.shape, value)
    return g.op("Expand", g.cast(value, g.out.dtype), g.sizes(self), dtype=g.out.dtype)


@translation("fill", "zero")
def fill(g, self, value=0):
    return full_like(g, self, value)


def _filled(g, size, value):
    value = g.cast(value, g.out.dtype)
    size = list(size)
    return value if not size else g.expand(value, size)


@translation("scalar_tensor", "tensor")
def scalar_tensor(g, s, **options):
    return g.cast(s, g.out.dtype)


@translation("arange")
def arange(g, *bounds, **options):
    bounds = list(bounds)
    start, end, step = {1: [0, *bounds, 1], 2: [*bounds, 1], 3: bounds}[len(bounds)]
    dtype = g.out.dtype
    if dtype in FLOATS and dtype not in (FLOAT, DOUBLE):
        found = g.op("Range", *(g.cast(number, FLOAT) for number in (start, end, step)), dtype=FLOAT)
        return g.cast(found, dtype)
    return g.op("Range", *(g.cast(number, dtype) for number in (start, end, step)), dtype=dtype)


@translation("linspace")
def linspace(g, start, end, steps, **options):
    dtype = g.out.dtype
    if isinstance(steps, Value) or isinstance(start, Value) or isinstance(end, Value):
        g.refuse("bounds and steps must be known")
    if steps == 1:
        return g.vector([start], dtype)
    width = (end - start) / (steps - 1)
    # From both ends, as PyTorch counts.
    numbers = [start + i * width if i < steps // 2 else end - (steps - 1 - i) * width for i in range(steps)]
    return g.vector(numbers, dtype)


@translation("eye")
def eye(g, n, m=None, **options):
    zeros = g.expand(g.scalar(0, INT64), [n, n if m is None else m])
    return g.cast(g.op("EyeLike", zeros, shape=(None, None)), g.out.dtype)


# Random numbers: what the runtime draws, which are not those that PyTorch draws.


@translation("randn", "rand", "normal.float_float", "randint")
def randn(g, *arguments, **options):
    sizes = next(part for part in arguments if isinstance(part, (list, tuple)))
    sizes = g.expand(g.scalar(0.0, FLOAT), list(sizes), tuple(g.out.shape))
    if "randint" in g.label:
        bounds = [part for part in arguments if not isinstance(part, (list, tuple))]
        low, high = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        drawn = g.op("RandomUniformLike", sizes, low=float(low), high=float(high))
        return g.cast(unary(g, "Floor", drawn), g.out.dtype)
    if "normal" in g.label:
        return g.cast(g.op("RandomNormalLike", sizes, mean=float(arguments[0]), scale=float(arguments[1])), g.out.dtype)
    return g.cast(g.op("RandomNormalLike" if "randn" in g.label else "RandomUniformLike", sizes), g.out.dtype)


@translation("randn_like", "rand_like")
def randn_like(g, self, **options):
    value = g.cast(self, g.out.dtype)
    return g.op("RandomNormalLike" if "randn" in g.label else "RandomUniformLike", value)


@translation("randint_like")
def randint_like(g, self, *bounds, **options):
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    drawn = g.op("RandomUniformLike", g.cast(self, FLOAT), shape=self.shape, low=float(low), high=float(high))
    return g.cast(unary(g, "Floor", drawn), g.out.dtype)


@translation("normal")
def normal(g, mean, std=1.0, **options):
    like = mean if isinstance(mean, Value) else std
    drawn = g.op("RandomNormalLike", like, shape=like.shape)
    return g.binary("Add", g.binary("Mul", drawn, std), mean, g.out.dtype)


@translation("normal_functional", "uniform", "normal_")
def uniform(g, self, *bounds, **options):
    bounds = [*bounds, *(0.0, 1.0)[len(bounds) :]]
    if "normal" in g.label:
        return g.op("RandomNormalLike", self, mean=float(bounds[0]), scale=float(bounds[1]))
    return g.op("RandomUniformLike", self, low=float(bounds[0]), high=float(bounds[1]))


@translation("bernoulli")
def bernoulli(g, self, p=None, **options):
    if p is None:
        return g.op("Bernoulli", self)
    drawn = g.op("RandomUniformLike", g.cast(self, FLOAT), shape=self.shape)
    return g.cast(g.op("Less", drawn, g.scalar(p, FLOAT), dtype=BOOL), g.out.dtype)


@translation("multinomial")
def multinomial(g, self, num_samples, replacement=False, **options):
    if num_samples != 1 and not replacement:
        g.refuse("samples without replacement are not supported")
    rows = self if self.rank == 2 else g.unsqueeze(self, [0])
    drawn = g.op("Multinomial", unary(g, "Log", rows), dtype=INT64, sample_size=num_samples)
    drawn.shape = (None, num_samples)
    drawn = _with_dtype(g, drawn)
    return drawn if self.rank == 2 else g.squeeze(drawn, [0])


def _with_dtype(g, value):
    """The node's attribute that says that it counts in 64 bits."""
    g.graph.nodes[-1].attributes["dtype"] = INT64
    return value
