"""Fuses modules of a model in place of the first of them."""

from __future__ import annotations

import copy

from corten import nn
from corten.nn.utils.parametrize import type_before_parametrizations

from .fuser_method_mappings import fuse_conv_bn, fuse_conv_bn_relu, get_fuser_method  # noqa: F401
from .utils import getattr_from_fqn as _get_module

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def _set_module(model, submodule_key, module):
    parent, _, name = submodule_key.rpartition(".")
    setattr(_get_module(model, parent) if parent else model, name, module)


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """The fused module and identities in place of the others; hooks of the ends move to the fused one."""
    types = tuple(type_before_parametrizations(module) for module in mod_list)
    method = get_fuser_method(types, additional_fuser_method_mapping)
    fused = method(is_qat, *mod_list)
    for hook in mod_list[0]._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in mod_list[-1]._forward_hooks.values():
        fused.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    identities = [nn.Identity() for _ in mod_list[1:]]
    for identity in identities:
        identity.training = mod_list[0].training
    return [fused, *identities]


def _fuse_modules(model, modules_to_fuse, is_qat, inplace, fuser_func, fuse_custom_config_dict):
    if not inplace:
        model = copy.deepcopy(model)
    if all(isinstance(name, str) for name in modules_to_fuse):
        modules_to_fuse = [modules_to_fuse]
    methods = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
    for names in modules_to_fuse:
        fused = fuser_func([_get_module(model, name) for name in names], is_qat, methods)
        for name, module in zip(names, fused):
            _set_module(model, name, module)
    return model


def fuse_modules(
    model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None
):
    """Fuses convolutions or linear layers with the normalisation and the activation after them.

    Args:
        model: The model, in evaluation mode where there is a normalisation.
        modules_to_fuse: A list of names, or a list of such lists.
        inplace: Whether the model itself is changed.
        fuser_func: Makes the new modules of a list of modules.
        fuse_custom_config_dict: ``{"additional_fuser_method_mapping": {classes: function}}``.

    Example::

        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
        >>> type(fuse_modules(model, ["0", "1"])[0]).__name__
        'LinearReLU'
    """
    return _fuse_modules(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None
):
    """As :func:`fuse_modules`, for training: normalisations stay parts of the fused modules."""
    return _fuse_modules(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
