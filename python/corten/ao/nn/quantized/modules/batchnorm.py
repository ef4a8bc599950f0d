"""Batch normalisation of quantized tensors by running statistics."""

from __future__ import annotations

import corten
from corten import nn
from corten.ao.nn import intrinsic as nni

__all__ = ["BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    """What both share; `_op` names the operator."""

    _NNI_BN_RELU_MODULE: type
    _op = ""
    _rank = 0

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__(num_features, eps, momentum, True, True, **made)
        self.register_buffer("scale", corten.tensor(1.0, **made))
        self.register_buffer("zero_point", corten.tensor(0, **made))

    def _get_name(self):
        return f"QuantizedBatchNorm{self._rank}d"

    def _check_input_dim(self, input):
        if input.dim() != self._rank + 2:
            raise ValueError("Input shape must be `(N, C, H, W)`!")

    def forward(self, input):
        op = getattr(corten.ops.quantized, self._op)
        return op(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, float(self.scale),
            int(self.zero_point),
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module with the parameters of a float one and those that its observer found."""
        observer = mod.activation_post_process
        if type(mod) is cls._NNI_BN_RELU_MODULE:
            mod = mod[0]
        return cls(mod.num_features, mod.eps)._share(mod, *observer.calculate_qparams())

    @classmethod
    def from_reference(cls, bn, output_scale, output_zero_point):
        """The module with the parameters of a float one."""
        made = cls(bn.num_features, bn.eps, bn.momentum, device=bn.weight.device, dtype=bn.weight.dtype)
        return made._share(bn, output_scale, output_zero_point)

    def _share(self, bn, scale, zero_point):
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(self, name, getattr(bn, name))
        self.scale = scale if isinstance(scale, corten.Tensor) else corten.tensor(scale)
        self.zero_point = zero_point if isinstance(zero_point, corten.Tensor) else corten.tensor(zero_point)
        return self


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images."""

    _NNI_BN_RELU_MODULE = nni.BNReLU2d
    _op = "batch_norm2d"
    _rank = 2


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of volumes."""

    _NNI_BN_RELU_MODULE = nni.BNReLU3d
    _op = "batch_norm3d"
    _rank = 3
