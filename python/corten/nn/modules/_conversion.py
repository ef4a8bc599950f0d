"""How modules are moved to devices and cast."""

from __future__ import annotations

import corten
from corten import Tensor
from corten.nn.parameter import Parameter


def _applied_parameter(param, fn, name):
    """`param` with `fn` applied to value and gradient: the same object where the device allows, or where programs
    ask for tensors to be exchanged."""
    if corten.__future__.get_swap_module_params_on_conversion():
        return _swapped_parameter(param, fn, name)
    with corten.no_grad():
        value = fn(param)
        grad = None if param.grad is None else fn(param.grad)
    if _same_kind(param, value):
        param.data = value
        if grad is not None:
            param.grad.data = grad
        return param
    moved = Parameter(value, param.requires_grad)
    if grad is not None:
        moved.grad = grad.requires_grad_(param.grad.requires_grad)
    return moved


def _swapped_parameter(param, fn, name):
    grad, param.grad = param.grad, None
    with corten.no_grad():
        try:
            corten.utils.swap_tensors(param, Parameter(fn(param), param.requires_grad))
        except Exception as error:
            param.grad = grad
            raise RuntimeError(f"_apply(): Couldn't swap {name}") from error
        if grad is None:
            return param
        moved = fn(grad).requires_grad_(grad.requires_grad)
    try:
        corten.utils.swap_tensors(grad, moved)
    except Exception as error:
        raise RuntimeError(f"_apply(): Couldn't swap {name}.grad") from error
    param.grad = grad
    return param


def _same_kind(a, b):
    """Whether `a.data = b` keeps the object: not between real and meta tensors, nor where programs ask for new
    ones."""
    if corten.__future__.get_overwrite_module_params_on_conversion():
        return False
    return (a.device.type == "meta") == (b.device.type == "meta") and a.layout == b.layout


def _parse_to(*args, non_blocking=False, copy=False, memory_format=None, device=None, dtype=None, tensor=None,
              other=None):
    """The arguments of `to`: (device, dtype), (dtype), or (tensor), then non_blocking."""
    args, tensor = list(args), tensor if other is None else other
    invalid = TypeError("to() received an invalid combination of arguments")
    if args and isinstance(args[0], Tensor):
        tensor = args.pop(0)
    elif args and isinstance(args[0], corten.dtype):
        dtype = args.pop(0)
    elif args:
        device = args.pop(0)
        if args and not (args[0] is None or isinstance(args[0], corten.dtype)):
            raise invalid
        dtype = args.pop(0) if args else dtype
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if args:
        non_blocking = args.pop(0)
    if args:
        copy = args.pop(0)
    if args:
        raise invalid
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    return None if device is None else corten.device(device), dtype, non_blocking, memory_format
