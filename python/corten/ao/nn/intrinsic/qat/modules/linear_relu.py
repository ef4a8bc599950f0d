"""Linear maps with a rectifier and fake quantization of their weights."""

from __future__ import annotations

from corten import nn
from corten.ao.nn import intrinsic as nni
from corten.ao.nn import qat as nnqat
from corten.nn import functional as F

__all__ = ["LinearReLU"]


class LinearReLU(nnqat.Linear, nni._FusedModule):
    """A linear map in training and a rectifier."""

    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features, out_features, bias=True, qconfig=None):
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input):
        return F.relu(F.linear(input, self.weight_fake_quant(self.weight), self.bias))

    def to_float(self):
        """The linear map and its rectifier without fake quantization."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        linear.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            linear.bias = nn.Parameter(self.bias.detach())
        return nni.LinearReLU(linear, nn.ReLU())
