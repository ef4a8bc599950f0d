"""Configurations of quantization, by name."""

from __future__ import annotations

import collections

__all__ = ["QConfig", "default_qconfig", "float_qparams_weight_only_qconfig"]

QConfig = collections.namedtuple("QConfig", ["activation", "weight"])


def _absent(name):
    def make(*args, **kwargs):
        raise NotImplementedError(f"{name}: observers of quantization are not supported")

    return make


default_qconfig = QConfig(_absent("HistogramObserver"), _absent("MinMaxObserver"))
float_qparams_weight_only_qconfig = QConfig(
    _absent("PlaceholderObserver"), _absent("PerChannelMinMaxObserver")
)
