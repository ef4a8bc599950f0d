"""Quantisation and back, as pairs of QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from corten.onnx._graph import FLOAT, INT8, UINT8, Value, element_type
from corten.onnx._table import translation

_RANGES = {UINT8: (0, 255), INT8: (-128, 127), 4: (0, 65535), 5: (-32768, 32767)}


def _type(g, quant_min, quant_max, dtype=None):
    """The element type of quantised numbers."""
    if dtype is not None:
        return element_type(dtype)
    found = next((number for number, (low, high) in _RANGES.items() if low <= quant_min and quant_max <= high), None)
    if found is None or found in (4, 5) and g.opset < 21:
        g.refuse(f"quantised numbers from {quant_min} to {quant_max} have no type in opset {g.opset}")
    return found


def _parameters(g, scale, zero_point, dtype):
    """Scale and zero point as values without dimensions, or with one."""
    scale = g.cast(scale, FLOAT)
    return scale, g.cast(0 if zero_point is None else zero_point, dtype)


def _quantize(g, value, scale, zero_point, quant_min, quant_max, dtype, axis=None):
    scale, zero = _parameters(g, scale, zero_point, dtype)
    if (quant_min, quant_max) != _RANGES.get(dtype):
        if axis is not None or isinstance(zero_point, Value):
            found = g.op("QuantizeLinear", value, scale, zero, dtype=dtype, shape=value.shape, axis=axis)
            return g.op("Clip", found, g.scalar(quant_min, dtype), g.scalar(quant_max, dtype))
        low = g.binary("Mul", scale, float(quant_min - (zero_point or 0)))
        high = g.binary("Mul", scale, float(quant_max - (zero_point or 0)))
        value = g.op("Clip", value, low, high, shape=value.shape)
    return g.op("QuantizeLinear", value, scale, zero, dtype=dtype, shape=value.shape, axis=axis)


def _dequantize(g, value, scale, zero_point, axis=None):
    if value.dtype not in (UINT8, INT8, 6) and g.opset < 21:
        g.refuse("numbers of this type cannot be dequantised before opset 21")
    scale, zero = _parameters(g, scale, zero_point, value.dtype)
    return g.op("DequantizeLinear", value, scale, zero, dtype=FLOAT, shape=value.shape, axis=axis)


@translation("quantized_decomposed.quantize_per_tensor")
def quantize_per_tensor(g, input, scale, zero_point, quant_min, quant_max, dtype):  # noqa: A002
    return _quantize(g, input, scale, zero_point, quant_min, quant_max, _type(g, quant_min, quant_max, dtype))


@translation("quantized_decomposed.dequantize_per_tensor")
def dequantize_per_tensor(g, input, scale, zero_point, quant_min, quant_max, dtype, **options):  # noqa: A002
    return g.cast(_dequantize(g, input, scale, zero_point), g.out.dtype)


@translation("quantized_decomposed.quantize_per_channel")
def quantize_per_channel(g, input, scales, zero_points, axis, quant_min, quant_max, dtype):  # noqa: A002
    return _quantize(g, input, scales, zero_points, quant_min, quant_max, _type(g, quant_min, quant_max, dtype), axis)


@translation("quantized_decomposed.dequantize_per_channel")
def dequantize_per_channel(g, input, scales, zero_points, axis, quant_min, quant_max, dtype, **options):  # noqa: A002
    return g.cast(_dequantize(g, input, scales, zero_points, axis), g.out.dtype)


@translation("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_per_tensor(g, self, scale, zero_point, quant_min, quant_max):
    dtype = _type(g, quant_min, quant_max)
    found = _quantize(g, self, scale, zero_point, quant_min, quant_max, dtype)
    found = _dequantize(g, found, scale, zero_point)
    return (found, None) if "cachemask" in g.label else found


@translation("fake_quantize_per_channel_affine", "fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel(g, self, scale, zero_point, axis, quant_min, quant_max):
    dtype = _type(g, quant_min, quant_max)
    found = _quantize(g, self, scale, zero_point, quant_min, quant_max, dtype, axis)
    found = _dequantize(g, found, scale, zero_point, axis)
    return (found, None) if "cachemask" in g.label else found
