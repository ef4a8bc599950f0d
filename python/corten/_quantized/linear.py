"""Linear layers over packed parameters."""

from __future__ import annotations

import corten
from corten import _C
from corten._quantized.packed import LinearPackedParamsBase, LinearPackedParamsFp16

_call = _C._op_call


def linear_prepack(W, B=None):
    """Packs a quantised weight and a bias."""
    return LinearPackedParamsBase(W, B)


def linear_prepack_fp16(W, B=None):
    """Packs a weight in ``float16`` and a bias."""
    return LinearPackedParamsFp16(W, B)


def linear_unpack(W_prepack):
    """The weight and the bias."""
    return W_prepack.unpack()


linear_unpack_fp16 = linear_unpack


def _quantized_linear(X, packed, scale, zero_point, relu):
    if not X.is_quantized:
        raise NotImplementedError(
            "Could not run 'quantized::linear' with arguments from the 'CPU' backend: the input is not quantized"
        )
    return _call(
        "corten::quantized_linear", X, *packed._parts, packed._bias, scale, zero_point, relu, packed.onednn
    )


def linear(X, W_prepack, Y_scale_i, Y_zero_point_i):
    """A linear layer, on a scale."""
    return _quantized_linear(X, W_prepack, Y_scale_i, Y_zero_point_i, False)


def linear_relu(X, W_prepack, Y_scale_i, Y_zero_point_i):
    """A linear layer, or 0 where that is more, on a scale."""
    return _quantized_linear(X, W_prepack, Y_scale_i, Y_zero_point_i, True)


def _numbers(X, packed):
    """What a layer of a quantised tensor gives, before it is quantised."""
    return _call(
        "corten::int8_linear", X.int_repr(), *packed._parts, packed._bias, X.q_scale(), X.q_zero_point(), None, 0,
        False, packed.onednn,
    )


def _only_onednn(packed, name):
    if not packed.onednn:
        raise RuntimeError(f"Didn't find engine for operation quantized::{name} X86")


def linear_leaky_relu(X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):
    """A linear layer, times a slope where it is negative, on a scale."""
    _only_onednn(W_prepack, "linear_leaky_relu")
    numbers = corten.nn.functional.leaky_relu(_numbers(X, W_prepack), negative_slope)
    return corten.quantize_per_tensor(numbers, Y_scale_i, Y_zero_point_i, corten.quint8)


def linear_tanh(X, W_prepack, Y_scale_i, Y_zero_point_i):
    """The hyperbolic tangent of a linear layer, on a scale."""
    _only_onednn(W_prepack, "linear_tanh")
    return corten.quantize_per_tensor(_numbers(X, W_prepack).tanh(), Y_scale_i, Y_zero_point_i, corten.quint8)


def _dynamic(X, packed, reduce_range, relu):
    if isinstance(packed, LinearPackedParamsFp16):
        return _fp16(X, packed, relu)
    return _call("corten::int8_linear_dynamic", X, *packed._parts, packed._bias, reduce_range, relu)


def linear_dynamic(X, W_prepack, reduce_range=False):
    """A linear layer of numbers, which are quantised by their range."""
    return _dynamic(X, W_prepack, reduce_range, False)


def linear_relu_dynamic(X, W_prepack, reduce_range=False):
    """The same, or 0 where that is more."""
    return _dynamic(X, W_prepack, reduce_range, True)


def _fp16(X, packed, relu):
    numbers = corten.nn.functional.linear(X, packed.weight, packed._bias)
    return numbers.relu() if relu else numbers


def linear_dynamic_fp16(X, W_prepack):
    """A linear layer with a weight in ``float16``."""
    return _fp16(X, W_prepack, False)


def linear_relu_dynamic_fp16(X, W_prepack):
    """The same, or 0 where that is more."""
    return _fp16(X, W_prepack, True)


def linear_dynamic_fp16_unpacked_weight(X, weight, bias):
    """A linear layer with a weight that is rounded to ``float16``."""
    return _fp16(X, LinearPackedParamsFp16(weight, bias), False)


def _given_scale(X, scale, zero_point, packed, relu):
    bytes_ = corten.quantize_per_tensor(X, scale, zero_point, corten.quint8).int_repr()
    return _call(
        "corten::int8_linear", bytes_, *packed._parts, packed._bias, scale, zero_point, None, 0, relu, packed.onednn
    )


def linear_with_input_q_dq_qweight_dq_output_fp32(X, X_scale, X_zero_point, W_prepack):
    """A linear layer of numbers, which are quantised on a scale."""
    return _given_scale(X, X_scale, X_zero_point, W_prepack, False)


def linear_with_input_q_dq_qweight_dq_relu_output_fp32(X, X_scale, X_zero_point, W_prepack):
    """The same, or 0 where that is more."""
    return _given_scale(X, X_scale, X_zero_point, W_prepack, True)
