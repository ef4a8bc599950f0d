"""Quantized convolutions and a rectifier."""

from __future__ import annotations

from corten.ao.nn import intrinsic as nni
from corten.ao.nn import quantized as nnq
from corten.ao.nn.intrinsic import qat as nniqat
from corten.ao.nn.quantized.modules.conv import fold

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


class _ConvReLU:
    _BN_RELU_MODULE: type
    _QAT_BN_RELU_MODULE: type

    def _get_name(self):
        return f"QuantizedConvReLU{self._rank}d"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a fused float or trained one, with the parameters that its observers found."""
        if type(mod) is cls._QAT_BN_RELU_MODULE:
            if mod.bn.running_var is None or mod.bn.running_mean is None:
                raise AssertionError("mod.bn.running_var and mod.bn.running_mean must not be None")
            fold(mod)
        return super().from_float(mod, use_precomputed_fake_quant)

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        """The module of a fused reference module."""
        if type(ref_qconv) is cls._BN_RELU_MODULE:
            raise AssertionError(
                f"BatchNorm{cls._rank}d should be fused into Conv{cls._rank}d before converting to reference module"
            )
        return super().from_reference(ref_qconv[0], output_scale, output_zero_point)


class ConvReLU1d(_ConvReLU, nnq.Conv1d):
    """A convolution of signals and a rectifier."""

    _FLOAT_MODULE = nni.ConvReLU1d
    _BN_RELU_MODULE = nni.ConvBnReLU1d
    _QAT_BN_RELU_MODULE = nniqat.ConvBnReLU1d
    _op = "conv1d_relu"


class ConvReLU2d(_ConvReLU, nnq.Conv2d):
    """A convolution of images and a rectifier."""

    _FLOAT_MODULE = nni.ConvReLU2d
    _BN_RELU_MODULE = nni.ConvBnReLU2d
    _QAT_BN_RELU_MODULE = nniqat.ConvBnReLU2d
    _op = "conv2d_relu"


class ConvReLU3d(_ConvReLU, nnq.Conv3d):
    """A convolution of volumes and a rectifier."""

    _FLOAT_MODULE = nni.ConvReLU3d
    _BN_RELU_MODULE = nni.ConvBnReLU3d
    _QAT_BN_RELU_MODULE = nniqat.ConvBnReLU3d
    _op = "conv3d_relu"
