"""Copies of a module on several GPUs."""

from __future__ import annotations

import corten
from corten.cuda._utils import _get_device_index

from . import comm

__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """Copies of a module whose parameters are copies of its own on each GPU; their gradients go to the module
    unless they are detached."""
    indices = [_get_device_index(device, True) for device in devices]
    parameters = _copies(list(network.parameters()), indices, detach)
    buffers = _copies(list(network.buffers()), indices, True)
    modules = list(network.modules())
    place = {module: i for i, module in enumerate(modules)}
    replicas = []
    for tensors, others in zip(parameters, buffers):
        made = [module._replicate_for_data_parallel() for module in modules]
        for module, replica in zip(modules, made):
            replica._former_parameters = {}
            for name, child in module._modules.items():
                if child is None:
                    replica._modules[name] = None
                else:
                    setattr(replica, name, made[place[child]])
            for name, parameter in module._parameters.items():
                if parameter is None:
                    replica._parameters[name] = None
                else:
                    # The copy has a history, so that it is no parameter.
                    replica.__dict__[name] = replica._former_parameters[name] = tensors[id(parameter)]
            for name, buffer in module._buffers.items():
                replica._buffers[name] = None if buffer is None else others[id(buffer)]
        replicas.append(made[0])
    return replicas


def _copies(tensors, indices, detach):
    """A dictionary by identity for each GPU."""
    given = [tensor.detach() for tensor in tensors] if detach else tensors
    if any(tensor.device.type == "cpu" for tensor in given) and len(indices) > 0:
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    with corten.set_grad_enabled(corten.is_grad_enabled() and not detach):
        placed = comm.broadcast_coalesced(given, indices)
    return [{id(tensor): copy for tensor, copy in zip(tensors, one)} for one in placed]
