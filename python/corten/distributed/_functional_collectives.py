"""Collectives that give new tensors, with gradients, and can be captured. A group is a process group, its
name, a mesh of one dimension, or a mesh and the number of a dimension."""

from __future__ import annotations

import warnings

import corten
from corten._C._distributed_c10d import ProcessGroup, ReduceOp
from corten.distributed import _functional_collectives_impl as impl
from corten.distributed import distributed_c10d as c10d
from corten.distributed.device_mesh import DeviceMesh
from corten.utils._pytree import tree_map_only

RANK_TYPES = (list, ProcessGroup, DeviceMesh, tuple, str)


def _ops():
    return corten.ops._c10d_functional


class AsyncCollectiveTensor(corten.Tensor):
    """The result of a collective that runs: the first operator that reads it waits. Views of it are such
    tensors too."""

    __slots__ = ["elem", "completed"]
    __torch_function__ = corten._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem):
        made = corten.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            layout=elem.layout, device=elem.device, requires_grad=elem.requires_grad,
        )
        made.elem = elem
        made.completed = False
        return made

    def __tensor_flatten__(self):
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        return AsyncCollectiveTensor(inner_tensors["elem"])

    def __coerce_same_metadata_as_tangent__(self, expected_metadata, expected_type=None):
        return self.trigger_wait() if expected_type is corten.Tensor else None

    def __repr__(self):
        return f"AsyncCollectiveTensor({self.trigger_wait()})"

    def trigger_wait(self):
        """The tensor, once it may be read."""
        if not self.completed:
            self.elem = wait_tensor(self.elem)
            self.completed = True
        return self.elem

    def wait(self):
        """As :meth:`trigger_wait`."""
        return self.trigger_wait()

    def _get_acs_underlying_tensor(self):
        return self.elem

    def tolist(self):
        """The elements as Python numbers."""
        return self.trigger_wait().tolist()

    def numpy(self):
        """The elements as an array of NumPy."""
        return self.trigger_wait().numpy()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        is_view = _is_view_op(func)

        def unwrap(tensor):
            return tensor.elem if is_view else tensor.trigger_wait()

        args = tree_map_only(AsyncCollectiveTensor, unwrap, args)
        out = func(*args, **tree_map_only(AsyncCollectiveTensor, unwrap, kwargs or {}))
        return tree_map_only(corten.Tensor, AsyncCollectiveTensor, out) if is_view else out


def _is_view_op(tgt):
    """Whether an operator's result is a view of its first argument."""
    arguments = tgt._schema.arguments
    if not arguments:
        return False
    alias = arguments[0].alias_info
    return alias is not None and not alias.is_write


def _are_we_tracing():
    from corten._guards import detect_fake_mode
    from corten.fx.experimental.proxy_tensor import get_proxy_mode

    return get_proxy_mode() is not None or detect_fake_mode() is not None


def _tracing():
    """As :func:`_are_we_tracing`, without loading what traces where nobody has."""
    import sys

    names = ("corten.fx.experimental.proxy_tensor", "corten._subclasses.fake_tensor")
    return any(name in sys.modules for name in names) and _are_we_tracing()


def _maybe_wrap_tensor(self):
    if _tracing() or self.requires_grad:
        return wait_tensor(self)
    return AsyncCollectiveTensor(self)


def _maybe_wrap_tensors(tensors):
    return [_maybe_wrap_tensor(tensor) for tensor in tensors]


def wait_tensor(tensor):
    """A tensor, once the collective that makes it is done."""
    if isinstance(tensor, AsyncCollectiveTensor):
        return tensor.trigger_wait()
    if _tracing():
        return _ops().wait_tensor(tensor)
    impl.complete(tensor)
    return tensor


def wait_tensors(tensors):
    """As :func:`wait_tensor`, of each."""
    return [wait_tensor(tensor) for tensor in tensors]


def _expand_group(group, tag=""):
    """The tag, ranks and size of a group in any of its forms."""
    if isinstance(group, list):
        if not isinstance(group[0], list):
            return tag, group, len(group)
        sizes = {len(ranks) for ranks in group}
        if len(sizes) != 1:
            raise ValueError(f"group sizes must be identical found {sorted(sizes)}")
        return tag, [rank for ranks in group for rank in ranks], sizes.pop()
    if isinstance(group, (ProcessGroup, DeviceMesh, tuple)):
        pg = c10d._resolve_process_group(_resolve_group_name(group, tag))
        ranks = c10d.get_process_group_ranks(pg)
        return tag or c10d._get_group_tag(pg), ranks, len(ranks)
    raise ValueError(
        "Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int)."
    )


