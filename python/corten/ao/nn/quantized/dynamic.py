"""Dynamically quantized modules, which can be imported but not made."""

from corten.ao._absent import classes

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "GRU", "GRUCell", "LSTM", "LSTMCell", "Linear", "RNNCell",
]
__getattr__ = classes(__name__, __all__)
