"""Quantization whose numbers are arguments: the operators of ``torch.ops.quantized_decomposed`` as functions."""

from __future__ import annotations

import math

import corten
from corten.library import Library

quantized_decomposed_lib = Library("quantized_decomposed", "FRAGMENT")

_INTEGER_DTYPES = [corten.uint8, corten.int8, corten.uint16, corten.int16, corten.int32]
_FLOAT_DTYPES = [corten.float8_e5m2, corten.float8_e4m3fn]
_DTYPE_TO_QVALUE_BOUNDS = {
    dtype: (int(limits(dtype).min), int(limits(dtype).max))
    for dtypes, limits in ((_INTEGER_DTYPES, corten.iinfo), (_FLOAT_DTYPES, corten.finfo))
    for dtype in dtypes
}

_ops = corten.ops.quantized_decomposed
quantize_per_tensor = _ops.quantize_per_tensor.default
quantize_per_tensor_tensor = _ops.quantize_per_tensor.tensor
quantize_per_tensor_tensor2 = _ops.quantize_per_tensor.tensor2
dequantize_per_tensor = _ops.dequantize_per_tensor.default
dequantize_per_tensor_tensor = _ops.dequantize_per_tensor.tensor
dequantize_per_tensor_tensor2 = _ops.dequantize_per_tensor.tensor2
choose_qparams_tensor = _ops.choose_qparams.tensor
choose_qparams_symmetric_tensor = _ops.choose_qparams_symmetric.tensor
quantize_per_channel = _ops.quantize_per_channel.default
dequantize_per_channel = _ops.dequantize_per_channel.default
choose_qparams_per_token = _ops.choose_qparams_per_token.default
choose_qparams_per_token_asymmetric = _ops.choose_qparams_per_token_asymmetric.default
_choose_qparams_per_token_asymmetric_impl = _ops._choose_qparams_per_token_asymmetric_impl.default
quantize_per_token = _ops.quantize_per_token.default
fake_quant_per_channel = _ops.fake_quant_per_channel.default
convert_element_type = _ops.convert_element_type.no_fuse


def dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype=corten.float32):
    """Rows of integers as floats, by a scale and a zero point each."""
    return _ops.dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype)


def quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size=128):
    """Groups of columns of a matrix quantised by a scale and a zero point each."""
    return _ops.quantize_per_channel_group(
        input, scales, zero_points, quant_min, quant_max, dtype, group_size)


def dequantize_per_channel_group(w_int8, scales, zero_points, quant_min, quant_max, dtype, group_size=128,
                                 output_dtype=corten.float32):
    """Groups of columns of a matrix of integers as floats, by a scale and a zero point each."""
    return _ops.dequantize_per_channel_group(
        w_int8, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype)


def _quant_min_max_bounds_check(quant_min, quant_max, dtype):
    """Refuses limits that a dtype does not have."""
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype: {dtype}")
    least, greatest = _DTYPE_TO_QVALUE_BOUNDS[dtype]
    if quant_min < least:
        raise AssertionError(
            f"quant_min out of bounds for dtype, quant_min_lower_bound: {least} quant_min: {quant_min}"
        )
    if quant_max > greatest:
        raise AssertionError(
            f"quant_max out of bounds for dtype, quant_max_upper_bound: {greatest} quant_max: {quant_max}"
        )


def _per_token_quant_qparam_dim_check(input, scales, zero_points):
    """Refuses numbers that are not one for each row."""
    tokens = math.prod(input.shape[:-1])
    for name, numbers in (("scales", scales), ("zero_points", zero_points)):
        if tokens != numbers.numel():
            raise AssertionError(f"num_tokens: {tokens} {name}: {numbers.size()}")
