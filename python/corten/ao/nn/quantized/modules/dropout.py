"""Dropout of quantized models, which are not trained."""

from __future__ import annotations

from corten import nn

__all__ = ["Dropout"]


class Dropout(nn.Dropout):
    """Gives its input."""

    def forward(self, input):
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module with the settings of a float one."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """The module with the settings of a float one."""
        return cls(mod.p, mod.inplace)
