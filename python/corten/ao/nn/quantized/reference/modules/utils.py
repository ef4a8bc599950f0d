"""Weights of reference modules: floats with parameters of their quantization."""

from __future__ import annotations

import corten
from corten import nn

__all__ = ["ReferenceQuantizedModule"]


def usual_qparams():
    """What a weight is quantized with where nothing else is said."""
    return {"qscheme": corten.per_tensor_affine, "dtype": corten.quint8, "scale": 1.0, "zero_point": 0}


def _per_channel():
    return (corten.per_channel_affine, corten.per_channel_affine_float_qparams)


def as_buffer(value, dtype, device):
    """A parameter of quantization as a tensor of its own."""
    if isinstance(value, corten.Tensor):
        return value.detach().clone()
    return corten.tensor(value, dtype=dtype, device=device)


def _unsupported(dtype, scheme):
    return ValueError(f"Unsupported dtype and qscheme: {dtype}, {scheme}")


def _quantize_weight(weight, weight_qscheme, weight_dtype, weight_scale, weight_zero_point, weight_axis_int):
    """The weight as a quantized tensor, or in half precision."""
    if weight_dtype == corten.float16:
        return weight.to(weight_dtype)
    whole = (corten.quint8, corten.qint8, corten.qint32)
    if weight_qscheme == corten.per_tensor_affine and weight_dtype in whole:
        return corten.quantize_per_tensor(weight, weight_scale, weight_zero_point, weight_dtype)
    if weight_qscheme in _per_channel() and weight_dtype in (*whole, corten.quint4x2):
        return corten.quantize_per_channel(weight, weight_scale, weight_zero_point, weight_axis_int, weight_dtype)
    raise _unsupported(weight_dtype, weight_qscheme)


def _quantize_and_dequantize_weight(weight, weight_qscheme, *parameters):
    """The values that the quantized weight has, as floats."""
    if weight_qscheme != corten.per_tensor_affine and weight_qscheme not in _per_channel():
        return weight
    return _quantize_weight(weight, weight_qscheme, *parameters).dequantize()


def _limits(dtype, low, high):
    """The integer dtype of a quantized one, and the range of values."""
    plain = {corten.quint8: corten.uint8, corten.qint8: corten.int8, corten.qint32: corten.int32}[dtype]
    if low is None or high is None:
        info = corten.iinfo(plain)
        low, high = info.min, info.max
    return low, high, plain


def _decomposed(verb, weight, scheme, dtype, scale, zero_point, axis, low, high):
    """A step between floats and integers by operators that know no quantized tensors."""
    if dtype not in (corten.quint8, corten.qint8, corten.qint32):
        raise _unsupported(dtype, scheme)
    limits = _limits(dtype, low, high)
    ops = corten.ops.quantized_decomposed
    if scheme == corten.per_tensor_affine:
        return getattr(ops, f"{verb}_per_tensor")(weight, scale, zero_point, *limits)
    if scheme in _per_channel():
        return getattr(ops, f"{verb}_per_channel")(weight, scale, zero_point, axis, *limits)
    raise _unsupported(dtype, scheme)


class ReferenceQuantizedModule(nn.Module):
    """A module with a float weight and the parameters that it would be quantized with."""

    def _init_weight_qparams(self, weight_qparams, device):
        qparams = usual_qparams() if weight_qparams is None else weight_qparams
        self.weight_qscheme = scheme = qparams["qscheme"]
        self.weight_dtype = qparams["dtype"]
        if scheme not in (None, corten.per_tensor_affine, *_per_channel()):
            raise AssertionError(
                f"qscheme: {scheme} is not supported in reference quantized {self._get_name()}"
            )
        scale, zero_point, axis = 1.0, 0, 0
        if self.weight_dtype in (corten.quint8, corten.qint8, corten.quint4x2, corten.qint32):
            scale, zero_point = qparams["scale"], qparams["zero_point"]
            axis = qparams["axis"] if scheme in _per_channel() else 0
        self.register_buffer("weight_scale", as_buffer(scale, corten.float, device))
        self.register_buffer("weight_zero_point", as_buffer(zero_point, corten.int, device))
        self.register_buffer("weight_axis", as_buffer(axis, corten.int, device))
        self.is_decomposed = qparams.get("is_decomposed", False)
        self.weight_axis_int = self.weight_axis.item()
        self.weight_quant_min = qparams.get("quant_min")
        self.weight_quant_max = qparams.get("quant_max")

    def _parameters_of_weight(self):
        for name in ("weight_scale", "weight_zero_point"):
            if not isinstance(getattr(self, name), corten.Tensor):
                raise AssertionError(f"{name} must be a Tensor")
        return (
            self.weight_qscheme, self.weight_dtype, self.weight_scale, self.weight_zero_point, self.weight_axis_int,
        )

    def get_weight(self):
        """The values that the quantized weight has, as floats."""
        parameters = self._parameters_of_weight()
        if not self.is_decomposed:
            return _quantize_and_dequantize_weight(self.weight, *parameters)
        if self.weight_qscheme is None:
            return self.weight
        limits = (self.weight_quant_min, self.weight_quant_max)
        return _decomposed("dequantize", self.get_quantized_weight(), *parameters, *limits)

    def get_quantized_weight(self):
        """The weight as a quantized tensor, or as integers where the module is decomposed."""
        parameters = self._parameters_of_weight()
        if not self.is_decomposed:
            return _quantize_weight(self.weight, *parameters)
        limits = (self.weight_quant_min, self.weight_quant_max)
        return _decomposed("quantize", self.weight, *parameters, *limits)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight_qscheme"] = self.weight_qscheme
        destination[prefix + "weight_dtype"] = self.weight_dtype
        if self.weight_qscheme is not None:
            destination[prefix + "weight_scale"] = self.weight_scale
            destination[prefix + "weight_zero_point"] = self.weight_zero_point
            if self.weight_qscheme == corten.per_channel_affine:
                destination[prefix + "weight_axis"] = self.weight_axis

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        names = ["weight_qscheme", "weight_dtype"]
        if state_dict[prefix + "weight_qscheme"] is not None:
            names += ["weight_scale", "weight_zero_point"]
        for name in names:
            setattr(self, name, state_dict.pop(prefix + name))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )
        self.weight_axis_int = self.weight_axis.item()
