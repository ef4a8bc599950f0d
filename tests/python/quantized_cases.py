"""Calls of quantised operators, as a dictionary of functions of the library: what they give on PyTorch is in
``tests/goldens/quantized_ops.npz``."""

import numpy as np

DTYPES = {"quint8": (0.037, 100), "qint8": (0.041, -3), "qint32": (1.3e-5, 11)}


def numbers(seed, *shape):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


class Maker:
    """Makes tensors of a library from seeds."""

    def __init__(self, library):
        self.lib = library
        self.q = library.ops.quantized
        self.f = library.nn.functional

    def real(self, seed, *shape):
        return self.lib.from_numpy(numbers(seed, *shape))

    def quantised(self, seed, *shape, dtype="quint8", scale=None, zero=None, wide=2.0):
        given = DTYPES[dtype]
        scale, zero = given[0] if scale is None else scale, given[1] if zero is None else zero
        return self.lib.quantize_per_tensor(self.real(seed, *shape) * wide, scale, zero, getattr(self.lib, dtype))

    def weight(self, seed, *shape, channels=None, zero=0, axis=0):
        # FBGEMM's kernels of single channels saturate where two products of large weights meet.
        values = self.real(seed, *shape) * (0.2 if len(shape) == 4 and shape[1] == 1 else 1.0)
        if channels is None:
            return self.lib.quantize_per_tensor(values, 0.0213, zero, self.lib.qint8)
        scales = self.lib.from_numpy(np.random.RandomState(seed + 1).rand(channels) * 0.03 + 0.01)
        zeros = self.lib.zeros(channels, dtype=self.lib.int64) + zero
        return self.lib.quantize_per_channel(values, scales, zeros, axis, self.lib.qint8)


def elementwise(cases, dtype):
    scale, zero = DTYPES[dtype]
    out = (scale * 1.37, zero + 4)

    def add(name, f):
        cases[f"{dtype} {name}"] = f

    def x(m, shape=(3, 4, 9, 10)):
        return m.quantised(1, *shape, dtype=dtype)

    def y(m, shape=(3, 4, 9, 10)):
        return m.quantised(2, *shape, dtype=dtype, scale=scale * 1.71, zero=zero + 2)

    for op in ("add", "add_relu", "mul", "mul_relu"):
        add(op, lambda m, op=op: getattr(m.q, op)(x(m), y(m), *out))
        add(f"{op} broadcast", lambda m, op=op: getattr(m.q, op)(x(m), y(m, (1, 4, 1, 10)), *out))
        add(f"{op} strided", lambda m, op=op: getattr(m.q, op)(x(m).transpose(2, 3), y(m).transpose(2, 3), *out))
        add(f"{op}.out", lambda m, op=op: getattr(m.q, op)(
            x(m), y(m), out=m.quantised(3, 3, 4, 9, 10, dtype=dtype, scale=out[0], zero=out[1])))
    for number in (0.5, 3.0, -1.25, 20.0, -30.0):
        for op in ("add_scalar", "add_scalar_relu", "mul_scalar", "mul_scalar_relu"):
            if dtype != "qint32":
                add(f"{op} {number}", lambda m, op=op, n=number: getattr(m.q, op)(x(m), n))
    add("mul_scalar 0", lambda m: m.q.mul_scalar(x(m), 0.0))
    add("relu", lambda m: m.f.relu(x(m)))
    add("relu6", lambda m: m.q.relu6(x(m)))
    add("clamp", lambda m: m.q.clamp(x(m), -1.1, 1.3))
    add("aten clamp", lambda m: m.lib.clamp(x(m), -1.1, 1.3))
    add("clamp min", lambda m: m.q.clamp(x(m), -0.3, None))
    add("hardtanh", lambda m: m.f.hardtanh(x(m), -1.1, 1.3))
    add("threshold", lambda m: m.q.threshold(x(m), 0.5, 0.3))
    add("sigmoid", lambda m: m.lib.sigmoid(x(m)))
    add("sigmoid to", lambda m: m.q.sigmoid(x(m), *out))
    add("tanh", lambda m: m.lib.tanh(x(m)))
    add("elu", lambda m: m.q.elu(x(m), *out, 1.5))
    add("celu", lambda m: m.q.celu(x(m), *out, 1.5))
    add("leaky_relu", lambda m: m.f.leaky_relu(x(m), 0.1))
    add("leaky_relu to", lambda m: m.q.leaky_relu(x(m), 0.1, False, *out))
    add("hardswish", lambda m: m.q.hardswish(x(m), *out))
    add("hardsigmoid", lambda m: m.f.hardsigmoid(x(m)))
    add("softmax", lambda m: m.q.softmax(x(m), 1, 1 / 256, 0))
    add("cat", lambda m: m.q.cat([x(m), y(m)], 1, *out))
    add("cat none", lambda m: m.q.cat([x(m), y(m)], 1, None, None))
    add("cat same", lambda m: m.lib.cat([x(m), x(m)], 0))
    add("cat_relu", lambda m: m.q.cat_relu([x(m), y(m)], 1, *out))
    add("mean", lambda m: x(m).mean((2, 3)))
    add("mean keepdim", lambda m: x(m).mean(1, True))
    add("std", lambda m: x(m).std((2, 3)))
    if dtype != "qint32":
        add("gelu", lambda m: m.f.gelu(x(m)))
        add("matmul", lambda m: m.q.matmul(x(m), y(m).transpose(2, 3), *out))
        add("prelu", lambda m: m.q.prelu(
            x(m), m.lib.quantize_per_tensor(m.lib.tensor([0.1, 0.2, 0.3, 0.4]), 0.01, 0, getattr(m.lib, dtype)), *out))