def _resolve_group_name(group, tag=""):
    """The name of a group in any of its forms.

    Raises:
        ValueError: It is none of them.
    """
    if isinstance(group, ProcessGroup):
        return group.group_name
    if isinstance(group, str):
        return group
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group._dim_group_names[0]
    if isinstance(group, tuple):
        if len(group) == 2 and isinstance(group[0], DeviceMesh) and isinstance(group[1], int):
            return group[0]._dim_group_names[group[1]]
        raise ValueError(
            f"Invalid tuple for group must be (DeviceMesh, int). Instead got {tuple(map(type, group))}"
        )
    if isinstance(group, list):
        warnings.warn(
            "The combination of ranks + tag as process group identifier has been deprecated. Please switch to "
            "using ProcessGroup, DeviceMesh, or group name instead.",
            FutureWarning,
            stacklevel=3,
        )
        return c10d._resolve_group_name_by_ranks_and_tag(group, tag)
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


def _resolve_group(group, tag=""):
    return group if isinstance(group, ProcessGroup) else _resolve_group_name(group, tag)


def _group_or_group_name(group):
    return group if isinstance(group, str) else group.group_name


def _named_op(tensors, op):
    """A reduction by name, and the tensors, multiplied where that is part of it."""
    if isinstance(op, str):
        return tensors, op.lower()
    kind = getattr(op, "op", op)
    if kind == ReduceOp.PREMUL_SUM:
        return [tensor * op.factor for tensor in tensors], "sum"
    return tensors, kind.name.lower()


def broadcast(self, src, group, tag=""):
    """The tensor of one rank of a group."""
    return _maybe_wrap_tensor(_ops().broadcast(self, src, _resolve_group_name(group, tag)))


def all_reduce(self, reduceOp, group, tag=""):  # noqa: N803
    """The combination of a tensor of all ranks. Gradients: of sums, averages, minima and maxima."""
    (tensor,), op = _named_op([self], reduceOp)
    return _maybe_wrap_tensor(_ops().all_reduce(tensor, op, _resolve_group_name(group, tag)))


def all_reduce_coalesced(self, reduceOp, group, tag=""):  # noqa: N803
    """As :func:`all_reduce`, of several tensors by one call; without gradients."""
    tensors, op = _named_op(self, reduceOp)
    return _maybe_wrap_tensors(_ops().all_reduce_coalesced(tensors, op, _resolve_group_name(group, tag)))


def all_gather_single(self, gather_dim, group, tag=""):
    """The tensors of all ranks, one after the other along a dimension."""
    name = _resolve_group_name(group, tag)
    size = c10d._get_group_size_by_name(name)
    if not self.is_contiguous():
        self = self.contiguous()
    gather_dim = gather_dim + self.dim() if gather_dim < 0 else gather_dim
    found = _maybe_wrap_tensor(_ops().all_gather_into_tensor(self, size, name))
    return found if gather_dim == 0 else corten.cat(wait_tensor(found).chunk(size), gather_dim)


def reduce_scatter_single(self, reduceOp, scatter_dim, group, tag=""):  # noqa: N803
    """This rank's part, along a dimension, of the combination of a tensor of all ranks."""
    name = _resolve_group_name(group, tag)
    size = c10d._get_group_size_by_name(name)
    (tensor,), op = _named_op([self], reduceOp)
    tensor = _parts_first(tensor, scatter_dim, size, "")
    return _maybe_wrap_tensor(_ops().reduce_scatter_tensor(tensor, op, size, name))


def _parts_first(tensor, dim, size, where):
    """A tensor whose parts along a dimension stand one after the other."""
    if tensor.size(dim) % size != 0:
        raise AssertionError(
            f"input dimension {dim} ({tensor.size(dim)} must be a multiple of group_size {size}{where})"
        )
    return tensor if dim == 0 else corten.cat(tensor.chunk(size, dim))


def all_gather_single_autograd(self, gather_dim, group, tag=""):
    """As :func:`all_gather_single`."""
    return all_gather_single(self, gather_dim, group, tag)


def reduce_scatter_single_autograd(self, reduceOp, scatter_dim, group, tag=""):  # noqa: N803
    """As :func:`reduce_scatter_single`."""
    return reduce_scatter_single(self, reduceOp, scatter_dim, group, tag)


def all_gather_tensor(self, gather_dim, group, tag=""):
    """As :func:`all_gather_single`."""
    return all_gather_single(self, gather_dim, group, tag)


def all_gather_tensor_autograd(self, gather_dim, group, tag=""):
    """As :func:`all_gather_single`."""
    return all_gather_single(self, gather_dim, group, tag)


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):  # noqa: N803
    """As :func:`reduce_scatter_single`."""
    return reduce_scatter_single(self, reduceOp, scatter_dim, group, tag)


