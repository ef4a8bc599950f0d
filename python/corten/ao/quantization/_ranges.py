"""Limits of quantised integers, and scales and zero points that follow from observed limits."""

from __future__ import annotations

import warnings

import corten

#: The smallest and greatest integer by dtype, and those of a range that is reduced by one bit.
_LIMITS = {
    "qint8": ((-128, 127), (-64, 63)), "int8": ((-128, 127), (-64, 63)),
    "quint8": ((0, 255), (0, 127)), "uint8": ((0, 255), (0, 127)),
    "qint32": ((-(2**31), 2**31 - 1),) * 2, "int32": ((-(2**31), 2**31 - 1),) * 2,
    "uint16": ((0, 2**16 - 1),) * 2, "int16": ((-(2**15), 2**15 - 1),) * 2,
}

#: The integers in which quantised dtypes are counted.
_STORED_AS = dict(qint8="int8", quint8="uint8", qint32="int32", quint4x2="uint8", quint2x4="uint8")


def dtypes(*names):
    """The dtypes of these names."""
    return [getattr(corten, name) for name in names]


def iinfo(dtype):
    """The limits of an integer dtype, or of the integers of a quantised one."""
    name = str(dtype).rpartition(".")[2]
    return corten.iinfo(getattr(corten, _STORED_AS.get(name, name)))


def is_per_tensor(qscheme):
    """Whether a scheme has one scale for a tensor."""
    return qscheme in (corten.per_tensor_affine, corten.per_tensor_symmetric)


def is_per_channel(qscheme):
    """Whether a scheme has a scale for every slice along an axis."""
    return qscheme in (
        corten.per_channel_affine, corten.per_channel_affine_float_qparams, corten.per_channel_symmetric
    )


def is_symmetric(qscheme):
    """Whether a scheme's zero point is the middle of its range."""
    return qscheme in (corten.per_tensor_symmetric, corten.per_channel_symmetric)


def validate_qmin_qmax(quant_min, quant_max):
    """Refuses limits without zero between them or in disorder."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")


def calculate_qmin_qmax(quant_min, quant_max, has_customized_qrange, dtype, reduce_range):
    """The limits of quantised integers of a dtype, or of the range that was asked for."""
    if not has_customized_qrange:
        name = str(dtype).rpartition(".")[2]
        return _LIMITS.get(name, ((0, 15),) * 2)[bool(reduce_range)]
    wide = dtype in dtypes("qint32", "int32")
    low, high = (0, 2**32 - 1) if wide else (0, 255)
    if quant_min is not None and quant_max is not None:
        low, high = quant_min, quant_max
    most = 2**32 if wide else 256
    if (wide or dtype in dtypes("qint8", "int8")) and not 0 < high - low + 1 <= most:
        raise AssertionError(
            "quantization range should be positive and not exceed the maximum bit range "
            f"(={most})."
        )
    if reduce_range:
        return quant_min // 2, quant_max // 2
    return quant_min, quant_max


def check_min_max_valid(min_val, max_val):
    """Whether limits were observed; with a warning where not.

    Raises:
        AssertionError: The least value is greater than the greatest.
    """
    unseen = min_val.numel() == 0 or max_val.numel() == 0
    scalar = min_val.dim() == 0 or max_val.dim() == 0
    if not unseen and scalar:
        unseen = bool(min_val == float("inf") and max_val == float("-inf"))
    if unseen:
        warnings.warn(
            "must run observer before calling calculate_qparams. Returning default values.", stacklevel=2
        )
        return False
    if (min_val > max_val) if scalar else corten.any(min_val > max_val):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


def _middle(dtype, quant_min, quant_max, customized):
    if dtype in dtypes("quint8", "uint8"):
        return (quant_min + quant_max) // 2 if customized else 128
    return 0


def qparams_of_limits(min_val, max_val, qscheme, quant_min, quant_max, eps, middle):
    """Scale and zero point for values between observed limits; ``middle`` is a symmetric zero point."""
    low = corten.min(min_val, corten.zeros_like(min_val))
    high = corten.max(max_val, corten.zeros_like(max_val))
    if is_symmetric(qscheme):
        high = corten.max(-low, high)
        scale = corten.max(high / (float(quant_max - quant_min) / 2), eps)
        zero_point = corten.full(low.size(), middle, dtype=corten.int64, device=low.device)
    elif qscheme == corten.per_channel_affine_float_qparams:
        scale = (max_val - min_val) / float(quant_max - quant_min)
        scale = corten.where(scale > eps, scale, corten.ones_like(scale))
        zero_point = -1 * min_val / scale
    else:
        scale = corten.max((high - low) / float(quant_max - quant_min), eps)
        zero_point = quant_min - corten.round(low / scale).to(corten.int)
        zero_point = corten.clamp(zero_point, quant_min, quant_max)
    if scale.dim() == 0:
        scale = scale.reshape(1)
    if zero_point.dim() == 0:
        zero_point = zero_point.reshape(1)
    return scale, zero_point


def determine_qparams(
    min_val, max_val, quant_min, quant_max, dtype, eps, has_customized_qrange,
    qscheme=corten.per_tensor_affine,
):
    """Scale (double) and zero point (int64) for values between observed limits."""
    if not check_min_max_valid(min_val, max_val):
        device = min_val.device.type
        return corten.tensor([1.0], device=device), corten.tensor([0], device=device)
    middle = _middle(dtype, quant_min, quant_max, has_customized_qrange)
    eps = eps.to(min_val.device)
    scale, zero_point = qparams_of_limits(min_val, max_val, qscheme, quant_min, quant_max, eps, middle)
    return scale.to(corten.double), zero_point.to(corten.int64)
