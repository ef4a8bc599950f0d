"""Numbers as they are after quantisation and back, for training that knows of it."""

from __future__ import annotations

import corten
from corten._overriding import as_operator
from corten._utils import scalar_type, short_dtype, wrap_dim

_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16"}


class FakeQuantize(corten.autograd.Function):
    """Rounds to steps; the gradient passes where nothing was cut off."""

    @staticmethod
    def forward(ctx, input, scale, zero_point, quant_min, quant_max, shifted):
        # Steps are counted in single precision at least; the rest is done in single precision, too,
        # unless channels of doubles have scales of their own.
        exact = input if input.dtype == corten.float64 else input.to(corten.float32)
        steps = exact * (1 / scale)
        steps = (steps + zero_point).round() if shifted else steps.round() + zero_point
        inside = (steps >= quant_min) & (steps <= quant_max)
        ctx.save_for_backward(inside)
        kept = steps if scale.dim() else steps.to(corten.float32)
        lowest, highest = (kept.new_tensor(float(limit)) for limit in (quant_min, quant_max))
        kept = corten.fmin(corten.fmax(kept, lowest), highest)
        return ((kept - zero_point) * scale).to(input.dtype)

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None, None, None


def _check(input, quant_min, quant_max):
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")
    if not input.is_floating_point():
        kind = scalar_type(input.dtype)
        raise NotImplementedError(
            f'"fake_quantize_tensor_cachemask_kernel_type_handling" not implemented for \'{kind}\''
        )


@as_operator
def fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max):
    """``input`` quantised and back: ``(clamp(round(input / scale) + zero_point) - zero_point) * scale``.

    Raises:
        RuntimeError: The limits are in disorder, or zero lies outside of them.
    """
    _check(input, quant_min, quant_max)
    if isinstance(scale, corten.Tensor):
        scale = scale.detach().to(corten.float32).reshape(())
        zero_point = zero_point.detach().to(corten.float32).reshape(())
    else:
        if not quant_min <= zero_point <= quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
        scale = corten.tensor(scale, dtype=corten.float32)
        zero_point = corten.tensor(float(zero_point), dtype=corten.float32)
    return FakeQuantize.apply(input, scale, zero_point, quant_min, quant_max, False)


@as_operator
def fake_quantize_per_channel_affine(input, scale, zero_point, axis, quant_min, quant_max):
    """As :func:`fake_quantize_per_tensor_affine`, with a scale and a zero for every slice along an
    axis.

    Raises:
        RuntimeError: The limits are in disorder, or scales and zeros do not fit the input.
    """
    kinds = [short_dtype(one.dtype) for one in (scale, zero_point)]
    if kinds[0] not in ("float32", "bfloat16"):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {_NAMES.get(kinds[0], kinds[0])}")
    if kinds[1] not in ("int32", "float32", "float16"):
        found = scalar_type(zero_point.dtype)
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {found}")
    if scale.dim() != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.dim() != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    wrap_dim(axis, input.dim())
    if scale.numel() != input.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    _check(input, quant_min, quant_max)
    if ((zero_point < quant_min) | (zero_point > quant_max)).any():
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    shape, shifted = [1] * input.dim(), zero_point.is_floating_point()
    shape[axis] = -1
    scale, zero_point = (one.detach().to(corten.float32).reshape(shape) for one in (scale, zero_point))
    # Zeros that are no whole numbers are added before the rounding.
    return FakeQuantize.apply(input, scale, zero_point, quant_min, quant_max, shifted)
