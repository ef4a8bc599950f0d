"""Activations of quantized tensors, and attention."""

from __future__ import annotations

from warnings import warn

import corten
from corten import nn
from corten.ao.nn import quantizable

__all__ = ["ReLU6", "Hardswish", "ELU", "LeakyReLU", "Sigmoid", "Softmax", "MultiheadAttention", "PReLU"]


class ReLU6(nn.ReLU):
    """Clips to the range from 0 to 6, at the scale of the input."""

    def __init__(self, inplace=False):
        super().__init__(inplace)
        self.inplace = inplace

    def forward(self, input):
        return corten.ops.quantized.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The module with the settings of a float one."""
        return ReLU6(mod.inplace)


class _Observed:
    """A module whose result has the scale and zero point that an observer found."""

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module with the settings of a float one and the parameters that its observer found."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return cls.from_reference(mod, scale, zero_point)


class Hardswish(_Observed, nn.Hardswish):
    """x * relu6(x + 3) / 6."""

    def __init__(self, scale, zero_point, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__()
        self.register_buffer("scale", corten.tensor(scale, **made))
        self.register_buffer("zero_point", corten.tensor(zero_point, **made))

    def forward(self, input):
        return corten.ops.quantized.hardswish(input, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "QuantizedHardswish"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module of a float one."""
        return cls(float(scale), int(zero_point))


class ELU(_Observed, nn.ELU):
    """Exponential linear unit."""

    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input):
        from corten.ao.nn.quantized import functional

        return functional.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self):
        return "QuantizedELU"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the settings of a float one."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(_Observed, nn.LeakyReLU):
    """A rectifier with a slope below zero."""

    def __init__(self, scale, zero_point, negative_slope=1e-2, inplace=False, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__(negative_slope, inplace)
        self.register_buffer("scale", corten.tensor(scale, **made))
        self.register_buffer("zero_point", corten.tensor(zero_point, **made))

    def forward(self, input):
        return corten.ops.quantized.leaky_relu(
            input, self.negative_slope, self.inplace, float(self.scale), int(self.zero_point)
        )

    def _get_name(self):
        return "QuantizedLeakyReLU"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the settings of a float one."""
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """The logistic function."""

    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale = output_scale
        self.output_zero_point = output_zero_point

    def forward(self, input):
        return corten.ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module with the parameters that the observer of a float one found."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return cls(float(scale), int(zero_point))


class Softmax(_Observed, nn.Softmax):
    """Exponentials that sum to one along a dimension."""

    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__()
        self.dim = dim
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input):
        dim = self.dim
        if dim is None:
            dim = nn.functional._get_softmax_dim("softmax", input.dim(), 3)
        return corten.ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedSoftmax"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the settings of a float one."""
        return cls(mod.dim, float(scale), int(zero_point))


class MultiheadAttention(quantizable.MultiheadAttention):
    """Attention whose linear maps are quantized; see ``from_observed``."""

    _FLOAT_MODULE = quantizable.MultiheadAttention

    def _get_name(self):
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other):
        """Refused: a float module is observed first."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-observed MHA module. Please, see the examples on "
            "quantizable MHAs."
        )

    @classmethod
    def from_observed(cls, other):
        """The quantized module of an observed one."""
        from corten.ao import quantization

        converted = quantization.convert(
            other, mapping=None, inplace=False, remove_qconfig=True, convert_custom_config_dict=None
        )
        converted.__class__ = cls
        for name in ("bias_k", "bias_v"):
            bias = getattr(converted, name)
            if bias is None:
                continue
            del converted._parameters[name]
            scale, zero_point = corten._choose_qparams_per_tensor(bias, reduce_range=False)
            setattr(converted, name, corten.quantize_per_tensor(bias, scale, zero_point, corten.quint8))
        # The linear maps have what was in these.
        del converted.in_proj_weight
        del converted.in_proj_bias
        return converted


class PReLU(_Observed, nn.Module):
    """A rectifier with learned slopes below zero."""

    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        self.num_parameters = num_parameters
        self.scale = output_scale
        self.zero_point = output_zero_point
        slopes = corten.randn(num_parameters, dtype=corten.float)
        self.set_weight(corten.quantize_per_tensor(slopes, scale=1.0, zero_point=0, dtype=corten.quint8))

    def set_weight(self, w):
        """Sets the slopes, a quantized tensor."""
        self.weight = w

    def forward(self, input):
        return corten.ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedPReLU"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the slopes of a float one, quantized as its ``qconfig`` says."""
        made = cls(float(scale), int(zero_point), mod.num_parameters)
        weight = mod.weight.float()
        observer = mod.qconfig.weight()
        observer(weight)
        if observer.dtype != corten.quint8:
            warn(f"PReLU's weight observer should have dtype quint8 but got {observer.dtype}", stacklevel=2)
        scale, zero_point = observer.calculate_qparams()
        made.set_weight(corten.quantize_per_tensor(weight, float(scale), int(zero_point), corten.quint8))
        return made
