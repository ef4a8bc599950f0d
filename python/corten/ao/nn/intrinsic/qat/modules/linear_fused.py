"""Linear maps that train as one with their batch normalisation."""

from __future__ import annotations

import corten
from corten import nn
from corten.ao.nn import intrinsic as nni
from corten.nn import functional as F
from corten.nn.utils.fusion import fuse_linear_bn_weights

from ._normalized import NormalizedModule

__all__ = ["LinearBn1d"]


class LinearBn1d(nn.Linear, NormalizedModule):
    """A linear map and a batch normalisation with fake quantization of the folded weight."""

    def __init__(
        self, in_features, out_features, bias=True, eps=1e-5, momentum=0.1, freeze_bn=False, qconfig=None,
    ):
        nn.Linear.__init__(self, in_features, out_features, bias)
        self._set_normalization(out_features, bias, nn.BatchNorm1d, eps, momentum, freeze_bn, qconfig)

    def forward(self, input):
        zero = corten.zeros(self.out_features, device=self.weight.device, dtype=self.weight.dtype)
        return self._normalized(lambda weight: F.linear(input, weight, zero))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module in training for a fused float module with a ``qconfig``; parameters are shared."""
        cls._check_float(mod, nni.LinearBn1d, "config")
        linear, bn = mod[0], mod[1]
        made = cls(
            linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False,
            mod.qconfig,
        )
        return made._share(linear, bn)

    def to_float(self):
        """The linear map that includes the normalisation."""
        linear = nn.Linear(self.in_features, self.out_features)
        linear.weight, linear.bias = fuse_linear_bn_weights(self.weight, self.bias, *self._norm_arguments())
        return linear
