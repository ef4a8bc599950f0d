"""Messages from one rank to another."""

from __future__ import annotations

from corten._C._distributed_c10d import ProcessGroup
from corten.distributed._c10d.checks import _check_single_tensor, as_real, handle_torch_function, has_torch_function
from corten.distributed._c10d.coalescing import _coalescing_manager
from corten.distributed._c10d.world import (
    _canonicalize_group_rank, _check_not_self_rank, _get_default_group, _group_or_default_group,
    _rank_not_in_group, _warn_not_in_group, get_global_rank, get_rank,
)


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Starts to send a tensor, which must not change before its work is done. ``dst`` is a rank of the world,
    ``group_dst`` one of the group."""
    if has_torch_function((tensor,)):
        return handle_torch_function(
            isend, (tensor,), tensor, dst=dst, group=group, tag=tag, group_dst=group_dst
        )
    group = _group_or_default_group(group)
    to = _canonicalize_group_rank(group, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("isend")
    return group.send([as_real(tensor)], to, tag)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Starts to receive a tensor, from any rank where none is named."""
    if has_torch_function((tensor,)):
        return handle_torch_function(
            irecv, (tensor,), tensor, src=src, group=group, tag=tag, group_src=group_src
        )
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("irecv")
    group = _group_or_default_group(group)
    tensor = as_real(tensor)
    if src is None and group_src is None:
        return group.recv_anysource([tensor], tag)
    return group.recv([tensor], _canonicalize_group_rank(group, src, group_src), tag)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor.

    Raises:
        ValueError: To this rank itself.
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(send, (tensor,), tensor, dst=dst, group=group, tag=tag, group_dst=group_dst)
    group = _group_or_default_group(group)
    to = _canonicalize_group_rank(group, dst, group_dst)
    if not _rank_not_in_group(group):
        _check_not_self_rank(group, to, "destination")
    work = isend(tensor, group=group, tag=tag, group_dst=to)
    if work is not None:
        work.wait()
    return None


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor, from any rank where none is named.

    Returns:
        The sender's rank in the world, or -1 where this process is not in the group.
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(recv, (tensor,), tensor, src=src, group=group, tag=tag, group_src=group_src)
    work = irecv(tensor, src=src, group=group, tag=tag, group_src=group_src)
    if work is None:
        return -1
    work.wait()
    if src is not None:
        return src
    group = _group_or_default_group(group)
    if group_src is None:
        group_src = work._source_rank()
    _check_not_self_rank(group, group_src, "source")
    return get_global_rank(group, group_src)


class P2POp:
    """A message of :func:`batch_isend_irecv`.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: What is sent, or received into.
        peer: The other rank, in the world.
        group: The group; without it the default one.
        tag: Which messages belong together.
        group_peer: The other rank, in the group, in place of ``peer``.
    """

    def __new__(cls, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        _check_op(op)
        _check_single_tensor(tensor, "tensor")
        return object.__new__(cls)

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        self.op = op
        self.tensor = tensor
        self.group = _group_or_default_group(group)
        self.peer = _canonicalize_group_rank(self.group, peer, group_peer, return_global=True)
        self.tag = tag
        self.group_peer = _canonicalize_group_rank(self.group, peer, group_peer)

    def __repr__(self):
        mine = get_rank(self.group)
        source, target = (mine, self.group_peer) if self.op is isend else (self.group_peer, mine)
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={source}, group_dst={target},  "
            f"{self.tensor.shape}, {self.tensor.dtype})"
        )


def _check_op(op):
    if op not in (isend, irecv):
        raise ValueError(
            "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
            "``torch.distributed.irecv``."
        )


def _check_p2p_op_list(p2p_op_list):
    if not isinstance(p2p_op_list, list) or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    if not all(each.group == p2p_op_list[0].group for each in p2p_op_list):
        raise ValueError("All ops need to use the same group.")


def batch_isend_irecv(p2p_op_list):
    """Starts several messages, whose order between different pairs of ranks does not matter.

    Returns:
        Their works.

    Raises:
        ValueError: They are of several groups.
    """
    _check_p2p_op_list(p2p_op_list)
    if not p2p_op_list:
        return []
    group = p2p_op_list[0].group or _get_default_group()
    device = p2p_op_list[0].tensor.device
    if isinstance(group, ProcessGroup) and getattr(group._get_backend(device), "supports_coalescing", False):
        with _coalescing_manager(group, device, async_ops=True) as manager:
            for each in p2p_op_list:
                _start(each)
        return manager.works
    return [work for work in map(_start, p2p_op_list) if work is not None]


def _start(message):
    if message.op is isend:
        return isend(message.tensor, group=message.group, tag=message.tag, group_dst=message.group_peer)
    return irecv(message.tensor, group=message.group, tag=message.tag, group_src=message.group_peer)
