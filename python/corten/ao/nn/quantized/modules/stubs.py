"""The borders of the quantized part of a model."""

from __future__ import annotations

import corten
from corten import nn

__all__ = ["DeQuantize", "Quantize"]


class Quantize(nn.Module):
    """Quantizes its input with a scale and a zero point, which are buffers."""

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        made = nn.factory_kwargs(factory_kwargs)
        super().__init__()
        self.register_buffer("scale", corten.tensor([scale], **made))
        whole = {key: value for key, value in made.items() if key != "dtype"}
        self.register_buffer("zero_point", corten.tensor([zero_point], dtype=corten.long, **whole))
        self.dtype = dtype

    def forward(self, X):
        return corten.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The module with the parameters that an observer found."""
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError(f"Module {type(mod).__name__} must have activation_post_process attribute")
        observer = mod.activation_post_process
        scale, zero_point = observer.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(), observer.dtype)

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Gives the values of its input as floats."""

    def forward(self, Xq):
        return Xq.dequantize()

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """The module, which has no parameters."""
        return DeQuantize()
