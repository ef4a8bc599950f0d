"""Quantized long short-term memory."""

from __future__ import annotations

from corten.ao.nn import quantizable

__all__ = ["LSTM"]


class LSTM(quantizable.LSTM):
    """Long short-term memory whose parts are quantized; see ``from_observed``."""

    _FLOAT_MODULE = quantizable.LSTM

    def _get_name(self):
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args, **kwargs):
        """Refused: a float module is observed first."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-observed LSTM module. Please, see the examples on "
            "quantizable LSTMs."
        )

    @classmethod
    def from_observed(cls, other):
        """The quantized module of an observed one."""
        from corten.ao import quantization

        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        converted = quantization.convert(other, inplace=False, remove_qconfig=True)
        converted.__class__ = cls
        return converted
