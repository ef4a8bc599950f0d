"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import corten
from corten import nn
from corten.nn.utils.stateless import _functional_call


def functional_call(
    module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """Calls a module with other tensors in place of some of its parameters and buffers."""
    dicts = parameter_and_buffer_dicts
    if isinstance(dicts, dict):
        tensors = dicts
    elif isinstance(dicts, (list, tuple)):
        if not all(isinstance(one, dict) for one in dicts):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            )
        names = [name for one in dicts for name in one]
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        tensors = {name: tensor for one in dicts for name, tensor in one.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    return _functional_call(
        module, tensors, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def stack_module_state(models):
    """The parameters and the buffers of modules of one kind, each stacked along a new dimension."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(column):
        leaf = all(tensor.is_leaf for tensor in column)
        requires_grad = column[0].requires_grad
        if leaf:
            return corten.stack(list(column)).detach().requires_grad_(requires_grad)
        return corten.stack(list(column))

    def table(items):
        rows = [dict(items(model)) for model in models]
        return {name: stacked([row[name] for row in rows]) for name in rows[0]}

    return table(lambda m: m.named_parameters()), table(lambda m: m.named_buffers())


def replace_all_batch_norm_modules_(root):
    """Makes batch norms forget their running statistics, which cannot be updated per item."""

    def without(module):
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False

    for module in root.modules():
        without(module)
    return root
