"""Linear maps with fake quantization of their weights, for dynamic quantization."""

from __future__ import annotations

from corten.ao.nn import qat

__all__ = ["Linear"]


class Linear(qat.Linear):
    """A linear map in training whose input will be quantized by its own range at run time."""

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        from corten.ao.quantization.qconfig import _activation_is_memoryless

        if not _activation_is_memoryless(qconfig):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer."
                "This means a MovingAverage observer with averaging constant equal to 1"
            )
