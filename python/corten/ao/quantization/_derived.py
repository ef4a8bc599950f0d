"""Scales that follow from those of other observers."""

from __future__ import annotations

from ._ranges import is_per_channel
from .observer import ObserverBase


class _DerivedObserverOrFakeQuantize(ObserverBase):
    """Its scale and zero point are a function of other observers, as a bias's of input and weight.

    Args:
        dtype: Of the quantised values.
        obs_or_fqs: The other observers.
        derive_qparams_fn: Makes scale and zero point of their list.
        quant_min, quant_max, qscheme, ch_axis: What an observer has beside them.
    """

    def __init__(
        self, dtype, obs_or_fqs, derive_qparams_fn, quant_min=None, quant_max=None, qscheme=None,
        ch_axis=None,
    ):
        super().__init__(dtype)
        self.obs_or_fqs, self.derive_qparams_fn = obs_or_fqs, derive_qparams_fn
        self.quant_min, self.quant_max = quant_min, quant_max
        self.qscheme, self.ch_axis = qscheme, ch_axis
        if is_per_channel(qscheme) and ch_axis is None:
            raise AssertionError("Must provide a valid ch_axis if qscheme is per channel")

    def forward(self, x):
        """The input."""
        return x

    def calculate_qparams(self):
        """What the function makes of the other observers."""
        return self.derive_qparams_fn(self.obs_or_fqs)
