"""Dynamically quantized linear maps and a rectifier."""

from __future__ import annotations

import corten
from corten.ao.nn import intrinsic as nni
from corten.ao.nn.quantized import dynamic as nnqd

__all__ = ["LinearReLU"]


class LinearReLU(nnqd.Linear):
    """A linear map of floats and a rectifier, with a weight of 8 bits, or of half precision."""

    _FLOAT_MODULE = nni.LinearReLU
    _op = "linear_relu"

    def __init__(self, in_features, out_features, bias=True, dtype=corten.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"

    @classmethod
    def from_reference(cls, ref_qlinear_relu):
        """The module of a fused reference module."""
        return super().from_reference(ref_qlinear_relu[0])
