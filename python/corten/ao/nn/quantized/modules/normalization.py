"""Normalisation of quantized tensors within one sample."""

from __future__ import annotations

import corten
from corten import nn

__all__ = ["LayerNorm", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _Output:
    """The scale and zero point of a module's result, as buffers, beside weight and bias that are given."""

    def _set_output(self, weight, bias, scale, zero_point, made):
        self.weight = weight
        self.bias = bias
        self.register_buffer("scale", corten.tensor(scale, **made))
        self.register_buffer("zero_point", corten.tensor(zero_point, **made))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module with the parameters of a float one and those that its observer found."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return cls.from_reference(mod, scale, zero_point)


class LayerNorm(_Output, nn.LayerNorm):
    """Normalisation over the last dimensions."""

    def __init__(
        self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5, elementwise_affine=True, device=None,
        dtype=None,
    ):
        made = {"device": device, "dtype": dtype}
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine, **made)
        self._set_output(weight, bias, scale, zero_point, made)

    def forward(self, input):
        return corten.ops.quantized.layer_norm(
            input, self.normalized_shape, weight=self.weight, bias=self.bias, eps=self.eps,
            output_scale=float(self.scale), output_zero_point=int(self.zero_point),
        )

    def _get_name(self):
        return "QuantizedLayerNorm"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the parameters of a float one."""
        return cls(
            mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.elementwise_affine,
        )


class GroupNorm(_Output, nn.GroupNorm):
    """Normalisation over groups of channels."""

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-5, affine=True, device=None,
        dtype=None,
    ):
        made = {"device": device, "dtype": dtype}
        super().__init__(num_groups, num_channels, eps, affine, **made)
        self._set_output(weight, bias, scale, zero_point, made)

    def forward(self, input):
        return corten.ops.quantized.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point)
        )

    def _get_name(self):
        return "QuantizedGroupNorm"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the parameters of a float one."""
        return cls(
            mod.num_groups, mod.num_channels, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.affine,
        )


class _InstanceNorm(_Output):
    """Normalisation of each channel of each sample."""

    def __init__(
        self, num_features, weight, bias, scale, zero_point, eps=1e-5, momentum=0.1, affine=False,
        track_running_stats=False, device=None, dtype=None,
    ):
        made = {"device": device, "dtype": dtype}
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **made)
        self._set_output(weight, bias, scale, zero_point, made)

    def forward(self, input):
        return corten.ops.quantized.instance_norm(
            input, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point)
        )

    def _get_name(self):
        return f"QuantizedInstanceNorm{self._rank}d"

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the parameters of a float one."""
        return cls(
            mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.affine
        )


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """Normalisation of each channel of signals."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """Normalisation of each channel of images."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """Normalisation of each channel of volumes."""
