"""Helpers around modules."""

from __future__ import annotations

from . import parametrizations, parametrize, prune, rnn, stateless  # noqa: F401
from .clip_grad import (
    clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm,
)
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .fusion import (
    fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights,
)
from .weight_norm import remove_weight_norm, weight_norm
from .spectral_norm import remove_spectral_norm, spectral_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize",
    "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless",
    "vector_to_parameters", "weight_norm",
]


def _convert_weights(module, kinds, memory_format):
    if isinstance(module, kinds):
        module.weight.data = module.weight.detach().clone(memory_format=memory_format)
    for child in module.children():
        _convert_weights(child, kinds, memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Puts the weights of all 2-d convolutions in ``memory_format``."""
    from corten import nn

    return _convert_weights(module, (nn.Conv2d, nn.ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """Puts the weights of all 3-d convolutions in ``memory_format``."""
    from corten import nn

    return _convert_weights(module, (nn.Conv3d, nn.ConvTranspose3d), memory_format)


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters have memory but no values yet."""
    import inspect

    from corten.nn import Module

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
