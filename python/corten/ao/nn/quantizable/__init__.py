"""Modules that can be quantized, which can be imported but not made."""

from corten.ao._absent import classes

__all__ = [
    "LSTM", "LSTMCell", "MultiheadAttention",
]
__getattr__ = classes(__name__, __all__)
