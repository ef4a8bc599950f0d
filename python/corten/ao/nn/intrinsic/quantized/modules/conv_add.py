"""Quantized convolutions whose results are added to another tensor."""

from __future__ import annotations

import corten
from corten.ao.nn import intrinsic as nni
from corten.ao.nn import quantized as nnq

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


class _ConvAdd(nnq.Conv2d):
    def forward(self, input, extra_input):
        """The convolution of the first input, added to the second."""
        self._check_input(input)
        op = getattr(corten.ops.quantized, self._op)
        return op(self._padded(input), extra_input, self._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        """The module of a fused reference module."""
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)


class ConvAdd2d(_ConvAdd):
    """A convolution of images whose result is added to another tensor."""

    _FLOAT_MODULE = nni.ConvAdd2d
    _op = "conv2d_add"


class ConvAddReLU2d(_ConvAdd):
    """A convolution of images whose result is added to another tensor, and a rectifier."""

    _FLOAT_MODULE = nni.ConvAddReLU2d
    _op = "conv2d_add_relu"