def images(cases, dtype):
    def add(name, f):
        for last in (False, True):
            def run(m, f=f, last=last):
                x = m.quantised(4, 3, 8, 9, 10, dtype=dtype)
                return f(m, x.contiguous(memory_format=m.lib.channels_last) if last else x)
            cases[f"{dtype} {name}{' channels last' if last else ''}"] = run

    add("max_pool2d", lambda m, x: m.f.max_pool2d(x, 3, 2, 1))
    add("q max_pool2d", lambda m, x: m.q.max_pool2d(x, [3, 2], [2, 1], [1, 1], [1, 1], True))
    add("avg_pool2d", lambda m, x: m.f.avg_pool2d(x, 3, 2, 1))
    add("avg_pool2d parts", lambda m, x: m.f.avg_pool2d(x, 3, 2, 1, True, False))
    add("avg_pool2d divisor", lambda m, x: m.f.avg_pool2d(x, (2, 3), divisor_override=5))
    add("adaptive_avg_pool2d", lambda m, x: m.f.adaptive_avg_pool2d(x, (4, 3)))
    add("adaptive_avg_pool2d 1", lambda m, x: m.f.adaptive_avg_pool2d(x, 1))
    add("nearest", lambda m, x: m.f.interpolate(x, scale_factor=1.7))
    add("nearest-exact", lambda m, x: m.f.interpolate(x, size=(5, 21), mode="nearest-exact"))
    add("pixel_shuffle", lambda m, x: m.f.pixel_shuffle(x, 2))
    add("pad", lambda m, x: m.f.pad(x, (1, 2, 3, 0), value=1.0))
    add("batch_norm2d", lambda m, x: m.q.batch_norm2d(x, *statistics(m), 1e-5, *output(dtype)))
    if dtype != "qint32":
        add("batch_norm2d_relu", lambda m, x: m.q.batch_norm2d_relu(x, *statistics(m), 1e-5, *output(dtype)))
    plain(cases, dtype)


def output(dtype):
    scale, zero = DTYPES[dtype]
    return scale * 1.37, zero + 4


def statistics(m, channels=8):
    return [m.real(10 + i, channels).abs() + 0.1 for i in range(4)]


def plain(cases, dtype):
    """Of images whose channels do not come last."""
    def add(name, f):
        cases[f"{dtype} {name}"] = lambda m: f(m, m.quantised(4, 3, 8, 9, 10, dtype=dtype))

    add("bilinear", lambda m, x: m.f.interpolate(x, size=(13, 7), mode="bilinear", align_corners=True))
    add("bilinear by factor", lambda m, x: m.f.interpolate(x, scale_factor=1.7, mode="bilinear"))
    add("max_pool1d", lambda m, x: m.q.max_pool1d(x[:, 0], [3], [2], [1], [1], True))
    add("max_pool3d", lambda m, x: m.f.max_pool3d(x[:, :, None], (1, 3, 3)))
    add("avg_pool3d", lambda m, x: m.f.avg_pool3d(x[:, :, None], (1, 3, 3), 2, (0, 1, 1)))
    add("adaptive_avg_pool3d", lambda m, x: m.f.adaptive_avg_pool3d(x[:, :, None], (1, 4, 3)))
    add("nearest3d", lambda m, x: m.f.interpolate(x[:, :, None], size=(2, 13, 7)))
    add("reflect", lambda m, x: m.f.pad(x[:, 0], (2, 3), mode="reflect"))
    add("reflect2d", lambda m, x: m.f.pad(x, (2, 3, 1, 0), mode="reflect"))
    if dtype == "quint8":
        add("channel_shuffle", lambda m, x: m.f.channel_shuffle(x, 4))
    if dtype != "qint32":
        add("batch_norm1d", lambda m, x: m.q.batch_norm1d(x[:, :, 0], *statistics(m), 1e-5, *output(dtype)))
        add("layer_norm", lambda m, x: m.q.layer_norm(
            x, [9, 10], m.real(5, 9, 10), m.real(6, 9, 10), 1e-5, *output(dtype)))
        add("group_norm", lambda m, x: m.q.group_norm(x, 2, m.real(5, 8), m.real(6, 8), 1e-5, *output(dtype)))
        add("instance_norm", lambda m, x: m.q.instance_norm(x, m.real(5, 8), m.real(6, 8), 1e-5, *output(dtype)))


