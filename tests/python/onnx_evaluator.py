"""Runs graphs of ONNX, as the extension module reads them, with operators of the package: what the tests need of ONNX."""

from __future__ import annotations

import corten as torch

DTYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16,
    11: torch.float64, 16: torch.bfloat16,
}


def ints(value):
    return [int(number) for number in value.reshape(-1).tolist()]


def reduce(function):
    def run(x, axes=None, keepdims=1, noop_with_empty_axes=0):
        dims = list(range(x.dim())) if axes is None else ints(axes)
        return function(x, dims, bool(keepdims)) if dims else x

    return run


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    product = alpha * ((a.t() if transA else a) @ (b.t() if transB else b))
    return product if c is None else product + beta * c


def slices(x, starts, ends, axes=None, steps=None):
    axes = range(x.dim()) if axes is None else ints(axes)
    steps = [1] * len(ints(starts)) if steps is None else ints(steps)
    for axis, start, end, step in zip(axes, ints(starts), ints(ends), steps):
        picked = list(range(x.shape[axis]))[slice(start, None if step < 0 and end < -x.shape[axis] else end, step)]
        x = x.index_select(axis, torch.tensor(picked, dtype=torch.int64))
    return x


def reshape(x, sizes, allowzero=0):
    sizes = ints(sizes)
    return x.reshape([x.shape[i] if size == 0 and not allowzero else size for i, size in enumerate(sizes)])


def conv(x, w, b=None, strides=None, pads=None, dilations=None, group=1, kernel_shape=None, auto_pad=None):
    count = x.dim() - 2
    pads = pads or [0] * (2 * count)
    function = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[count - 1]
    return function(x, w, b, strides or 1, pads[:count], dilations or 1, group)


def max_pool(x, kernel_shape, strides=None, pads=None, dilations=None, ceil_mode=0):
    count = x.dim() - 2
    pads = (pads or [0] * (2 * count))[:count]
    return torch.nn.functional.max_pool2d(x, kernel_shape, strides, pads, dilations or 1, bool(ceil_mode))


def batch_norm(x, scale, bias, mean, var, epsilon=1e-5):
    return torch.nn.functional.batch_norm(x, mean, var, scale, bias, False, 0.1, epsilon)


def layer_norm(x, scale, bias=None, axis=-1, epsilon=1e-5):
    return torch.nn.functional.layer_norm(x, list(x.shape[axis:]), scale, bias, epsilon)


def scatter_nd(x, positions, updates, reduction="none"):
    places = tuple(positions[..., i] for i in range(positions.shape[-1]))
    return x.index_put(places, updates, accumulate=reduction == "add")


def gather(x, index, axis=0):
    flat = x.index_select(axis, index.reshape(-1) % x.shape[axis])
    axis = axis % x.dim()
    return flat.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


def split(x, sizes=None, axis=0, num_outputs=None):
    return x.chunk(num_outputs, axis) if sizes is None else x.split(ints(sizes), axis)


def unsqueeze(x, axes):
    for axis in sorted(ints(axes)):
        x = x.unsqueeze(axis)
    return x


def squeeze(x, axes):
    for axis in sorted(ints(axes), reverse=True):
        x = x.squeeze(axis)
    return x


def expand(x, sizes):
    return x.expand(torch.broadcast_shapes(tuple(x.shape), tuple(ints(sizes))))


def shape(x, start=0, end=None):
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


def trilu(x, k=None, upper=1):
    return (torch.triu if upper else torch.tril)(x, 0 if k is None else int(k))


def topk(x, k, axis=-1, largest=1, sorted=1):  # noqa: A002
    return torch.topk(x, ints(k)[0], axis, bool(largest), True)


OPERATORS = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Pow": torch.pow, "MatMul": torch.matmul, "Relu": torch.relu,
    "Div": lambda a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf, "Exp": torch.exp, "Log": torch.log, "Neg": torch.neg,
    "Sqrt": torch.sqrt, "Abs": torch.abs, "Floor": torch.floor, "Reciprocal": torch.reciprocal, "Identity": lambda x: x,
    "Where": torch.where, "And": torch.logical_and, "Or": torch.logical_or, "Not": torch.logical_not, "IsNaN": torch.isnan,
    "Equal": torch.eq, "Less": torch.lt, "Greater": torch.gt, "LessOrEqual": torch.le, "GreaterOrEqual": torch.ge,
    "Cast": lambda x, to: x.to(DTYPES[to]), "Gemm": gemm, "Conv": conv, "MaxPool": max_pool, "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm, "Softmax": lambda x, axis=-1: x.softmax(axis),
    "LogSoftmax": lambda x, axis=-1: x.log_softmax(axis), "ReduceSum": reduce(torch.sum), "ReduceMean": reduce(torch.mean),
    "ReduceMax": reduce(torch.amax), "ReduceMin": reduce(torch.amin), "Reshape": reshape, "Slice": slices,
    "Transpose": lambda x, perm: x.permute(perm), "Concat": lambda *parts, axis: torch.cat(parts, axis), "Split": split,
    "Unsqueeze": unsqueeze, "Squeeze": squeeze, "Expand": expand, "Shape": shape, "Gather": gather,
    "GatherElements": lambda x, i, axis=0: x.gather(axis, i), "GatherND": lambda x, i: x[tuple(i.unbind(-1))],
    "ScatterND": scatter_nd, "ScatterElements": lambda x, i, s, axis=0: x.scatter(axis, i, s), "Trilu": trilu, "TopK": topk,
    "Range": lambda a, b, c: torch.arange(a.item(), b.item(), c.item(), dtype=a.dtype),
    "CumSum": lambda x, axis: x.cumsum(int(axis)), "Mod": lambda a, b, fmod=0: torch.fmod(a, b) if fmod else torch.remainder(a, b),
    "Clip": lambda x, low=None, high=None: x.clamp(low, high), "Max": torch.maximum, "Min": torch.minimum,
    "Gelu": lambda x, approximate="none": torch.nn.functional.gelu(x, approximate=approximate),
    "ArgMax": lambda x, axis=0, keepdims=1: x.argmax(axis, bool(keepdims)), "Tile": lambda x, r: x.repeat(ints(r)),
    "NonZero": lambda x: x.nonzero().t(), "Softplus": torch.nn.functional.softplus,
}


def run(model, feed):
    """The outputs of a model for inputs by name."""
    return run_graph(model["graph"], dict(feed))


def run_graph(graph, values):
    values = {**values, **dict(graph["initializers"])}
    for node in graph["nodes"]:
        inputs = [values[name] if name else None for name in node["inputs"]]
        found = _call(node, inputs, values)
        values.update(zip(node["outputs"], found if isinstance(found, (tuple, list)) else [found]))
    return [values[output["name"]] for output in graph["outputs"]]


def _call(node, inputs, values):
    attributes, kind = node["attributes"], node["op_type"]
    if kind == "If":
        return run_graph(attributes["then_branch" if bool(inputs[0]) else "else_branch"], values)
    if kind == "Loop":
        return _loop(attributes["body"], inputs, values)
    return OPERATORS[kind](*inputs, **attributes)


def _loop(body, inputs, values):
    most, going, *carried = inputs
    step = 0
    names = [value["name"] for value in body["inputs"]]
    while (going is None or bool(going)) and (most is None or step < int(most)):
        feed = {**values, names[0]: torch.tensor(step), names[1]: torch.tensor(True), **dict(zip(names[2:], carried))}
        going, *carried = run_graph(body, feed)
        step += 1
    return carried
