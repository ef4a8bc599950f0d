"""Linear maps with fake quantization of their weights."""

from __future__ import annotations

from corten import nn
from corten.ao.nn.intrinsic import LinearReLU
from corten.nn import functional as F
from corten.nn.utils.parametrize import (
    is_parametrized,
    transfer_parametrizations_and_params,
    type_before_parametrizations,
)

from ._checks import check_given, check_source

__all__ = ["Linear"]


class Linear(nn.Linear):
    """A linear map whose weight is quantized and dequantized in each step of training."""

    _FLOAT_MODULE = nn.Linear

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__(in_features, out_features, bias, **made)
        check_given(qconfig)
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs=made)

    def forward(self, input):
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module in training for a float module with a ``qconfig``; parameters are shared."""
        kind = type_before_parametrizations(mod)
        if kind != cls._FLOAT_MODULE:
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}, got {kind.__name__}"
            )
        check_source(mod)
        if kind == LinearReLU:
            mod = mod[0]
        made = cls(mod.in_features, mod.out_features, bias=mod.bias is not None, qconfig=mod.qconfig)
        for name in ("weight", "bias"):
            if is_parametrized(mod, name):
                transfer_parametrizations_and_params(mod, made, name)
            else:
                setattr(made, name, getattr(mod, name))
        return made

    def to_float(self):
        """The linear map without fake quantization."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        linear.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            linear.bias = nn.Parameter(self.bias.detach())
        linear.train(self.training)
        return linear
