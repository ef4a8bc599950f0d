"""Quantized modules, which can be imported but not made."""

from corten.ao._absent import classes

from . import dynamic, reference  # noqa: F401

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "DeQuantize", "Dropout", "ELU", "Embedding",
    "EmbeddingBag", "FXFloatFunctional", "FloatFunctional", "GroupNorm", "Hardswish",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LSTM", "LayerNorm", "LeakyReLU",
    "Linear", "MultiheadAttention", "PReLU", "QFunctional", "Quantize", "ReLU6", "Sigmoid",
    "Softmax",
]
__getattr__ = classes(__name__, __all__)
