"""Collectives of Python objects, which travel as tensors of bytes of their pickles. Pickles run what they
like: only trusted ranks may take part."""

from __future__ import annotations

import io
import pickle

import corten
from corten.distributed._c10d.checks import _get_object_coll_device
from corten.distributed._c10d.collectives import (
    _root, _validate_output_list_for_rank, all_gather_single, broadcast, gather, scatter,
)
from corten.distributed._c10d.messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from corten.distributed._c10d.world import (
    _canonicalize_group_rank, _check_not_self_rank, _group_or_default_group, _rank_not_in_group,
    _warn_not_in_group, get_global_rank, get_world_size,
)

_pickler = pickle.Pickler
_unpickler = pickle.Unpickler


def _object_to_tensor(obj, device, group, weights_only=False):
    """The bytes of an object, and how many they are, as tensors."""
    file = io.BytesIO()
    if weights_only:
        corten.save(obj, file)
    else:
        _pickler(file).dump(obj)
    data = corten.frombuffer(bytearray(file.getbuffer()), dtype=corten.uint8).to(device)
    return data, corten.tensor([data.numel()], dtype=corten.long, device=device)


def _tensor_to_object(tensor, tensor_size, group, weights_only=False):
    """The object whose bytes the first ``tensor_size`` elements are."""
    data = tensor.cpu().contiguous()[:int(tensor_size)]
    buffer = corten.empty(data.numel(), dtype=corten.uint8)
    buffer.copy_(data)
    file = io.BytesIO(bytes(buffer.untyped_storage()) if data.numel() else b"")
    if weights_only:
        return corten.load(file, weights_only=True)
    return _unpickler(file).load()


def _objects_to_tensor(objects, device, group, weights_only):
    """The bytes of several objects as one tensor, and the numbers of them."""
    parts, sizes = zip(*(_object_to_tensor(obj, device, group, weights_only) for obj in objects), strict=True)
    return parts[0] if len(parts) == 1 else corten.cat(parts), corten.cat(sizes)


def _fill(objects, tensor, sizes, group, weights_only):
    """Puts the objects that stand one after the other in ``tensor`` into a list."""
    start = 0
    for place, size in enumerate(sizes.tolist()):
        objects[place] = _tensor_to_object(tensor[start:start + size], size, group, weights_only)
        start += size


def _padded(tensor, length):
    """A tensor of bytes with zeros behind them."""
    if tensor.numel() == length:
        return tensor
    longer = tensor.new_zeros(length)
    longer[:tensor.numel()] = tensor
    return longer


def _padded_object(obj, group, weights_only):
    """An object as bytes, as many as that of the rank with the longest one, and the number of bytes of each rank."""
    device = _get_object_coll_device(group)
    data, size = _object_to_tensor(obj, device, group, weights_only)
    sizes = corten.zeros(get_world_size(group), dtype=corten.long, device=device)
    all_gather_single(sizes, size, group=group)
    return _padded(data, int(sizes.max().item())), sizes


def all_gather_object(object_list, obj, group=None, weights_only=False):
    """Collects an object of each rank in a list on every rank."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_object")
    data, sizes = _padded_object(obj, group, weights_only)
    together = data.new_empty(data.numel() * sizes.numel())
    all_gather_single(together, data, group=group)
    for place, part in enumerate(together.chunk(sizes.numel())):
        object_list[place] = _tensor_to_object(part, sizes[place], group, weights_only)
    return None


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None, weights_only=False):
    """Collects an object of each rank in a list on one of them, by default the first.

    Raises:
        ValueError: The list is absent there, or given elsewhere.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("gather_object")
    root = _root(group, dst, group_dst)
    _validate_output_list_for_rank(group.rank(), root, object_gather_list)
    data, sizes = _padded_object(obj, group, weights_only)
    here = group.rank() == root
    parts = list(data.new_empty(sizes.numel(), data.numel())) if here else None
    gather(data, gather_list=parts, group_dst=root, group=group)
    if here:
        for place, part in enumerate(parts):
            object_gather_list[place] = _tensor_to_object(part, sizes[place], group, weights_only)
    return None


