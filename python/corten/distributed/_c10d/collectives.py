"""Collectives of tensors."""

from __future__ import annotations

import warnings
from datetime import timedelta

import corten
from corten._C import _distributed_c10d as native
from corten._C._distributed_c10d import ReduceOp
from corten.distributed._c10d.backends import _get_default_timeout, get_backend
from corten.distributed._c10d.checks import (
    _check_reduction, _check_single_tensor, _check_tensor_list, _ensure_all_tensors_same_dtype,
    _get_object_coll_device, all_as_real, as_real, ended, ended_as_future, handle_torch_function,
    has_torch_function,
)
from corten.distributed._c10d.coalescing import later, put_off
from corten.distributed._c10d.groups import _check_valid_timeout
from corten.distributed._c10d.world import (
    _canonicalize_group_rank, _get_default_group, _group_or_default_group, _rank_not_in_group,
    _warn_not_in_group,
)


def _options(kind, async_op, **values):
    options = kind()
    options.asyncOp = async_op
    for name, value in values.items():
        setattr(options, name, value)
    return options


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copies a tensor of one rank to all others, in place. ``src`` is a rank of the world,
    ``group_src`` one of the group."""
    if has_torch_function((tensor,)):
        return handle_torch_function(
            broadcast, (tensor,), tensor, src=src, group=group, async_op=async_op, group_src=group_src
        )
    group = _group_or_default_group(group)
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("broadcast")
    root = _canonicalize_group_rank(group, src, group_src)
    options = _options(native.BroadcastOptions, async_op, rootRank=root, rootTensor=0)
    return ended(group.broadcast([as_real(tensor)], options), async_op)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines a tensor of all ranks, element by element, in place on each.

    Raises:
        ValueError: The combination is not defined for complex numbers.
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(all_reduce, (tensor,), tensor, op=op, group=group, async_op=async_op)
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce")
    if tensor.is_complex():
        _check_reduction("all_reduce", [tensor], op)
        tensor = corten.view_as_real(tensor)
    group = _group_or_default_group(group)
    if put_off(group, all_reduce, tensor, None, op):
        return later(async_op)
    options = native.AllreduceOptions()
    options.reduceOp = op
    options.asyncOp = async_op
    return ended(group.allreduce([tensor], options), async_op)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines each tensor of a list with those of all ranks, as one call. With ``async_op`` a future."""
    warnings.warn(
        "`torch.distributed.all_reduce_coalesced` will be deprecated. If you must use it, please revisit our "
        "documentation later at https://pytorch.org/docs/main/distributed.html#collective-functions",
        FutureWarning,
        stacklevel=2,
    )
    tensors = [tensors] if isinstance(tensors, corten.Tensor) else tensors
    if isinstance(tensors, (list, tuple)) and has_torch_function(tuple(tensors)):
        return handle_torch_function(
            all_reduce_coalesced, tuple(tensors), tensors, op=op, group=group, async_op=async_op
        )
    _check_tensor_list(tensors, "tensor")
    _ensure_all_tensors_same_dtype(tensors)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce_coalesced")
    _check_reduction("all_reduce", tensors, op)
    options = _options(native.AllreduceCoalescedOptions, async_op, reduceOp=op)
    group = _group_or_default_group(group)
    return ended_as_future(group.allreduce_coalesced(all_as_real(tensors), options), async_op)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Combines a tensor of all ranks, in place on one of them."""
    if has_torch_function((tensor,)):
        return handle_torch_function(
            reduce, (tensor,), tensor, dst=dst, op=op, group=group, async_op=async_op, group_dst=group_dst
        )
    group = _group_or_default_group(group)
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce")
    root = _canonicalize_group_rank(group, dst, group_dst)
    _check_reduction("reduce", [tensor], op)
    options = _options(native.ReduceOptions, async_op, reduceOp=op, rootRank=root)
    return ended(group.reduce([as_real(tensor)], options), async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Collects a tensor of each rank in a list on every rank."""
    if has_torch_function((tensor,)):
        return handle_torch_function(all_gather, (tensor,), tensor_list, tensor, group=group, async_op=async_op)
    _check_tensor_list(tensor_list, "tensor_list")
    _check_single_tensor(tensor, "tensor")
    _ensure_all_tensors_same_dtype(tensor_list, tensor)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather")
    options = _options(native.AllgatherOptions, async_op)
    group = _group_or_default_group(group)
    return ended(group.allgather([all_as_real(tensor_list)], [as_real(tensor)], options), async_op)


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    """Collects a tensor of each rank in one on every rank, one after the other or stacked, as the shape of
    the output has it."""
    if has_torch_function((input_tensor,)):
        return handle_torch_function(
            all_gather_single, (input_tensor,), output_tensor, input_tensor, group=group, async_op=async_op
        )
    _check_single_tensor(input_tensor, "input_tensor")
    _check_single_tensor(output_tensor, "output_tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_into_tensor")
    output_tensor, input_tensor = as_real(output_tensor), as_real(input_tensor)
    group = _group_or_default_group(group)
    if put_off(group, all_gather_single, input_tensor, output_tensor):
        return later(async_op)
    options = _options(native.AllgatherOptions, async_op)
    return ended(group._allgather_base(output_tensor, input_tensor, options), async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """As :func:`all_gather_single`."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def _all_gather_base(output_tensor, input_tensor, group=None, async_op=False):
    """The old name of :func:`all_gather_into_tensor`."""
    warnings.warn(
        "`torch.distributed._all_gather_base` is a private function and will be deprecated. Please use "
        "`torch.distributed.all_gather_into_tensor` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """Collects each tensor of a list from every rank; ``output_tensor_lists[rank][i]`` is the ``i``-th of a
    rank. With ``async_op`` a future."""
    warnings.warn(
        "`torch.distributed.all_gather_coalesced` will be deprecated. If you must use it, please revisit our "
        "documentation later at https://pytorch.org/docs/main/distributed.html#collective-functions",
        FutureWarning,
        stacklevel=2,
    )
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_coalesced")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for tensors in output_tensor_lists:
        _check_tensor_list(tensors, "output_tensor_lists")
        _ensure_all_tensors_same_dtype(tensors)
    options = _options(native.AllgatherOptions, async_op)
    outputs = [all_as_real(tensors) for tensors in output_tensor_lists]
    work = _group_or_default_group(group).allgather_coalesced(outputs, all_as_real(input_tensor_list), options)
    return ended_as_future(work, async_op)


def _validate_output_list_for_rank(my_rank, dst, gather_list):
    if dst == my_rank:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Collects a tensor of each rank in a list on one of them, by default the first.

    Raises:
        ValueError: The list is absent there, or given elsewhere.
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(
            gather, (tensor,), tensor, gather_list=gather_list, dst=dst, group=group, async_op=async_op,
            group_dst=group_dst,
        )
    _check_single_tensor(tensor, "tensor")
    gather_list = gather_list or []
    _check_tensor_list(gather_list, "gather_list")
    _ensure_all_tensors_same_dtype(tensor, gather_list)
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("gather")
    root = _root(group, dst, group_dst)
    _validate_output_list_for_rank(group.rank(), root, gather_list)
    outputs = [all_as_real(gather_list)] if group.rank() == root else []
    options = _options(native.GatherOptions, async_op, rootRank=root)
    return ended(group.gather(outputs, [as_real(tensor)], options), async_op)


def _root(group, rank, group_rank):
    """The rank in a group that a collective is about; the world's first where none is named."""
    if rank is None and group_rank is None:
        rank = 0
    return _canonicalize_group_rank(group, rank, group_rank)


def gather_single(tensor, gather_tensor=None, dst=None, group=None, async_op=False, group_dst=None):
    """Collects a tensor of each rank in one tensor on one of them, by default the first.

    Raises:
        ValueError: ``gather_tensor`` is absent there.
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(
            gather_single, (tensor,), tensor, gather_tensor=gather_tensor, dst=dst, group=group,
            async_op=async_op, group_dst=group_dst,
        )
    _check_single_tensor(tensor, "tensor")
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("gather_single")
    root = _root(group, dst, group_dst)
    outputs = []
    if group.rank() == root:
        if gather_tensor is None:
            raise ValueError("gather_tensor must be specified on the destination rank")
        _check_single_tensor(gather_tensor, "gather_tensor")
        _ensure_all_tensors_same_dtype(tensor, gather_tensor)
        outputs = [list(as_real(gather_tensor).view(group.size(), *as_real(tensor).shape))]
    options = _options(native.GatherOptions, async_op, rootRank=root)
    return ended(group.gather(outputs, [as_real(tensor)], options), async_op)


def gather_into_tensor(tensor, gather_tensor=None, dst=None, group=None, async_op=False, group_dst=None):
    """As :func:`gather_single`."""
    return gather_single(tensor, gather_tensor, dst, group, async_op, group_dst)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives each rank one of a list of tensors of one rank, by default the first.

    Raises:
        ValueError: The list is absent there, or given elsewhere.
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(
            scatter, (tensor,), tensor, scatter_list=scatter_list, src=src, group=group, async_op=async_op,
            group_src=group_src,
        )
    _check_single_tensor(tensor, "tensor")
    scatter_list = scatter_list or []
    _check_tensor_list(scatter_list, "scatter_list")
    _ensure_all_tensors_same_dtype(tensor, scatter_list)
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("scatter")
    root = _root(group, src, group_src)
    if group.rank() == root and not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    if group.rank() != root and scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    inputs = [all_as_real(scatter_list)] if group.rank() == root else []
    options = _options(native.ScatterOptions, async_op, rootRank=root)
    return ended(group.scatter([as_real(tensor)], inputs, options), async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines lists of tensors of all ranks and gives each rank one of the results."""
    if has_torch_function((output,)):
        return handle_torch_function(
            reduce_scatter, (output,), output, input_list, op=op, group=group, async_op=async_op
        )
    _check_single_tensor(output, "output")
    _check_tensor_list(input_list, "input_list")
    _ensure_all_tensors_same_dtype(output, input_list)
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter")
    _check_reduction("reduce_scatter", [output], op)
    options = _options(native.ReduceScatterOptions, async_op, reduceOp=op)
    group = _group_or_default_group(group)
    return ended(group.reduce_scatter([as_real(output)], [all_as_real(input_list)], options), async_op)


def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines a tensor of all ranks and gives each rank its part of the result."""
    if has_torch_function((output,)):
        return handle_torch_function(
            reduce_scatter_single, (output,), output, input, op=op, group=group, async_op=async_op
        )
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter_tensor")
    _check_reduction("reduce_scatter_tensor", [output], op)
    output, input = as_real(output), as_real(input)
    group = _group_or_default_group(group)
    if put_off(group, reduce_scatter_single, input, output, op):
        return later(async_op)
    options = _options(native.ReduceScatterOptions, async_op, reduceOp=op)
    return ended(group._reduce_scatter_base(output, input, options), async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """As :func:`reduce_scatter_single`."""
    return reduce_scatter_single(output, input, op, group, async_op)


def _reduce_scatter_base(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """The old name of :func:`reduce_scatter_tensor`."""
    warnings.warn(
        "`torch.distributed._reduce_scatter_base` is a private function and will be deprecated. Please use "
        "`torch.distributed.reduce_scatter_tensor` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return reduce_scatter_single(output, input, op, group, async_op)


def all_to_all_single(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False
):
    """Gives each rank a part of a tensor and receives one of each: rows ``input_split_sizes[i]`` go to rank
    ``i``, of which ``output_split_sizes[i]`` come; equal parts where they are absent."""
    if has_torch_function((input,)):
        return handle_torch_function(
            all_to_all_single, (input,), output, input, output_split_sizes=output_split_sizes,
            input_split_sizes=input_split_sizes, group=group, async_op=async_op,
        )
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all_single")
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    _ensure_all_tensors_same_dtype(output, input)
    options = _options(native.AllToAllOptions, async_op)
    work = _group_or_default_group(group).alltoall_base(
        as_real(output), as_real(input), list(output_split_sizes or []), list(input_split_sizes or []), options
    )
    return ended(work, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Gives rank ``i`` the ``i``-th tensor of a list and receives one of each rank."""
    if isinstance(input_tensor_list, (list, tuple)) and has_torch_function(tuple(input_tensor_list)):
        return handle_torch_function(
            all_to_all, tuple(input_tensor_list), output_tensor_list, input_tensor_list, group=group,
            async_op=async_op,
        )
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all")
    _check_tensor_list(output_tensor_list, "output_tensor_list")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(output_tensor_list, input_tensor_list)
    options = _options(native.AllToAllOptions, async_op)
    work = _group_or_default_group(group).alltoall(
        all_as_real(output_tensor_list), all_as_real(input_tensor_list), options
    )
    return ended(work, async_op)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits until every rank of a group is here."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("barrier")
    options = _options(native.BarrierOptions, async_op)
    if timeout is not None:
        options.timeout = timeout
    accelerator = corten.accelerator.current_accelerator()
    if device_ids is not None:
        if not isinstance(device_ids, list):
            raise TypeError("Invalid function argument: device_ids type should be List[int]")
        options.device_ids = device_ids
        options.device = corten.device("cpu" if accelerator is None else accelerator.type, device_ids[0])
    elif getattr(group, "bound_device_id", None) is not None:
        options.device = group.bound_device_id
    elif accelerator is None or _get_object_coll_device(group) == "cpu":
        options.device = corten.device("cpu")
    else:
        options.device = accelerator
        if group.rank() == 0:
            warnings.warn(
                "barrier(): using the device under current context. You can specify `device_id` in "
                "`init_process_group` to mute this warning.",
                stacklevel=2,
            )
    return ended(group.barrier(options), async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Waits until every rank of a group is here, and says which ones are late. The first rank finds out;
    with ``wait_all_ranks`` it names all of them.

    Raises:
        ValueError: The group has no back end for the CPU.
        RuntimeError: A rank did not come in time.
    """
    if _rank_not_in_group(group):
        return _warn_not_in_group("monitored_barrier")
    group = _get_default_group() if group is None else group
    if corten.device("cpu") not in group._device_types:
        raise ValueError("monitored_barrier requires a group with a CPU-capable backend (e.g. GLOO).")
    if timeout is None:
        timeout = _get_default_timeout(get_backend(group))
    elif isinstance(timeout, float):
        warnings.warn(
            "Please specify timeout arg as a timedelta. "
            f"Converting current value of {timeout} assuming it represents seconds",
            stacklevel=2,
        )
        timeout = timedelta(seconds=timeout)
    _check_valid_timeout(timeout)
    return group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
