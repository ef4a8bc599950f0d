"""A batch over several GPUs; without GPUs the module itself."""

from __future__ import annotations

from itertools import chain

import corten
from corten.cuda._utils import _get_device_index
from corten.nn.modules.module import Module

from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _all_devices():
    return list(range(corten.cuda.device_count()))


class DataParallel(Module):
    """Splits batches over GPUs: each call copies the module to all of them, gives each a part of the batch, and puts
    the results together. Without GPUs it calls ``module``, which it holds under that name.

    Args:
        module: The module, whose parameters are on the first GPU.
        device_ids: The GPUs; all if it is ``None``.
        output_device: Where the results go; the first GPU if it is ``None``.
        dim: The dimension of the batch.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.dim = module, dim
        if not corten.cuda.is_available():
            self.device_ids, self.output_device = [], None
            return
        device_ids = _all_devices() if device_ids is None else device_ids
        if not device_ids:
            raise RuntimeError("no available devices were found")
        output_device = device_ids[0] if output_device is None else output_device
        self.device_ids = [_get_device_index(device, True) for device in device_ids]
        self.output_device = _get_device_index(output_device, True)
        self.src_device_obj = corten.device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs, **kwargs):
        """What the module returns, of all parts together."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_place(self.module, self.src_device_obj)
        given, named = self.scatter(inputs, kwargs, self.device_ids)
        # Without arguments one replica runs.
        if not given and not named:
            given, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*given[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[:len(given)])
        return self.gather(self.parallel_apply(replicas, given, named), self.output_device)

    def replicate(self, module, device_ids):
        """Copies of the module, one on each GPU."""
        return replicate(module, device_ids, not corten.is_grad_enabled())

    def scatter(self, inputs, kwargs, device_ids):
        """The arguments of each copy."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """The results of each copy."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[:len(replicas)])

    def gather(self, outputs, output_device):
        """The results as one."""
        return gather(outputs, output_device, dim=self.dim)


def _check_place(module, device):
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != device:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {device} (device_ids[0]) but found one of them "
                f"on device: {tensor.device}")


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """What the module returns for ``inputs``, a tuple or one tensor, each GPU for a part of it."""
    if not isinstance(inputs, tuple):
        inputs = (inputs,) if inputs is not None else ()
    if not corten.cuda.is_available():
        return module(*inputs, **(module_kwargs or {}))
    device_ids = _all_devices() if device_ids is None else device_ids
    if not device_ids:
        raise RuntimeError("no available devices were found")
    device_ids = [_get_device_index(device, True) for device in device_ids]
    output_device = _get_device_index(device_ids[0] if output_device is None else output_device, True)
    _check_place(module, corten.device("cuda", device_ids[0]))
    given, named = scatter_kwargs(inputs, module_kwargs, device_ids, dim)
    if not given and not named:
        given, named = ((),), ({},)
    if len(device_ids) == 1:
        return module(*given[0], **named[0])
    used = device_ids[:len(given)]
    replicas = replicate(module, used)
    return gather(parallel_apply(replicas, given, named, used), output_device, dim)