def linear(cases):
    shapes = [(1, 5, 3), (7, 64, 33), (2, 130, 70), (19, 36, 128)]
    for rows, depth, outputs in shapes:
        for channels in (None, outputs):
            for zero in (0, 3):
                for bias in (False, True):
                    name = f"{rows}x{depth}x{outputs} channels {channels} zero {zero} bias {bias}"

                    def packed(m, depth=depth, outputs=outputs, channels=channels, zero=zero, bias=bias):
                        weight = m.weight(20, outputs, depth, channels=channels, zero=zero)
                        return m.q.linear_prepack(weight, m.real(22, outputs) if bias else None)

                    def x(m, rows=rows, depth=depth):
                        return m.quantised(23, rows, depth, scale=0.017, zero=120)

                    cases[f"linear {name}"] = lambda m, x=x, p=packed: m.q.linear(x(m), p(m), 0.0913, 77)
                    cases[f"linear_relu {name}"] = lambda m, x=x, p=packed: m.q.linear_relu(x(m), p(m), 0.0913, 77)
                    cases[f"linear_dynamic {name}"] = lambda m, p=packed, s=(rows, depth): m.q.linear_dynamic(
                        m.real(24, *s), p(m))
                    cases[f"linear_dynamic reduced {name}"] = lambda m, p=packed, s=(rows, depth): (
                        m.q.linear_relu_dynamic(m.real(24, *s), p(m), True))
    cases["linear 3d"] = lambda m: m.q.linear(
        m.quantised(23, 2, 3, 8), m.q.linear_prepack(m.weight(20, 5, 8), None), 0.1, 3)
    cases["linear strided"] = lambda m: m.q.linear(
        m.quantised(23, 8, 3).t(), m.q.linear_prepack(m.weight(20, 5, 8), None), 0.1, 3)
    cases["linear_unpack"] = lambda m: m.q.linear_unpack(m.q.linear_prepack(m.weight(20, 5, 8), None))[0]


CONVOLUTIONS = {
    # input channels, outputs, kernel, stride, padding, dilation, groups, height, width
    "1x1": (16, 24, (1, 1), 1, 0, 1, 1, 7, 6),
    "1x1 odd": (5, 7, (1, 1), 1, 0, 1, 1, 7, 6),
    "1x1 strided": (16, 24, (1, 1), 2, 0, 1, 1, 7, 6),
    "3x3": (8, 10, (3, 3), 1, 1, 1, 1, 7, 9),
    "3x3 strided": (12, 70, (3, 3), 2, 1, 1, 1, 9, 8),
    "7x7 images": (3, 16, (7, 7), 2, 3, 1, 1, 17, 19),
    "dilated": (4, 6, (3, 2), (1, 2), (2, 1), 2, 1, 11, 9),
    "groups": (8, 12, (3, 3), 1, 1, 1, 2, 6, 6),
    "many groups": (32, 32, (3, 3), 1, 1, 1, 8, 6, 6),
    "depthwise": (24, 24, (3, 3), 1, 1, 1, 24, 8, 7),
    "multiplied depthwise": (6, 12, (3, 3), 2, 1, 1, 6, 8, 7),
    "wide depthwise": (128, 128, (3, 3), 1, 1, 1, 128, 6, 5),
}


def pair(x):
    return list(x) if isinstance(x, tuple) else [x, x]


