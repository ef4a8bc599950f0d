"""Quantized batch normalisation and a rectifier."""

from __future__ import annotations

from corten.ao.nn import intrinsic as nni
from corten.ao.nn import quantized as nnq

__all__ = ["BNReLU2d", "BNReLU3d"]


class _BNReLU:
    def forward(self, input):
        if input.dim() != self._rank + 2:
            shape = "(N, C, H, W)" if self._rank == 2 else "(N, C, D, H, W)"
            raise ValueError(f"Input shape must be `{shape}`!")
        return super().forward(input)

    def _get_name(self):
        return f"QuantizedBNReLU{self._rank}d"

    @classmethod
    def from_reference(cls, bn_relu, output_scale, output_zero_point):
        """The module with the parameters of a fused float one."""
        return super().from_reference(bn_relu[0], output_scale, output_zero_point)


class BNReLU2d(_BNReLU, nnq.BatchNorm2d):
    """Batch normalisation of images and a rectifier."""

    _FLOAT_MODULE = nni.BNReLU2d
    _op = "batch_norm2d_relu"


class BNReLU3d(_BNReLU, nnq.BatchNorm3d):
    """Batch normalisation of volumes and a rectifier."""

    _FLOAT_MODULE = nni.BNReLU3d
    _op = "batch_norm3d_relu"
