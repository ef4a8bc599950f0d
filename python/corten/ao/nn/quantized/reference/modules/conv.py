"""Reference convolutions."""

from __future__ import annotations

from corten import nn
from corten.nn import functional as F

from .utils import ReferenceQuantizedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(nn.modules.conv._ConvNd, ReferenceQuantizedModule):
    """What all reference convolutions share."""

    _IS_REFERENCE = True

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    @classmethod
    def from_float(cls, float_conv, weight_qparams):
        """The module of a float one; parameters are shared."""
        weight = float_conv.weight
        made = cls(
            *cls._positional(float_conv), device=weight.device, dtype=weight.dtype, weight_qparams=weight_qparams
        )
        made.weight = nn.Parameter(weight.detach())
        if float_conv.bias is not None:
            made.bias = nn.Parameter(float_conv.bias.detach())
        return made


class _Conv(_ConvNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None, weight_qparams=None,
    ):
        nn.modules.conv._Conv.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            device, dtype,
        )
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x):
        return self._conv_forward(x, self.get_weight(), self.bias)

    @classmethod
    def _positional(cls, conv):
        return (
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation,
            conv.groups, conv.bias is not None, conv.padding_mode,
        )


class Conv1d(_Conv, nn.Conv1d):
    """A convolution of signals with a weight that is quantized and dequantized."""


class Conv2d(_Conv, nn.Conv2d):
    """A convolution of images with a weight that is quantized and dequantized."""


class Conv3d(_Conv, nn.Conv3d):
    """A convolution of volumes with a weight that is quantized and dequantized."""


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None, weight_qparams=None,
    ):
        nn.modules.conv._ConvTransposeNd.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device, dtype,
        )
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x, output_size=None):
        """The adjoint, of a size that ``output_size`` may choose."""
        if not isinstance(self.padding, tuple):
            raise AssertionError(f"Expected self.padding to be a tuple, got {type(self.padding)}")
        op = getattr(F, f"conv_transpose{self._rank}d")
        return op(
            x, self.get_weight(), self.bias, self.stride, self.padding, self._output_padding(x, output_size),
            self.groups, self.dilation,
        )

    @classmethod
    def _positional(cls, conv):
        return (
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.output_padding,
            conv.groups, conv.bias is not None, conv.dilation, conv.padding_mode,
        )


class ConvTranspose1d(_ConvTransposeNd, nn.ConvTranspose1d):
    """The adjoint of :class:`Conv1d`."""


class ConvTranspose2d(_ConvTransposeNd, nn.ConvTranspose2d):
    """The adjoint of :class:`Conv2d`."""


class ConvTranspose3d(_ConvTransposeNd, nn.ConvTranspose3d):
    """The adjoint of :class:`Conv3d`."""
