"""Products of groups of matrices, of matrices with scales, and convolutions over time."""

from __future__ import annotations

from enum import Enum

import corten
from corten._overriding import as_operator

__all__ = [
    "ScalingType", "SwizzleType", "conv_tbc", "grouped_mm", "scaled_addmm", "scaled_addmm_",
    "scaled_grouped_mm", "scaled_mm",
]


class ScalingType(Enum):
    """What one scale is for: the whole tensor, a row, a block."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """How scales of blocks lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
    SWIZZLE_32_8 = 2


@as_operator
def conv_tbc(input, weight, bias, pad=0):
    """A convolution over the first dimension.

    ``input`` is (time, batch, channels), ``weight`` (width, channels in, channels out), ``bias``
    has a number per channel.
    """
    _check_conv_tbc(input, weight, bias)
    width, steps = weight.size(0), input.size(0) + 2 * pad - weight.size(0) + 1
    if steps < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {steps}: "
            f"[{steps}, {input.size(1)}, {weight.size(2)}]"
        )
    if input.dtype != weight.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {_name(input.dtype)} and "
            f"{_name(weight.dtype)}"
        )
    if pad:
        input = corten.constant_pad_nd(input, (0, 0, 0, 0, pad, pad), 0)
    result = bias.expand(steps, input.size(1), weight.size(2))
    for place in range(width):
        result = result + input[place:place + steps] @ weight[place]
    return result


def _check_conv_tbc(input, weight, bias):
    for place, (name, x) in enumerate({"self": input, "weight": weight, "bias": bias}.items(), 1):
        if not isinstance(x, corten.Tensor):
            raise TypeError(
                f"conv_tbc(): argument '{name}' (position {place}) must be Tensor, not "
                f"{type(x).__name__}"
            )
    for right, message in (
        (input.dim() == 3, "Input must have 3 dims: time, batch, in_channel"),
        (weight.dim() == 3,
         "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."),
        (bias.dim() == 1, "Bias must be 1-D"),
    ):
        if not right:
            raise RuntimeError(message)
    if input.size(2) != weight.size(1):
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.size(2) != bias.size(0):
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of pairs of matrices.

    Two stacks of matrices are multiplied one by one. Where one of the two, or both, is a single
    matrix, ``offs`` has the ends of its groups: of rows of ``mat_a``, of columns of ``mat_b``, or of
    both along the dimension that is summed over.
    """
    return corten._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


#: The dtypes of products of groups, by the names that errors have for them.
_DTYPES = {corten.float32: "Float", corten.bfloat16: "BFloat16", corten.float16: "Half",
           corten.float64: "Double", corten.int64: "Long", corten.int32: "Int"}


def _name(dtype):
    return _DTYPES.get(dtype, str(dtype).split(".")[-1].capitalize())


def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
              swizzle_b=None, bias=None, output_dtype=corten.bfloat16, contraction_dim=(),
              use_fast_accum=False):
    """The product of two matrices of eight-bit floats, each with a scale, or one per row of the
    first and column of the second. The scales of blocks are those of GPUs."""
    scales, recipes, swizzles = _lists(
        (scale_a, scale_b), (scale_recipe_a, scale_recipe_b), (swizzle_a, swizzle_b)
    )
    recipes, swizzles = ([_numbers(one) for one in pair] for pair in (recipes, swizzles))
    return corten._scaled_mm_v2(
        mat_a, mat_b, scales[0], recipes[0], swizzles[0], scales[1], recipes[1], swizzles[1], bias,
        output_dtype, contraction_dim, use_fast_accum,
    )


def _lists(*pairs):
    """Pairs of values or of lists of them, as pairs of lists."""
    return [
        [[*value] if isinstance(value, (list, tuple)) else [] if value is None else [value]
         for value in pair]
        for pair in pairs
    ]


def _numbers(values):
    return [value.value for value in values]


def scaled_addmm(input, mat1, mat2, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
                 swizzle_b=None, contraction_dim=(), use_fast_accum=False, *, beta=1.0, alpha=1.0):
    """``beta * input + alpha * scaled_mm(mat1, mat2)`` in the dtype of ``input``, rounded once."""
    if input.dtype not in (corten.bfloat16, corten.float16, corten.float32):
        raise ValueError(
            f"input must have dtype BFloat16, Half, or Float, but got {_name(input.dtype)}"
        )
    product = scaled_mm(mat1, mat2, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a,
                        swizzle_b, None, corten.float32, contraction_dim, use_fast_accum)
    if input.shape != product.shape:
        raise ValueError(
            f"input must have shape {list(product.shape)}, but got {list(input.shape)}"
        )
    product = product * alpha
    # As in `addmm`, what is multiplied by zero does not count, NaN included.
    return (product if beta == 0 else product + input.float() * beta).to(input.dtype)


def scaled_addmm_(input, *args, **kwargs):
    """`scaled_addmm` into ``input``."""
    return input.copy_(scaled_addmm(input, *args, **kwargs))


scaled_addmm_.__wrapped__ = scaled_addmm


def scaled_grouped_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
                      swizzle_b=None, bias=None, offs=None, output_dtype=corten.bfloat16,
                      contraction_dim=(), use_fast_accum=False):
    """Products of pairs of matrices of eight-bit floats, in groups as those of `grouped_mm`, with a
    scale for every row of the first factor and every column of the second. Where groups lie along
    the dimension that is summed over, each group has scales of its own, one group after the other."""
    scales, recipes = _lists((scale_a, scale_b), (scale_recipe_a, scale_recipe_b))
    _check_scaled_grouped(mat_a, mat_b, scales, recipes, output_dtype)
    a = _with_scales(mat_a, scales[0][0], offs, -1, mat_b.dim())
    b = _with_scales(mat_b, scales[1][0], offs, -2, mat_a.dim())
    return grouped_mm(a, b, offs=offs, bias=bias).to(corten.bfloat16)


def _with_scales(mat, scale, offs, summed, others):
    """A factor in single precision, its rows or columns multiplied by their scales."""
    wide = mat.float()
    if mat.dim() == 2 and others == 2:
        # One set of scales for every group of the dimension that is summed over.
        sizes = offs.diff(prepend=offs.new_zeros(1)).long()
        per_group = scale.reshape(offs.numel(), -1).repeat_interleave(sizes, 0)
        per_group = corten.nn.functional.pad(per_group, (0, 0, 0, mat.size(summed) - per_group.size(0)))
        wide = wide * (per_group.t() if summed == -1 else per_group)
    else:
        wide = wide * scale.reshape(*mat.shape[:-2], -1).unsqueeze(summed)
    # Rows of whole 16 bytes stay so in single precision; transposed factors keep their strides.
    return wide


def _check_scaled_grouped(mat_a, mat_b, scales, recipes, output_dtype):
    def check(condition, message):
        if not condition:
            raise ValueError(message)

    check(output_dtype in (None, corten.bfloat16),
          "Only bf16 high precision output types are supported for grouped gemm")
    names = [str(mat.dtype).split(".")[-1] for mat in (mat_a, mat_b)]
    check(all(name.startswith("float8") for name in names), "Expected both inputs to be fp8 or fp4 "
          f"types but got mat_a.dtype={_name(mat_a.dtype)} and mat_b.dtype={_name(mat_b.dtype)}")
    check(recipes == [[ScalingType.RowWise]] * 2, "Invalid scaling configuration for "
          "scaled_grouped_mm: scales are those of rows and columns (ScalingType.RowWise)")
    for name, (scale,) in zip("ab", scales):
        check(scale.dtype == corten.float32, f"scale_{name} must have Float elements")
