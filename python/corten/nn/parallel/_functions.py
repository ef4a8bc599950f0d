"""Copies between GPUs through which gradients flow."""

from __future__ import annotations

import warnings

import corten
from corten.cuda._utils import _get_device_index

from . import comm

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


class Broadcast:
    """Copies of tensors on several GPUs; gradients are added."""

    @staticmethod
    def apply(target_gpus, *inputs):
        """All copies on the first GPU, then all on the second one, and so on."""
        if any(tensor.device.type == "cpu" for tensor in inputs):
            raise AssertionError("Broadcast function not implemented for CPU tensors")
        return tuple(copy for one in comm.broadcast_coalesced(inputs, target_gpus) for copy in one)


class ReduceAddCoalesced:
    """Sums of tensors over GPUs; the gradient goes to all of them."""

    @staticmethod
    def apply(destination, num_inputs, *grads):
        """The sums of every ``num_inputs``-th tensor."""
        groups = [grads[i:i + num_inputs] for i in range(0, len(grads), num_inputs)]
        return comm.reduce_add_coalesced(groups, destination)


class Scatter:
    """Parts of a tensor on several GPUs."""

    @staticmethod
    def apply(target_gpus, chunk_sizes, dim, input):
        """The parts."""
        return comm.scatter(input, target_gpus, chunk_sizes, dim)


class Gather:
    """Parts from several GPUs as one tensor."""

    @staticmethod
    def apply(target_device, dim, *inputs):
        """The tensor, on a GPU or on the host."""
        if any(tensor.device.type == "cpu" for tensor in inputs):
            raise AssertionError("Gather function not implemented for CPU tensors")
        if target_device != "cpu":
            target_device = _get_device_index(target_device, True, True)
        else:
            target_device = -1
        if dim == 0 and all(tensor.dim() == 0 for tensor in inputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze "
                "and return a vector.", stacklevel=2)
            inputs = [tensor.view(1) for tensor in inputs]
        return comm.gather(inputs, dim, corten.device("cpu") if target_device == -1 else target_device)
