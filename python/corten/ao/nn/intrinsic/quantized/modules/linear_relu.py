"""Quantized linear maps and an activation."""

from __future__ import annotations

import corten
from corten.ao.nn import intrinsic as nni
from corten.ao.nn import quantized as nnq
from corten.ao.nn.quantized.modules.utils import check_qconfig

__all__ = ["LinearReLU", "LinearLeakyReLU", "LinearTanh"]


class LinearReLU(nnq.Linear):
    """A linear map and a rectifier."""

    _FLOAT_MODULE = nni.LinearReLU
    _op = "linear_relu"

    def __init__(self, in_features, out_features, bias=True, dtype=corten.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def _get_name(self):
        return "QuantizedLinearReLU"

    @classmethod
    def from_reference(cls, ref_linear_relu, output_scale, output_zero_point):
        """The module of a fused reference module."""
        return super().from_reference(ref_linear_relu[0], output_scale, output_zero_point)


class _Fused(nnq.Linear):
    """A linear map and an activation of which settings may be kept."""

    @classmethod
    def _settings(cls, activation):
        return {}

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a fused float one, with the parameters that its observers found."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Input float module should be {cls._FLOAT_MODULE.__name__}")
        check_qconfig(mod)
        observer = mod[0].qconfig.weight()
        return cls._observed(mod[0], observer, mod.activation_post_process, **cls._settings(mod[1]))

    @classmethod
    def from_reference(cls, ref_mod, output_scale, output_zero_point):
        """The module of a fused reference module."""
        linear = ref_mod[0]
        made = cls(linear.in_features, linear.out_features, **cls._settings(ref_mod[1]))
        return made._with(linear.get_quantized_weight(), linear.bias, output_scale, output_zero_point)


class LinearLeakyReLU(_Fused):
    """A linear map and a leaky rectifier."""

    _FLOAT_MODULE = nni.LinearLeakyReLU

    def __init__(self, in_features, out_features, negative_slope, bias=True, dtype=corten.qint8):
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x):
        return corten.ops.quantized.linear_leaky_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope
        )

    def _get_name(self):
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def _settings(cls, activation):
        return {"negative_slope": activation.negative_slope}


class LinearTanh(_Fused):
    """A linear map and a hyperbolic tangent."""

    _FLOAT_MODULE = nni.LinearTanh
    _op = "linear_tanh"

    def __init__(self, in_features, out_features, bias=True, dtype=corten.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def _get_name(self):
        return "QuantizedLinearTanh"
