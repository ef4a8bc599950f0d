"""Products of matrices and convolutions."""

from __future__ import annotations

from corten.onnx._graph import FLOATS, Value
from corten.onnx._table import translation
from corten.onnx._translations.pointwise import _scaled


@translation("mm", "bmm", "mv", "dot", "matmul", "vdot", "inner")
def matmul(g, self, other):
    if "inner" in g.label and other.rank > 1:
        other = g.transpose(other, [*range(other.rank - 2), other.rank - 1, other.rank - 2])
    return g.op("MatMul", self, other)


@translation("linear")
def linear(g, input, weight, bias=None):  # noqa: A002
    if input.rank == 2 and input.dtype in FLOATS:
        return g.op("Gemm", input, weight, bias, transB=1)
    if weight.rank == 1:
        found = g.op("MatMul", input, weight)
    else:
        found = g.op("MatMul", input, g.transpose(weight, [1, 0]), shape=(None,) * input.rank)
    return found if bias is None else g.op("Add", found, bias)


@translation("addmm")
def addmm(g, self, mat1, mat2, *, beta=1, alpha=1):
    if mat1.dtype not in FLOATS:
        product = g.op("MatMul", mat1, mat2, shape=(None, None))
        return g.binary("Add", _scaled(g, product, alpha), _scaled(g, self, beta))
    attributes = {name: float(number) for name, number in (("alpha", alpha), ("beta", beta)) if number != 1}
    return g.op("Gemm", mat1, mat2, self, **attributes)


@translation("addmv", "baddbmm", "addbmm")
def baddbmm(g, self, batch1, batch2, *, beta=1, alpha=1):
    product = g.op("MatMul", batch1, batch2, shape=(None,) * batch2.rank)
    if "addbmm" in g.label and "baddbmm" not in g.label:
        product = g.reduce("ReduceSum", product, [0], False)
    product = _scaled(g, product, alpha)
    return product if beta == 0 else g.binary("Add", product, _scaled(g, self, beta))


@translation("outer", "ger")
def outer(g, self, vec2):
    return g.binary("Mul", g.unsqueeze(self, [1]), g.unsqueeze(vec2, [0]), g.out.dtype)


@translation("einsum")
def einsum(g, equation, operands, *, path=None):
    return g.op("Einsum", *operands, equation=equation.replace(" ", ""))


@translation("chain_matmul", "linalg_multi_dot")
def multi_dot(g, matrices):
    found = matrices[0]
    for matrix in matrices[1:]:
        found = g.op("MatMul", found, matrix)
    return found


@translation("bilinear")
def bilinear(g, input1, input2, weight, bias=None):
    partial = g.op("Einsum", input1, weight, input2, equation="...i,oij,...j->...o")
    return partial if bias is None else g.op("Add", partial, bias)


@translation("_trilinear")
def trilinear(g, i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    parts = [g.unsqueeze(value, dims) if dims else value for value, dims in ((i1, expand1), (i2, expand2), (i3, expand3))]
    rank = parts[0].rank
    product = g.binary("Mul", g.binary("Mul", parts[0], parts[1]), parts[2])
    product.shape = (None,) * rank
    return g.reduce("ReduceSum", product, list(sumdim), False) if sumdim else product


@translation("cdist", "_cdist_forward")
def cdist(g, x1, x2, p=2.0, compute_mode=None):
    difference = g.binary("Sub", g.unsqueeze(x1, [x1.rank - 1]), g.unsqueeze(x2, [x2.rank - 2]))
    difference.shape = (None,) * (x1.rank + 1)
    if p in (1, 2):
        return g.reduce("ReduceL1" if p == 1 else "ReduceL2", difference, [-1], False)
    total = g.reduce("ReduceSum", g.binary("Pow", g.op("Abs", difference, shape=difference.shape), float(p)), [-1], False)
    return g.binary("Pow", total, 1.0 / p)


# Convolutions.


def spread(numbers, count):
    """One number for each spatial dimension."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers)
    return numbers * count if len(numbers) == 1 else numbers


@translation("convolution", "_convolution")
def convolution(g, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *rest):  # noqa: A002
    batched = input.rank == weight.rank
    count = weight.rank - 2
    value = input if batched else g.unsqueeze(input, [0])
    stride, dilation, padding = spread(stride, count), spread(dilation, count), padding_of(g, padding, count)
    common = {
        "kernel_shape": kernel_shape(g, weight), "strides": stride, "dilations": dilation, "group": groups,
    }
    common.update(padding)
    if transposed:
        extra = spread(output_padding, count)
        common["output_padding"] = extra if any(extra) else None
    found = g.op("ConvTranspose" if transposed else "Conv", value, weight, bias, shape=(None,) * weight.rank, **common)
    return found if batched else g.squeeze(found, [0])


def kernel_shape(g, weight):
    """The spatial sizes of a weight."""
    sizes = list(weight.shape[2:])
    if not all(isinstance(size, int) for size in sizes):
        g.refuse("the sizes of the kernel must be known")
    return sizes


def padding_of(g, padding, count):
    """Padding as attributes: numbers, ``"same"`` or ``"valid"``."""
    if padding == "valid":
        return {"pads": [0] * (2 * count)}
    if padding == "same":
        return {"auto_pad": "SAME_UPPER"}
    padding = spread(padding, count)
    if any(isinstance(size, Value) for size in padding):
        g.refuse("padding must be known")
    return {"pads": padding + padding}


@translation("conv1d", "conv2d", "conv3d")
def conv(g, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):  # noqa: A002
    if padding == "same" and any(size % 2 == 0 for size in kernel_shape(g, weight)):
        padding = _same(weight, dilation)
        if any(low != high for low, high in padding):
            input, padding = _padded(g, input, padding), 0  # noqa: A001
        else:
            padding = [low for low, _ in padding]
    return convolution(g, input, weight, bias, stride, padding, dilation, False, 0, groups)


def _same(weight, dilation):
    """What keeps the size: PyTorch puts the odd element behind."""
    dilation = spread(dilation, weight.rank - 2)
    totals = [step * (size - 1) for step, size in zip(dilation, weight.shape[2:])]
    return [(total // 2, total - total // 2) for total in totals]


def _padded(g, value, padding):
    before = [0] * (value.rank - len(padding)) + [low for low, _ in padding]
    behind = [0] * (value.rank - len(padding)) + [high for _, high in padding]
    return g.op("Pad", value, g.vector(before + behind), shape=(None,) * value.rank)


@translation("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(g, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):  # noqa: A002
    return convolution(g, input, weight, bias, stride, padding, dilation, True, output_padding, groups)


@translation("torchvision.deform_conv2d")
def deform_conv2d(g, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,  # noqa: A002
                  groups, offset_groups, use_mask):
    if g.opset < 19:
        g.refuse("deformable convolutions need opset 19")
    return g.op(
        "DeformConv", input, weight, offset, bias, mask if use_mask else None, strides=[stride_h, stride_w],
        pads=[pad_h, pad_w, pad_h, pad_w], dilations=[dilation_h, dilation_w], group=groups, offset_group=offset_groups,
        kernel_shape=kernel_shape(g, weight),
    )


@translation("_int_mm")
def int_mm(g, self, mat2):
    return g.op("MatMulInteger", self, mat2, dtype=g.out.dtype)


@translation("trace")
def trace(g, self):
    count = g.op("EyeLike", self)
    return g.reduce("ReduceSum", g.cast(g.binary("Mul", self, count), g.out.dtype), None, False)

