"""Quantized linear maps."""

from __future__ import annotations

import corten
from corten import nn
from corten.ao.nn import intrinsic as nni
from corten.nn.utils.fusion import fuse_linear_bn_weights
from corten.nn.utils.parametrize import type_before_parametrizations

from .utils import (
    WeightedQuantizedModule,
    _hide_packed_params_repr,
    _quantize_weight,
    check_qconfig,
    check_weight_dtype,
    number_from,
)

__all__ = ["LinearPackedParams", "Linear"]


class LinearPackedParams(nn.Module):
    """Weight and bias in the order that products read, of weights in 8 bits or in half precision."""

    _version = 3

    def __init__(self, dtype=corten.qint8):
        super().__init__()
        self.dtype = dtype
        if dtype == corten.qint8:
            weight = corten._empty_affine_quantized([1, 1], scale=1.0, zero_point=0, dtype=corten.qint8)
        else:
            weight = corten.zeros([1, 1], dtype=corten.float)
        self.set_weight_bias(weight, None)

    def _op(self, name):
        ops = corten.ops.quantized
        if self.dtype == corten.qint8:
            return getattr(ops, name)
        if self.dtype == corten.float16:
            return getattr(ops, f"{name}_fp16")
        raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    def set_weight_bias(self, weight, bias):
        """Packs a weight, quantized or float as the dtype says, and a float bias or None."""
        self._packed_params = self._op("linear_prepack")(weight, bias)

    def _weight_bias(self):
        return self._op("linear_unpack")(self._packed_params)

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version") or 1
        self.dtype = corten.qint8 if version < 2 else state_dict.pop(prefix + "dtype")
        if version < 3:
            weight, bias = (state_dict.pop(prefix + name) for name in ("weight", "bias"))
        else:
            weight, bias = state_dict.pop(prefix + "_packed_params")
        self.set_weight_bias(weight, bias)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self):
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear map with a weight of signed 8 bits and a float bias."""

    _version = 3
    _FLOAT_MODULE = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
    _op = "linear"

    def __init__(self, in_features, out_features, bias_=True, dtype=corten.qint8):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        bias = corten.zeros(out_features, dtype=corten.float) if bias_ else None
        shape = [out_features, in_features]
        if dtype == corten.qint8:
            weight = corten._empty_affine_quantized(shape, scale=1, zero_point=0, dtype=corten.qint8)
        elif dtype == corten.float16:
            weight = corten.zeros(shape, dtype=corten.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale = 1.0
        self.zero_point = 0

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self):
        return _hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x):
        op = getattr(corten.ops.quantized, self._op)
        return op(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = corten.tensor(self.scale)
        destination[prefix + "zero_point"] = corten.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self.scale = number_from(state_dict, prefix + "scale", float)
        self.zero_point = number_from(state_dict, prefix + "zero_point", int)
        if local_metadata.get("version") in (None, 1):
            # Before the packed parameters were a part of their own.
            for name in ("weight", "bias"):
                state_dict[f"{prefix}_packed_params.{name}"] = state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The float bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w, b):
        """Packs a weight and a bias or None."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float or trained one, with the parameters that its observers found."""
        if hasattr(mod, "weight_fake_quant"):
            _fold(mod)
            observer, activation = mod.weight_fake_quant, mod.activation_post_process
        else:
            cls._check_float(mod)
            activation = mod.activation_post_process
            if type_before_parametrizations(mod) == nni.LinearReLU:
                mod = mod[0]
            observer = getattr(mod, "weight_fake_quant", None) or mod.qconfig.weight()
        return cls._observed(mod, observer, activation, not use_precomputed_fake_quant)

    @classmethod
    def _check_float(cls, mod):
        kinds = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, (tuple, list)) else (cls._FLOAT_MODULE,)
        if type_before_parametrizations(mod) not in kinds:
            names = ", ".join(kind.__name__ for kind in kinds)
            raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {names}, but got: {type(mod)}")
        check_qconfig(mod)

    @classmethod
    def _observed(cls, mod, observer, activation, observe=True, **settings):
        """The module of a linear map with a weight that an observer looks at."""
        if observe:
            observer(mod.weight)
        scale, zero_point = activation.calculate_qparams()
        check_weight_dtype(observer)
        weight = _quantize_weight(mod.weight.float(), observer)
        made = cls(mod.in_features, mod.out_features, dtype=observer.dtype, **settings)
        return made._with(weight, mod.bias, scale, zero_point)

    @classmethod
    def from_reference(cls, ref_qlinear, output_scale, output_zero_point):
        """The module of a reference module."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        return made._with(ref_qlinear.get_quantized_weight(), ref_qlinear.bias, output_scale, output_zero_point)

    def _with(self, weight, bias, scale, zero_point):
        self.set_weight_bias(weight, bias)
        self.scale = float(scale)
        self.zero_point = int(zero_point)
        return self


def _fold(mod):
    """Folds the batch normalisation of a trained module into its weight and bias."""
    from corten.ao.nn.intrinsic import qat

    if type_before_parametrizations(mod) == qat.LinearBn1d:
        bn = mod.bn
        mod.weight, mod.bias = fuse_linear_bn_weights(
            mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
