"""Pooling."""

from __future__ import annotations

from corten.onnx._graph import INT64
from corten.onnx._table import translation
from corten.onnx._translations.products import spread


def _batched(g, value, count):
    """With a batch dimension, and whether it was there."""
    if value.rank == count + 2:
        return value, True
    return g.unsqueeze(value, [0]), False


def _unbatched(g, value, rank, batched):
    if batched:
        return value
    value.shape = (None,) * (rank + 1)
    return g.squeeze(value, [0])


def _windows(kernel_size, stride, padding, count):
    kernel = spread(kernel_size, count)
    stride = spread(stride, count) if stride not in (None, [], ()) else kernel
    padding = spread(padding, count)
    return {"kernel_shape": kernel, "strides": stride, "pads": padding + padding}


def _max_pool(g, value, count, kernel_size, stride, padding, dilation, ceil_mode, with_indices):
    inner, batched = _batched(g, value, count)
    attributes = _windows(kernel_size, stride, padding, count)
    attributes.update(dilations=spread(dilation, count), ceil_mode=int(ceil_mode))
    found = g.op("MaxPool", inner, outputs=2 if with_indices else 1, **attributes)
    if not with_indices:
        return _unbatched(g, found, value.rank, batched)
    values, indices = found
    indices.dtype = INT64
    indices = _within_plane(g, inner, indices, count)
    return _unbatched(g, values, value.rank, batched), _unbatched(g, indices, value.rank, batched)


def _within_plane(g, value, indices, count):
    """Positions within each plane: ONNX counts through the whole tensor."""
    plane = 1
    for dim in range(2, 2 + count):
        plane = g.compute("Mul", plane, g.size(value, dim))
    return g.op("Mod", indices, g.as_size(plane), dtype=INT64)


@translation("max_pool1d", "max_pool2d", "max_pool3d", "quantized_max_pool2d")
def max_pool(g, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    count = _count(g.label)
    return _max_pool(g, self, count, kernel_size, stride, padding, dilation, ceil_mode, False)


@translation("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(g, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    count = _count(g.label)
    if not g.needs(1):
        return _max_pool(g, self, count, kernel_size, stride, padding, dilation, ceil_mode, False), None
    return _max_pool(g, self, count, kernel_size, stride, padding, dilation, ceil_mode, True)


def _count(label):
    """The spatial dimensions of an operator, by its name."""
    return int(label[label.index("d", label.index("pool")) - 1])


@translation("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(g, self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    count = _count(g.label)
    value, batched = _batched(g, self, count)
    attributes = _windows(kernel_size, stride, padding, count)
    attributes.update(ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad))
    if divisor_override:
        attributes["count_include_pad"] = 1
    found = g.op("AveragePool", value, **attributes)
    if divisor_override:
        area = 1
        for size in attributes["kernel_shape"]:
            area *= size
        found = g.binary("Mul", found, area / divisor_override)
    return _unbatched(g, found, self.rank, batched)


@translation("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(g, self, output_size):
    return _adaptive(g, self, output_size, "AveragePool", "ReduceMean")


@translation("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(g, self, output_size):
    if g.needs(1):
        g.refuse("positions of the largest elements are not supported")
    return _adaptive(g, self, output_size, "MaxPool", "ReduceMax"), None


def _adaptive(g, value, output_size, pool, whole):
    count = _count(g.label)
    sizes = spread(output_size, count)
    dims = list(range(value.rank - count, value.rank))
    known = value.shape[-count:]
    sizes = [size if given is None else given for given, size in zip(sizes, known)]
    if all(size == 1 for size in sizes):
        return g.reduce(whole, value, dims, True)
    if not all(isinstance(size, int) for size in known):
        g.refuse("windows of adaptive pooling must be known where results have more than one element")
    if all(size % given == 0 for size, given in zip(known, sizes)):
        inner, batched = _batched(g, value, count)
        window = [size // given for size, given in zip(known, sizes)]
        found = g.op(pool, inner, kernel_shape=window, strides=window)
        return _unbatched(g, found, value.rank, batched)
    for dim, size, given in zip(dims, known, sizes):
        value = _adaptive_dim(g, value, dim, size, given, whole)
    return value


def _adaptive_dim(g, value, dim, size, given, whole):
    """Windows of unequal sizes along one dimension: a reduction for each."""
    if size == given:
        return value
    parts = []
    for i in range(given):
        start, end = i * size // given, -((i + 1) * size // -given)
        part = g.slice(value, [start], [end], [dim])
        part.shape = tuple(end - start if j == dim else known for j, known in enumerate(value.shape))
        parts.append(g.reduce(whole, part, [dim], True))
    shape = tuple(given if i == dim else known for i, known in enumerate(value.shape))
    return g.op("Concat", *parts, shape=shape, axis=dim)


@translation("lp_pool1d", "lp_pool2d")
def lp_pool(g, self, norm_type, kernel_size, stride=None, ceil_mode=False):
    count = _count(g.label)
    value, batched = _batched(g, self, count)
    found = g.op("LpPool", value, p=int(norm_type), ceil_mode=int(ceil_mode), **_windows(kernel_size, stride, 0, count))
    return _unbatched(g, found, self.rank, batched)
