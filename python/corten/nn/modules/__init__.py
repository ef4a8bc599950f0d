"""Modules, by family."""

from __future__ import annotations

from . import (
    activation, adaptive, batchnorm, container, conv, distance, dropout, flatten, fold,
    instancenorm, linear, loss, module, normalization, padding, pixelshuffle, pooling, rnn, sparse,
    transformer, upsampling,
)

__all__ = ["Module"]
Module = module.Module
for _family in (
    activation, adaptive, batchnorm, container, conv, distance, dropout, flatten, fold,
    instancenorm, linear, loss, normalization, padding, pixelshuffle, pooling, rnn, sparse,
    transformer, upsampling,
):
    for _name in _family.__all__:
        if not _name.startswith("NonDynamically"):
            globals()[_name] = getattr(_family, _name)
            __all__.append(_name)
