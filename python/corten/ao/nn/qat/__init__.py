"""Modules with fake quantization, which can be imported but not made."""

from corten.ao._absent import classes

from . import dynamic  # noqa: F401

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear",
]
__getattr__ = classes(__name__, __all__)
