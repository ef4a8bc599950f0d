"""Convolutions with fake quantization of their weights."""

from __future__ import annotations

from corten import nn
from corten.ao.nn.intrinsic import _FusedModule

from ._checks import check_given, check_source

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class _ConvNd(nn.modules.conv._Conv):
    """What convolutions in training share."""

    _FLOAT_MODULE: type
    _FLOAT_CONV_MODULE: type

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", qconfig=None, device=None, dtype=None,
    ):
        made = {"device": device, "dtype": dtype}
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, **made
        )
        check_given(qconfig)
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs=made)

    def forward(self, input):
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module in training for a float module with a ``qconfig``; parameters are shared."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}, "
                f"got {type(mod).__name__}"
            )
        check_source(mod)
        if isinstance(mod, _FusedModule):
            mod = mod[0]
        made = cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride, padding=mod.padding,
            dilation=mod.dilation, groups=mod.groups, bias=mod.bias is not None, padding_mode=mod.padding_mode,
            qconfig=mod.qconfig,
        )
        made.weight = mod.weight
        made.bias = mod.bias
        return made

    def to_float(self):
        """The convolution without fake quantization, with its rectifier where it is fused with one."""
        conv = float_conv(self)
        if not isinstance(self, _FusedModule):
            return conv
        fused = self._FLOAT_MODULE(conv, self._FLOAT_RELU_MODULE())
        fused.train(self.training)
        return fused


def float_conv(mod):
    """A float convolution with the parameters of one in training."""
    conv = mod._FLOAT_CONV_MODULE(
        mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.dilation, mod.groups,
        mod.bias is not None, mod.padding_mode,
    )
    conv.weight = nn.Parameter(mod.weight.detach())
    if mod.bias is not None:
        conv.bias = nn.Parameter(mod.bias.detach())
    return conv


class Conv1d(_ConvNd, nn.Conv1d):
    """A convolution of signals whose weight is quantized and dequantized in each step of training."""

    _FLOAT_MODULE = nn.Conv1d
    _FLOAT_CONV_MODULE = nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):
    """A convolution of images whose weight is quantized and dequantized in each step of training."""

    _FLOAT_MODULE = nn.Conv2d
    _FLOAT_CONV_MODULE = nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):
    """A convolution of volumes whose weight is quantized and dequantized in each step of training."""

    _FLOAT_MODULE = nn.Conv3d
    _FLOAT_CONV_MODULE = nn.Conv3d