def reduce_scatter_tensor_autograd(self, reduceOp, scatter_dim, group, tag=""):  # noqa: N803
    """As :func:`reduce_scatter_single`."""
    return reduce_scatter_single(self, reduceOp, scatter_dim, group, tag)


def all_gather_single_coalesced(self, group, tag=""):
    """As :func:`all_gather_single` along dimension 0, of several tensors by one call; without gradients."""
    name = _resolve_group_name(group, tag)
    size = c10d._get_group_size_by_name(name)
    return _maybe_wrap_tensors(_ops().all_gather_into_tensor_coalesced(list(self), size, name))


def reduce_scatter_single_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):  # noqa: N803
    """As :func:`reduce_scatter_single`, of several tensors by one call; without gradients."""
    name = _resolve_group_name(group, tag)
    size = c10d._get_group_size_by_name(name)
    if len(scatter_dim) != len(inputs):
        raise AssertionError(
            f"Length of scatter_dim ({len(scatter_dim)}) must equal length of inputs ({len(inputs)})"
        )
    tensors, op = _named_op(inputs, reduceOp)
    parts = [
        _parts_first(tensor, dim, size, f" for tensor at index {place}")
        for place, (tensor, dim) in enumerate(zip(tensors, scatter_dim, strict=True))
    ]
    return _maybe_wrap_tensors(_ops().reduce_scatter_tensor_coalesced(parts, op, size, name))


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """As :func:`all_gather_single_coalesced`."""
    return all_gather_single_coalesced(self, group, tag)


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):  # noqa: N803
    """As :func:`reduce_scatter_single_coalesced`."""
    return reduce_scatter_single_coalesced(inputs, reduceOp, scatter_dim, group, tag)


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """What the ranks send each other: rows ``input_split_sizes[i]`` go to rank ``i``, of which
    ``output_split_sizes[i]`` come; equal parts where both are absent."""
    name = _resolve_group_name(group, tag)
    if (output_split_sizes is None) != (input_split_sizes is None):
        raise AssertionError(
            "output_split_sizes and input_split_sizes must either be specified together or both set to None"
        )
    for given, what in ((output_split_sizes, "output_split_sizes"), (input_split_sizes, "input_split_sizes")):
        if given is not None and not all(isinstance(size, (int, corten.SymInt)) for size in given):
            raise AssertionError(f"All {what} must be int or SymInt, got {given}")
    if output_split_sizes is None:
        size = c10d._get_group_size_by_name(name)
        output_split_sizes = input_split_sizes = [self.shape[0] // size] * size
    found = _ops().all_to_all_single(self, list(output_split_sizes), list(input_split_sizes), name)
    return _maybe_wrap_tensor(found)


def all_to_all_single_autograd(self, output_split_sizes, input_split_sizes, group, tag=""):
    """As :func:`all_to_all_single`."""
    return all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag)


def permute_tensor(self, src_dst, group, tag=""):
    """The tensor of the rank that sends to this one: rank ``i`` sends to ``src_dst[i]``."""
    pg = c10d._resolve_process_group(_resolve_group_name(group, tag))
    rank, size = c10d.get_rank(pg), pg.size()
    outputs, inputs = [0] * size, [0] * size
    for source, target in enumerate(src_dst):
        if source == rank:
            inputs[target] = self.numel()
        if target == rank:
            outputs[source] = self.numel()
    return all_to_all_single(self, outputs, inputs, pg, tag)


def all_gather_tensor_inplace(output_tensor, input_tensor, group, async_op=False, tag="", gather_dim=0):
    """:func:`all_gather_single` into a tensor."""
    _not_async(async_op)
    return output_tensor.copy_(all_gather_single(input_tensor, gather_dim, group, tag))


def reduce_scatter_tensor_inplace(output, input, op="sum", group=None, async_op=False, scatter_dim=0, tag=""):
    """:func:`reduce_scatter_single` into a tensor."""
    _not_async(async_op)
    return output.copy_(reduce_scatter_single(input, op, scatter_dim, group, tag))


def all_reduce_inplace(tensor, op="sum", group=None, async_op=False, tag=""):
    """:func:`all_reduce` into its input."""
    _not_async(async_op)
    return tensor.copy_(all_reduce(tensor, op, group, tag))


def all_to_all_inplace(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False, tag=""
):
    """:func:`all_to_all_single` into a tensor."""
    _not_async(async_op)
    return output.copy_(all_to_all_single(input, output_split_sizes, input_split_sizes, group, tag))


def _not_async(async_op):
    if async_op:
        raise AssertionError(
            "Can't remap async version of inplace op to functional collective"
        )
