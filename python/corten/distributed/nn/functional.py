"""Collectives with gradients. Every rank of a group calls them, and the backward pass of each."""

from __future__ import annotations

import warnings

import corten
from corten.autograd import Function
from corten.distributed import distributed_c10d as dist
from corten.distributed.distributed_c10d import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]


def _deprecated(name, suggestion):
    warnings.warn(
        f"torch.distributed.nn.functional.{name} is deprecated, use {suggestion} instead.", FutureWarning, stacklevel=3
    )


def broadcast(tensor, src, group=None):
    """The tensor of rank ``src``, to which the sum of the gradients goes back."""
    _deprecated("broadcast", "torch.distributed._functional_collectives.broadcast")
    return _Broadcast.apply(src, group, tensor)


def gather(tensor, dst=0, group=None):
    """The tensors of all ranks on rank ``dst``; zeros elsewhere."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors, src=0, group=None):
    """One of the tensors of rank ``src`` for each rank."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """The combination of a tensor of all ranks on rank ``dst``."""
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """This rank's one of the combinations of lists of tensors, in ``output``."""
    _deprecated("reduce_scatter", "torch.distributed._functional_collectives.reduce_scatter_single")
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor, group=None):
    """The tensors of all ranks."""
    _deprecated("all_gather", "torch.distributed._functional_collectives.all_gather_single")
    return _AllGather.apply(group, tensor)


def _all_gather_base(output_tensor, input_tensor, group=None):
    """The tensors of all ranks in one, ``output_tensor``."""
    _deprecated("_all_gather_base", "torch.distributed._functional_collectives.all_gather_single")
    return _AllGatherBase.apply(output_tensor, input_tensor, group)


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """One tensor of each rank, in ``output_tensor_list``."""
    return _AllToAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """Rows of each rank, in ``output``."""
    _deprecated("all_to_all_single", "torch.distributed._functional_collectives.all_to_all_single")
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """The combination of a tensor of all ranks, whose gradients are combined in the same way."""
    _deprecated("all_reduce", "torch.distributed._functional_collectives.all_reduce")
    return _AllReduce.apply(op, group, tensor)


def _fresh(tensor):
    return tensor.detach().clone(memory_format=corten.contiguous_format)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, src, group, tensor):
        ctx.src, ctx.group = src, group
        tensor = _fresh(tensor)
        dist.broadcast(tensor, src, group=group)
        return tensor

    @staticmethod
    def backward(ctx, grad):
        found = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, found if ctx.src == dist.get_rank() else corten.zeros_like(found)


class _Gather(Function):
    @staticmethod
    def forward(ctx, dst, group, tensor):
        ctx.dst, ctx.group = dst, group
        tensor = tensor.contiguous()
        parts = [corten.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.gather(tensor, parts if dist.get_rank() == dst else None, dst, group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src, group, *tensors):
        ctx.src, ctx.group = src, group
        if any(tensor.size() != tensors[0].size() for tensor in tensors):
            raise AssertionError("scatter: all tensors must have one shape")
        output = corten.zeros_like(tensors[0], memory_format=corten.contiguous_format)
        parts = [tensor.contiguous() for tensor in tensors] if dist.get_rank() == src else None
        dist.scatter(output, parts, src, group=group)
        return output

    @staticmethod
    def backward(ctx, grad):
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _Reduce(Function):
    @staticmethod
    def forward(ctx, dst, op, group, tensor):
        ctx.dst, ctx.group = dst, group
        tensor = _fresh(tensor)
        dist.reduce(tensor, dst, op=op, group=group)
        return tensor

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, op, group, output, *tensors):
        ctx.group = group
        ctx.mark_dirty(output)
        output_here = output if output.is_contiguous() else output.contiguous()
        dist.reduce_scatter(output_here, [tensor.contiguous() for tensor in tensors], op=op, group=group)
        return output if output_here is output else output.copy_(output_here)

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx, group, tensor):
        ctx.group = group
        tensor = tensor.contiguous()
        parts = [corten.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, tensor, group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, corten.empty_like(grads[0]), *grads)


class _AllGatherBase(Function):
    @staticmethod
    def forward(ctx, output, tensor, group):
        ctx.group, ctx.shape = group, tensor.shape
        ctx.mark_dirty(output)
        dist.all_gather_into_tensor(output, tensor.contiguous(), group=group)
        return output

    @staticmethod
    def backward(ctx, grad):
        found = grad.new_empty(ctx.shape)
        dist.reduce_scatter_tensor(found, grad.contiguous(), ReduceOp.SUM, ctx.group)
        return None, found, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx, group, outputs, *tensors):
        ctx.group, ctx.shapes = group, [tensor.shape for tensor in tensors]
        dist.all_to_all(outputs, [tensor.contiguous() for tensor in tensors], group=group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads):
        parts = [grads[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, *_AllToAll.apply(ctx.group, parts, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx, group, output, output_split_sizes, input_split_sizes, tensor):
        ctx.group, ctx.shape = group, tensor.shape
        ctx.output_split_sizes, ctx.input_split_sizes = output_split_sizes, input_split_sizes
        ctx.mark_dirty(output)
        dist.all_to_all_single(output, tensor.contiguous(), output_split_sizes, input_split_sizes, group=group)
        return output

    @staticmethod
    def backward(ctx, grad):
        found = grad.new_empty(ctx.shape)
        return None, None, None, None, _AllToAllSingle.apply(
            ctx.group, found, ctx.input_split_sizes, ctx.output_split_sizes, grad.contiguous()
        )


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        tensor = _fresh(tensor)
        dist.all_reduce(tensor, op=op, group=group)
        return tensor

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)
