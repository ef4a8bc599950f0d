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
    _check_grouped(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return corten.bmm(mat_a, mat_b)
    ends = offs.tolist()
    groups = [slice(start, max(start, end)) for start, end in zip([0, *ends], ends)]
    if mat_a.dim() == mat_b.dim():
        return corten.stack([mat_a[:, group] @ mat_b[group] for group in groups])
    if mat_a.dim() == 2:
        parts = [mat_a[group] @ mat_b[place] for place, group in enumerate(groups)]
        return _filled(corten.cat(parts), 0, mat_a.size(0))
    parts = [mat_a[place] @ mat_b[:, group] for place, group in enumerate(groups)]
    return _filled(corten.cat(parts, 1), 1, mat_b.size(1))


def _filled(result, dim, size):
    """Zeros behind the last group."""
    missing = size - result.size(dim)
    if missing <= 0:
        return result
    shape = [*result.shape]
    shape[dim] = missing
    return corten.cat([result, result.new_zeros(shape)], dim)


#: The dtypes of products of groups, by the names that errors have for them.
_DTYPES = {corten.float32: "Float", corten.bfloat16: "BFloat16", corten.float16: "Half",
           corten.float64: "Double", corten.int64: "Long", corten.int32: "Int"}


def _name(dtype):
    return _DTYPES.get(dtype, str(dtype).split(".")[-1].capitalize())


def _check_grouped(mat_a, mat_b, offs, bias, out_dtype):
    def check(condition, message):
        if not condition:
            raise RuntimeError(message)

    allowed = (corten.float32, corten.bfloat16, corten.float16)
    check(mat_a.dtype in allowed,
          f"Expected mat_a to be Float32, BFloat16 or Float16 matrix, got {_name(mat_a.dtype)}")
    check(mat_a.dtype == mat_b.dtype, "Expected mat_a and mat_b to have the same dtype, got "
          f"{_name(mat_a.dtype)} and {_name(mat_b.dtype)}")
    for name, mat in (("mat_a", mat_a), ("mat_b", mat_b)):
        check(mat.dim() in (2, 3), f"{name} has to be 2 or 3d")
    stacks = mat_a.dim() == mat_b.dim() == 3
    both_single = mat_a.dim() == mat_b.dim() == 2
    check(both_single or mat_a.size(-1) == mat_b.size(-2),
          "contraction dimension of mat_a and mat_b must match")
    for mat in (mat_a, mat_b):
        _check_strides(mat)
    check(not stacks or mat_a.size(0) == mat_b.size(0), "batched dimension has to match")
    check((offs is None) == stacks, "Have to provide offsets if there is a 2d matrix, or no offset "
          "if both matrices are 3d")
    if offs is not None:
        check(offs.dim() == 1, "offs has to be 1D")
        check(offs.dtype == corten.int32, "Offsets have to be int32")
        stack = mat_a if mat_a.dim() == 3 else mat_b
        check(both_single or stack.size(0) == offs.size(0), "matrix batch sizes have to match")
    check(bias is None, "Bias not supported yet")
    check(out_dtype in (None, mat_a.dtype), "Grouped gemm output dtype must match `mat_a` dtype")


def _check_strides(mat):
    """One of the last two dimensions is contiguous, and lines of the other begin at 16 bytes."""
    for inner, outer in ((-1, -2), (-2, -1)):
        if mat.stride(inner) == 1 and mat.stride(outer) >= max(1, mat.size(inner)):
            if mat.stride(outer) * mat.element_size() % 16:
                raise RuntimeError("strides should be multiple of 16 bytes")
            return
    raise RuntimeError(
        f"Invalid strides/sizes, got {list(mat.stride())} for strides and {list(mat.shape)} for sizes"
    )


def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
              swizzle_b=None, bias=None, output_dtype=corten.bfloat16, contraction_dim=(),
              use_fast_accum=False):
    """The product of two matrices of eight-bit floats, each with a scale, or one per row of the
    first and column of the second. The scales of blocks are those of GPUs."""
    result = _scaled_product(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b)
    output_dtype = mat_a.dtype if output_dtype is None else output_dtype
    if bias is not None:
        result = result + bias.float()
    return result.to(output_dtype)


def _scaled_product(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b):
    """The product of two matrices with scales, in single precision."""
    scales, recipes = _lists(scale_a, scale_b), _lists(scale_recipe_a, scale_recipe_b)
    _check_scaled(mat_a, mat_b, scales, recipes)
    result = mat_a.float() @ mat_b.float()
    return result * scales[0][0].reshape(-1, 1) * scales[1][0].reshape(1, -1)


def _lists(*values):
    return [value if isinstance(value, (list, tuple)) else [value] for value in values]


def _check_scaled(mat_a, mat_b, scales, recipes):
    def check(condition, message):
        if not condition:
            raise ValueError(message)

    for name, mat in (("mat_a", mat_a), ("mat_b", mat_b)):
        check(mat.dim() == 2, f"{name} must be a matrix")
    check(mat_a.size(1) == mat_b.size(0), "mat_a and mat_b shapes cannot be multiplied "
          f"({mat_a.size(0)}x{mat_a.size(1)} and {mat_b.size(0)}x{mat_b.size(1)})")
    names = [str(mat.dtype).split(".")[-1] for mat in (mat_a, mat_b)]
    check(all(name.startswith("float8") for name in names), "Expected both inputs to be fp8 or fp4 "
          f"types but got mat_a.dtype={_name(mat_a.dtype)} and mat_b.dtype={_name(mat_b.dtype)}")
    by_tensor, by_row = [[ScalingType.TensorWise]] * 2, [[ScalingType.RowWise]] * 2
    check(recipes in (by_tensor, by_row), "Invalid scaling configuration for _scaled_mm_v2: "
          f"unsupported recipe(s). Got mat_a.dtype={names[0].capitalize()}, "
          f"mat_b.dtype={names[1].capitalize()}, recipe_a.size()={len(recipes[0])}, "
          f"recipe_b.size()={len(recipes[1])}")
    for name, (scale,), size in (("a", scales[0], mat_a.size(0)), ("b", scales[1], mat_b.size(1))):
        if recipes == by_tensor:
            right = scale.numel() == 1 and scale.dtype == corten.float32
            check(right, f"scale_{name} must have 1 Float element")
        else:
            check(scale.numel() == size and scale.dtype == corten.float32,
                  f"scale_{name} must have {size} Float elements, got {scale.numel()}")


def scaled_addmm(input, mat1, mat2, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
                 swizzle_b=None, contraction_dim=(), use_fast_accum=False, *, beta=1.0, alpha=1.0):
    """``beta * input + alpha * scaled_mm(mat1, mat2)`` in the dtype of ``input``, rounded once."""
    if input.dtype not in (corten.bfloat16, corten.float16, corten.float32):
        raise ValueError(
            f"input must have dtype BFloat16, Half, or Float, but got {_name(input.dtype)}"
        )
    product = _scaled_product(mat1, mat2, scale_a, scale_recipe_a, scale_b, scale_recipe_b)
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
    scales, recipes = _lists(scale_a, scale_b), _lists(scale_recipe_a, scale_recipe_b)
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
