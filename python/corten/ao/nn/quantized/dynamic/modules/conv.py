"""Dynamically quantized convolutions."""

from __future__ import annotations

import warnings

import corten
from corten import nn
from corten.ao.nn import quantized as nnq

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    """A convolution of floats, which are quantized by their own range."""

    _NNIQAT_CONV_BN_MODULE = None
    _NNI_CONV_RELU_MODULE = None
    transposed = False

    def _warn(self):
        warnings.warn(
            f"The current implementation of the {self._get_name()} module has poor numerical accuracy and its use "
            "is not recommended",
            stacklevel=3,
        )

    def _get_name(self):
        return f"Dynamic{super()._get_name()}"

    def forward(self, input, reduce_range=True):
        """The convolution; with ``reduce_range`` inputs take 7 bits, for processors whose products overflow."""
        self._check_input(input)
        op = getattr(corten.ops.quantized, f"{self._op}_dynamic")
        return op(self._padded(input), self._packed_params, reduce_range)


class _Conv(_Dynamic):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):
        self._warn()
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            device=device, dtype=dtype,
        )


class _ConvTranspose(_Dynamic):
    transposed = True

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):
        self._warn()
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device=device, dtype=dtype,
        )


class Conv1d(_Conv, nnq.Conv1d):
    """A convolution of float signals with a weight of signed 8 bits."""

    _FLOAT_MODULE = nn.Conv1d

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None, reduce_range=True,
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device,
            dtype,
        )


class Conv2d(_Conv, nnq.Conv2d):
    """A convolution of float images with a weight of signed 8 bits."""

    _FLOAT_MODULE = nn.Conv2d


class Conv3d(_Conv, nnq.Conv3d):
    """A convolution of float volumes with a weight of signed 8 bits."""

    _FLOAT_MODULE = nn.Conv3d


class ConvTranspose1d(_ConvTranspose, nnq.ConvTranspose1d):
    """The adjoint of :class:`Conv1d`."""

    _FLOAT_MODULE = nn.ConvTranspose1d


class ConvTranspose2d(_ConvTranspose, nnq.ConvTranspose2d):
    """The adjoint of :class:`Conv2d`."""

    _FLOAT_MODULE = nn.ConvTranspose2d


class ConvTranspose3d(_ConvTranspose, nnq.ConvTranspose3d):
    """The adjoint of :class:`Conv3d`."""

    _FLOAT_MODULE = nn.ConvTranspose3d