def convolution(cases):
    for label, (inputs, outputs, kernel, stride, padding, dilation, groups, height, width) in CONVOLUTIONS.items():
        for channels in (None, outputs):
            def packed(m, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride, padding=padding,
                       dilation=dilation, groups=groups, channels=channels, dims=2):
                weight = m.weight(30, outputs, inputs // groups, *kernel, channels=channels)
                return m.q.conv2d_prepack(weight, m.real(32, outputs), pair(stride), pair(padding), pair(dilation), groups)

            def x(m, shape=(2, inputs, height, width)):
                return m.quantised(33, *shape, scale=0.0173, zero=113)

            for op in ("conv2d", "conv2d_relu"):
                cases[f"{op} {label} channels {channels}"] = lambda m, op=op, x=x, p=packed: getattr(m.q, op)(
                    x(m), p(m), 0.0713, 99)
            cases[f"conv2d {label} channels {channels} last"] = lambda m, x=x, p=packed: m.q.conv2d(
                x(m).contiguous(memory_format=m.lib.channels_last), p(m), 0.0713, 99)

    def with_zero(m):
        return m.q.conv2d_prepack(m.weight(30, 6, 5, 3, 3, zero=4), m.real(32, 6), [1, 1], [1, 1], [1, 1], 1)

    cases["conv2d zero points"] = lambda m: m.q.conv2d(m.quantised(33, 2, 5, 7, 6), with_zero(m), 0.0713, 99)
    for op in ("conv1d", "conv1d_relu"):
        cases[op] = lambda m, op=op: getattr(m.q, op)(
            m.quantised(33, 2, 6, 17),
            m.q.conv1d_prepack(m.weight(30, 8, 3, 5), m.real(32, 8), [2], [2], [1], 2), 0.0713, 99)
    for op in ("conv3d", "conv3d_relu"):
        cases[op] = lambda m, op=op: getattr(m.q, op)(
            m.quantised(33, 2, 6, 5, 6, 7),
            m.q.conv3d_prepack(m.weight(30, 8, 6, 3, 3, 3), m.real(32, 8), [1, 2, 1], [1, 1, 0], [1, 1, 1], 1),
            0.0913, 99)
    for reduced in (False, True):
        cases[f"conv2d_dynamic {reduced}"] = lambda m, r=reduced: m.q.conv2d_dynamic(
            m.real(33, 2, 5, 7, 6),
            m.q.conv2d_prepack(m.weight(30, 6, 5, 3, 3), m.real(32, 6), [1, 1], [1, 1], [1, 1], 1), r)
    transposed(cases)


def of_onednn(cases):
    """What the engine ``onednn`` alone has, or gives."""
    def packed(m, bias=True):
        return m.q.linear_prepack(m.weight(20, 33, 64, channels=33), m.real(22, 33) if bias else None)

    def x(m):
        return m.quantised(23, 7, 64, scale=0.017, zero=120)

    cases["linear of onednn"] = lambda m: m.q.linear(x(m), packed(m), 0.0913, 77)
    cases["linear of onednn no bias"] = lambda m: m.q.linear_relu(x(m), packed(m, False), 0.0913, 77)
    cases["linear_leaky_relu"] = lambda m: m.q.linear_leaky_relu(x(m), packed(m), 0.0913, 77, 0.13)
    cases["linear_tanh"] = lambda m: m.q.linear_tanh(x(m), packed(m), 0.0078, 128)
    for op in ("conv2d_add", "conv2d_add_relu"):
        cases[f"{op} of onednn"] = lambda m, op=op: getattr(m.q, op)(
            m.quantised(33, 2, 5, 7, 6), m.quantised(34, 2, 6, 7, 6, scale=0.031, zero=90),
            m.q.conv2d_prepack(m.weight(30, 6, 5, 3, 3), m.real(32, 6), [1, 1], [1, 1], [1, 1], 1), 0.0713, 99)


def transposed(cases):
    for stride, padding, extra, groups in ((1, 0, 0, 1), (2, 1, 1, 1), (3, 1, 0, 2)):
        def packed(m, stride=stride, padding=padding, extra=extra, groups=groups):
            return m.q.conv_transpose2d_prepack(
                m.weight(40, 6, 4, 3, 3), m.real(32, 4 * groups), pair(stride), pair(padding), pair(extra), [1, 1], groups)
        name = f"conv_transpose2d {stride} {padding} {extra} {groups}"
        cases[name] = lambda m, p=packed: m.q.conv_transpose2d(m.quantised(41, 2, 6, 5, 4), p(m), 0.0713, 99)
    cases["conv_transpose1d"] = lambda m: m.q.conv_transpose1d(
        m.quantised(41, 2, 6, 9),
        m.q.conv_transpose1d_prepack(m.weight(40, 6, 4, 3), m.real(32, 4), [2], [1], [1], [1], 1), 0.0713, 99)


def tables(cases):
    def table(m, bits=8):
        rows = m.real(50, 9, 8)
        return {8: m.q.embedding_bag_byte_prepack, 4: m.q.embedding_bag_4bit_prepack,
                2: m.q.embedding_bag_2bit_prepack}[bits](rows)

    indices, offsets = [1, 4, 8, 0, 4], [0, 2, 2]
    for bits, name in ((8, "byte"), (4, "4bit"), (2, "2bit")):
        cases[f"{name} prepack"] = lambda m, b=bits: table(m, b)
        cases[f"{name} unpack"] = lambda m, b=bits, n=name: getattr(m.q, f"embedding_bag_{n}_unpack")(table(m, b))
        cases[f"{name} bags"] = lambda m, b=bits, n=name: getattr(m.q, f"embedding_bag_{n}_rowwise_offsets")(
            table(m, b), m.lib.tensor(indices), m.lib.tensor(offsets))
        cases[f"{name} weighted"] = lambda m, b=bits, n=name: getattr(m.q, f"embedding_bag_{n}_rowwise_offsets")(
            table(m, b), m.lib.tensor(indices), m.lib.tensor(offsets), per_sample_weights=m.real(51, 5))

    def packed(m):
        scales = m.real(52, 9).abs() * 0.01 + 0.01
        zeros = m.real(53, 9) * 10 + 100
        return m.q.embedding_bag_prepack(
            m.lib.quantize_per_channel(m.real(50, 9, 8), scales, zeros, 0, m.lib.quint8))

    cases["embedding_byte"] = lambda m: m.q.embedding_byte(packed(m), m.lib.tensor(indices))
    cases["embedding_bag_byte"] = lambda m: m.q.embedding_bag_byte(
        packed(m), m.lib.tensor(indices), m.lib.tensor(offsets))


def recurrent(cases):
    def params(m, inputs, gates, hidden, reduced=False):
        return m.q.make_quantized_cell_params_dynamic(
            m.q.linear_prepack(m.weight(60, gates * hidden, inputs), m.real(61, gates * hidden)),
            m.q.linear_prepack(m.weight(62, gates * hidden, hidden), m.real(63, gates * hidden)),
            m.real(61, gates * hidden), m.real(63, gates * hidden), reduced)

    def lstm(m, first):
        x = m.real(64, 5, 3, 6)
        states = [m.real(65 + i, 4, 5 if first else 3, 7) for i in range(2)]
        cells = [params(m, 6 if i < 2 else 14, 4, 7, True) for i in range(4)]
        return m.lib.quantized_lstm(
            x, states, cells, True, 2, 0.0, False, True, first, dtype=m.lib.qint8, use_dynamic=True)

    def gru(m):
        return m.lib.quantized_gru(
            m.real(64, 5, 3, 6), m.real(65, 1, 3, 7), [params(m, 6, 3, 7)], True, 1, 0.0, False, False, False)

    for i in range(3):
        cases[f"lstm {i}"] = lambda m, i=i: lstm(m, False)[i]
        cases[f"lstm first {i}"] = lambda m, i=i: lstm(m, True)[i]
    for i in range(2):
        cases[f"gru {i}"] = lambda m, i=i: gru(m)[i]
    for cell in ("gru", "rnn_relu", "rnn_tanh"):
        gates = 3 if cell == "gru" else 1

        def run(m, cell=cell, gates=gates):
            p = [m.q.linear_prepack(m.weight(60 + 2 * i, gates * 7, n), m.real(61 + 2 * i, gates * 7))
                 for i, n in enumerate((6, 7))]
            return getattr(m.q, f"quantized_{cell}_cell_dynamic")(
                m.real(64, 3, 6), m.real(65, 3, 7), *p, m.real(61, gates * 7), m.real(63, gates * 7))
        cases[f"{cell} cell"] = run


def all_cases():
    cases = {}
    for dtype in DTYPES:
        elementwise(cases, dtype)
        images(cases, dtype)
    for part in (linear, convolution, of_onednn, tables, recurrent):
        part(cases)
    return cases


def described(library, result):
    """The integers of a result or its numbers, and what they stand for."""
    if not result.is_quantized:
        return result.detach().numpy(), None
    values = np.array(result.int_repr().contiguous().numpy())
    if result.qscheme() == library.per_tensor_affine:
        return values, [result.q_scale(), result.q_zero_point(), *result.stride()]
    return values, None
