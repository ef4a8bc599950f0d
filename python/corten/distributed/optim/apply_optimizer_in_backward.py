"""Optimizers of single parameters that step during backward passes."""

from __future__ import annotations

from corten.utils.weak import WeakTensorKeyDictionary

__all__ = []

param_to_optim_hook_handle_map = WeakTensorKeyDictionary()
param_to_acc_grad_map = WeakTensorKeyDictionary()


def _apply_optimizer_in_backward(optimizer_class, params, optimizer_kwargs, register_hook=True):
    """Gives each parameter an optimizer, which steps as soon as the gradient is there; the gradient is gone then.

    Args:
        optimizer_class: The class of the optimizers.
        params: The parameters.
        optimizer_kwargs: Arguments of the optimizers.
        register_hook: Whether the step is hooked in; without it somebody else calls it.
    """
    for param in params:
        optimizer = optimizer_class([param], **optimizer_kwargs)
        if not hasattr(param, "_in_backward_optimizers"):
            param._in_backward_optimizers, param._optimizer_classes, param._optimizer_kwargs = [], [], []
        param._in_backward_optimizers.append(optimizer)
        param._optimizer_classes.append(optimizer_class)
        param._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook:
            _hook(param)


def _hook(param):
    if param not in param_to_acc_grad_map:
        param_to_acc_grad_map[param] = param.view_as(param).grad_fn.next_functions[0][0]

    def step(*_):
        for optimizer in param._in_backward_optimizers:
            optimizer.step()
        param.grad = None

    handle = param_to_acc_grad_map[param].register_hook(step)
    param_to_optim_hook_handle_map.setdefault(param, []).append(handle)


def _get_in_backward_optimizers(module):
    """The optimizers of a module's parameters, for checkpoints."""
    return [
        optimizer for param in module.parameters()
        for optimizer in getattr(param, "_in_backward_optimizers", ())
    ]