def send_object_list(
    object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False, weights_only=False
):
    """Sends objects to a rank, which receives them with :func:`recv_object_list`."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("send_object_list")
    to = _canonicalize_group_rank(group, dst, group_dst)
    _check_not_self_rank(group, to, "destination")
    data, sizes = _objects_to_tensor(object_list, device or _get_object_coll_device(group), group, weights_only)
    for tensor in (sizes, data):
        if use_batch:
            batch_isend_irecv([P2POp(isend, tensor, group_peer=to, group=group)]).pop().wait()
        else:
            send(tensor, group_dst=to, group=group)
    return None


def recv_object_list(
    object_list, src=None, group=None, device=None, group_src=None, use_batch=False, weights_only=False
):
    """Receives objects into a list of as many places, from any rank where none is named.

    Returns:
        The sender's rank in the world, or -1 where this process is not in the group.
    """
    if _rank_not_in_group(group):
        _warn_not_in_group("recv_object_list")
        return -1
    group = _group_or_default_group(group)
    if src is not None or group_src is not None:
        group_src = _canonicalize_group_rank(group, src, group_src)
        _check_not_self_rank(group, group_src, "source")
    device = device or _get_object_coll_device(group)
    sizes = corten.empty(len(object_list), dtype=corten.long, device=device)
    sender = _receive(sizes, group, group_src, use_batch)
    data = corten.empty(int(sizes.sum().item()), dtype=corten.uint8, device=device)
    # Both parts come from one sender.
    _receive(data, group, _canonicalize_group_rank(group, sender), use_batch)
    _fill(object_list, data, sizes, group, weights_only)
    return sender


def _receive(tensor, group, group_src, use_batch):
    if not use_batch or group_src is None:
        return recv(tensor, group=group, group_src=group_src)
    batch_isend_irecv([P2POp(irecv, tensor, group_peer=group_src, group=group)]).pop().wait()
    return get_global_rank(group, group_src)


def broadcast_object_list(
    object_list, src=None, group=None, device=None, group_src=None, weights_only=False
):
    """Copies the objects of a list of one rank, by default the first, into lists of the same length."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("broadcast_object_list")
    root = _root(group, src, group_src)
    device = device or _get_object_coll_device(group)
    here = group.rank() == root
    if here:
        data, sizes = _objects_to_tensor(object_list, device, group, weights_only)
    else:
        sizes = corten.empty(len(object_list), dtype=corten.long, device=device)
    broadcast(sizes, group_src=root, group=group)
    if not here:
        data = corten.empty(int(sizes.sum().item()), dtype=corten.uint8, device=device)
    broadcast(data, group_src=root, group=group)
    if not here:
        _fill(object_list, data, sizes, group, weights_only)
    return None


def scatter_object_list(
    scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None,
    weights_only=False,
):
    """Gives each rank one of the objects of one rank, by default the first, in place 0 of a list.

    Raises:
        ValueError: The list of results has no place, or the objects are absent there.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        return _warn_not_in_group("scatter_object_list")
    root = _root(group, src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    device = _get_object_coll_device(group)
    parts = sizes = None
    longest = corten.zeros(1, dtype=corten.long, device=device)
    if group.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        made = [_object_to_tensor(obj, device, group, weights_only) for obj in scatter_object_input_list]
        longest = max((size for _, size in made), key=int).clone()
        parts, sizes = [_padded(data, int(longest)) for data, _ in made], [size for _, size in made]
    broadcast(longest, group_src=root, group=group)
    data = corten.empty(int(longest), dtype=corten.uint8, device=device)
    scatter(data, scatter_list=parts, group_src=root, group=group)
    size = corten.zeros(1, dtype=corten.long, device=device)
    scatter(size, scatter_list=sizes, group_src=root, group=group)
    scatter_object_output_list[0] = _tensor_to_object(data, size, group, weights_only)
    return None
