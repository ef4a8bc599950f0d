"""Scales the channels between pairs of layers so that they have the same range in both."""

from __future__ import annotations

import copy

import corten
import corten.ao.nn.intrinsic as nni
from corten import nn

__all__ = [
    "set_module_weight", "set_module_bias", "has_bias", "get_module_weight", "get_module_bias",
    "max_over_ndim", "min_over_ndim", "channel_range", "get_name_by_module", "cross_layer_equalization",
    "process_paired_modules_list_to_name", "expand_groups_in_paired_modules_list", "equalize", "converged",
]

_supported_types = {nn.Conv2d, nn.Linear, nn.Conv1d}
_supported_intrinsic_types = {nni.ConvReLU2d, nni.LinearReLU, nni.ConvReLU1d}
_all_supported_types = _supported_types | _supported_intrinsic_types


def _weighted(module):
    """The module that has the weight: the first of a fused one."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module, weight):
    """Replaces a layer's weight."""
    _weighted(module).weight = nn.Parameter(weight)


def set_module_bias(module, bias):
    """Replaces a layer's bias."""
    _weighted(module).bias = nn.Parameter(bias)


def has_bias(module):
    """Whether a layer has a bias."""
    return _weighted(module).bias is not None


def get_module_weight(module):
    """A layer's weight."""
    return _weighted(module).weight


def get_module_bias(module):
    """A layer's bias."""
    return _weighted(module).bias


def max_over_ndim(input, axis_list, keepdim=False):
    """The greatest values over several dimensions."""
    for axis in sorted(axis_list, reverse=True):
        input, _ = input.max(axis, keepdim)
    return input


def min_over_ndim(input, axis_list, keepdim=False):
    """The least values over several dimensions."""
    for axis in sorted(axis_list, reverse=True):
        input, _ = input.min(axis, keepdim)
    return input


def channel_range(input, axis=0):
    """The distance of the greatest and the least value, for every slice along an axis."""
    others = [dim for dim in range(input.ndim) if dim != axis]
    lows, highs = min_over_ndim(input, others), max_over_ndim(input, others)
    if lows.size(0) != input.size(axis):
        raise AssertionError(
            "Dimensions of resultant channel range does not match size of requested axis"
        )
    return highs - lows


def get_name_by_module(model, module):
    """A module's name within a model."""
    for name, one in model.named_modules():
        if one is module:
            return name
    raise ValueError("module is not in the model")


def cross_layer_equalization(module1, module2, output_axis=0, input_axis=1):
    """Divides the channels that one layer gives, and multiplies those that the next one takes."""
    if not {type(module1), type(module2)} <= _all_supported_types:
        raise ValueError("module type not supported:", type(module1), " ", type(module2))
    weight1, weight2 = get_module_weight(module1), get_module_weight(module2)
    if weight1.size(output_axis) != weight2.size(input_axis):
        raise TypeError(
            "Number of output channels of first arg do not match         number input channels of second arg"
        )
    range2 = channel_range(weight2, input_axis) + 1e-9
    factors = corten.sqrt(channel_range(weight1, output_axis) / range2)
    inverse = corten.reciprocal(factors)
    size1, size2 = [1] * weight1.ndim, [1] * weight2.ndim
    size1[output_axis], size2[input_axis] = weight1.size(output_axis), weight2.size(input_axis)
    if has_bias(module1):
        set_module_bias(module1, get_module_bias(module1) * inverse)
    set_module_weight(module1, weight1 * inverse.reshape(size1))
    set_module_weight(module2, weight2 * factors.reshape(size2))


def process_paired_modules_list_to_name(model, paired_modules_list):
    """Replaces modules in groups by their names."""
    for group in paired_modules_list:
        for index, one in enumerate(group):
            if isinstance(one, nn.Module):
                group[index] = get_name_by_module(model, one)
            elif not isinstance(one, str):
                raise TypeError("item must be a nn.Module or a string")
    return paired_modules_list


def expand_groups_in_paired_modules_list(paired_modules_list):
    """Pairs of neighbours in groups."""
    pairs = []
    for group in paired_modules_list:
        if len(group) == 1:
            raise ValueError("Group must have at least two modules")
        pairs.extend([one, two] for one, two in zip(group, group[1:]))
    return pairs


def equalize(model, paired_modules_list, threshold=1e-4, inplace=True):
    """Equalises pairs of layers until the weights change by less than a threshold.

    Args:
        model: The model.
        paired_modules_list: Groups of modules, or of their names, each of which feeds the next.
        threshold: The norm of a change that ends it.
        inplace: Whether the model itself is changed.
    """
    groups = process_paired_modules_list_to_name(model, paired_modules_list)
    if not inplace:
        model = copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(groups)
    names = {name for pair in pairs for name in pair}
    modules = {name: one for name, one in model.named_modules() if name in names}
    before = dict.fromkeys(modules)
    while not converged(modules, before, threshold):
        for pair in pairs:
            before.update((name, copy.deepcopy(modules[name])) for name in pair)
            cross_layer_equalization(*(modules[name] for name in pair))
    return model


def converged(curr_modules, prev_modules, threshold=1e-4):
    """Whether the weights differ by less than a threshold."""
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError(
            "The keys to the given mappings must have the same set of names of modules"
        )
    if None in prev_modules.values():
        return False
    change = corten.tensor(0.0)
    for name, module in curr_modules.items():
        difference = get_module_weight(module) - get_module_weight(prev_modules[name])
        change += corten.linalg.vector_norm(difference)
    return bool(change < threshold)
