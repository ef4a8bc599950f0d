"""Reference linear maps."""

from __future__ import annotations

from corten import nn
from corten.nn import functional as F

from .utils import ReferenceQuantizedModule

__all__ = ["Linear"]


class Linear(nn.Linear, ReferenceQuantizedModule):
    """A linear map with a weight that is quantized and dequantized."""

    _IS_REFERENCE = True

    def __init__(self, in_features, out_features, bias_=True, device=None, dtype=None, weight_qparams=None):
        super().__init__(in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self):
        return "QuantizedLinear(Reference)"

    def forward(self, x):
        return F.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear, weight_qparams):
        """The module of a float one; parameters are shared."""
        weight = float_linear.weight
        made = Linear(
            float_linear.in_features, float_linear.out_features, float_linear.bias is not None, device=weight.device,
            dtype=weight.dtype, weight_qparams=weight_qparams,
        )
        made.weight = nn.Parameter(weight.detach())
        if float_linear.bias is not None:
            made.bias = nn.Parameter(float_linear.bias.detach())
        return made
