"""Markers of where a model's values are quantised and dequantised."""

from __future__ import annotations

from corten import nn

__all__ = ["QuantStub", "DeQuantStub", "QuantWrapper"]


class _Stub(nn.Module):
    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        """The input."""
        return x


class QuantStub(_Stub):
    """Where values become quantised: observes before conversion, quantises after it."""


class DeQuantStub(_Stub):
    """Where quantised values become floats."""


class QuantWrapper(nn.Module):
    """A module whose input is quantised and whose output is dequantised."""

    def __init__(self, module):
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X):
        """The dequantised output of the module for the quantised input."""
        return self.dequant(self.module(self.quant(X)))
