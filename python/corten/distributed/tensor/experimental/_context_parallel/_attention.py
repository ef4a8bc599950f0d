"""Attention over sequences that are spread over processes (Liu et al., Ring Attention; Brandon et al., Striped
Attention, of which the cut into head and tail is a kind).

Every process has the queries of its part of the sequence. Keys and values of the parts come by one all-gather, or from
one neighbour after another; the results of the parts are combined by the logarithms of the sums of their weights. In
backward, each part is computed again with the sums of the whole.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from dataclasses import dataclass
from enum import Enum, auto

import corten
import corten.distributed as dist
from corten.distributed.tensor import DTensor
from corten.nn import functional

from ._load_balancer import _HeadTailLoadBalancer

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class _RotateMethod(Enum):
    """How keys and values come by."""

    ALL_TO_ALL = auto()
    ALL_GATHER = auto()


@dataclass
class _ContextParallelOptions:
    """``convert_to_f32``: results of half floats are combined in single precision; ``enable_load_balance``: each
    process gets a piece of the head and one of the tail of a sequence."""

    convert_to_f32: bool = True
    enable_load_balance: bool = True
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method):
    """Says how keys and values come by: ``"allgather"``, all at once, or ``"alltoall"``, from one neighbour after
    another, which needs memory for one part alone.

    Raises:
        NotImplementedError: There is no such way.
    """
    known = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}
    if rotate_method not in known:
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = known[rotate_method]


@dataclass
class _Ring:
    """The processes of a sequence, and how they share it."""

    group: object
    rank: int
    size: int
    balanced: bool
    rotate_method: _RotateMethod
    convert_to_f32: bool

    def sources(self):
        """The processes whose parts come by, in order."""
        return [(self.rank - step) % self.size for step in range(self.size)]

    def seen(self, source, causal):
        """Which halves of this process's queries and of a part's keys belong together, and whether there is a mask;
        nothing where no query may see any of them. ``0`` and ``1`` are halves, ``None`` is all."""
        if not causal or source == self.rank:
            return None, None, causal
        if self.balanced:
            return (None, 0, False) if source < self.rank else (1, None, False)
        return (None, None, False) if source < self.rank else None

    def parts(self, tensors):
        """The tensors of all processes, beginning with this one's, one process after the other."""
        if self.rotate_method is _RotateMethod.ALL_GATHER:
            yield from self._gathered(tensors)
            return
        for step in range(self.size):
            following = self.passed_on(tensors) if step + 1 < self.size else None
            yield tensors
            if following is not None:
                tensors = following()

    def _gathered(self, tensors):
        packed = corten.stack([tensor.contiguous() for tensor in tensors]) if len(
            {(tensor.shape, tensor.dtype) for tensor in tensors}) == 1 else None
        if packed is None:
            gathered = [self._gather(tensor) for tensor in tensors]
        else:
            gathered = self._gather(packed).unbind(1)
        for source in self.sources():
            yield tuple(one[source] for one in gathered)

    def _gather(self, tensor):
        whole = tensor.new_empty((self.size, *tensor.shape))
        dist.all_gather_into_tensor(whole.view(-1), tensor.contiguous().view(-1), group=self.group)
        return whole

    def passed_on(self, tensors):
        """Sends tensors to the next process; calling what it gives waits for those of the one before."""
        ranks = dist.get_process_group_ranks(self.group)
        ahead, behind = ranks[(self.rank + 1) % self.size], ranks[(self.rank - 1) % self.size]
        sent = [tensor.contiguous() for tensor in tensors]
        taken = [corten.empty_like(tensor) for tensor in sent]
        works = dist.batch_isend_irecv([
            *(dist.P2POp(dist.isend, tensor, ahead, self.group) for tensor in sent),
            *(dist.P2POp(dist.irecv, tensor, behind, self.group) for tensor in taken),
        ])

        def wait():
            for work in works:
                work.wait()
            sent.clear()
            return tuple(taken)

        return wait


def _half(tensor, which):
    """A half of the places of a tensor, which are its dimension 2, or all."""
    return tensor if which is None else tensor.chunk(2, 2)[which]


def _is_flash(query, value):
    return query.device.type == "cpu" and query.size(-1) == value.size(-1)


def _mask(scores):
    rows, columns = scores.shape[-2:]
    return corten.ones(rows, columns, dtype=corten.bool, device=scores.device).triu(1)


def _attend(query, key, value, causal, scale):
    """The result of attention to one part, and the logarithms of the sums of its weights."""
    if _is_flash(query, value):
        return corten.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, scale=scale
        )
    scores = (query @ key.transpose(-1, -2)).to(_wide(query.dtype)) * scale
    if causal:
        scores = scores.masked_fill(_mask(scores), -math.inf)
    sums = scores.logsumexp(-1)
    return (scores - sums.unsqueeze(-1)).exp().to(value.dtype) @ value, sums


def _attend_backward(grad, query, key, value, result, sums, causal, scale):
    """The gradients of query, key and value, given the result and the sums over all parts."""
    if _is_flash(query, value):
        return corten.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, query, key, value, result, sums, 0.0, causal, scale=scale
        )
    scores = (query @ key.transpose(-1, -2)).to(sums.dtype) * scale
    if causal:
        scores = scores.masked_fill(_mask(scores), -math.inf)
    weights = (scores - sums.unsqueeze(-1)).exp()
    inner = (grad.to(sums.dtype) * result.to(sums.dtype)).sum(-1, keepdim=True)
    grads = weights * ((grad @ value.transpose(-1, -2)).to(sums.dtype) - inner) * scale
    grads = grads.to(query.dtype)
    return grads @ key, grads.transpose(-1, -2) @ query, weights.to(value.dtype).transpose(-1, -2) @ grad


def _wide(dtype):
    return corten.float64 if dtype == corten.float64 else corten.float32


def _merge(merged, sums, part, part_sums, which):
    """Combines results in place: of all queries, or of a half of them."""
    old, old_sums = _half(merged, which), _half(sums, which)
    whole = corten.logaddexp(old_sums, part_sums)
    old.mul_((old_sums - whole).exp().unsqueeze(-1).to(old.dtype))
    old.add_(part.to(old.dtype) * (part_sums - whole).exp().unsqueeze(-1).to(old.dtype))
    old_sums.copy_(whole)


class _RingAttention(corten.autograd.Function):
    """Attention of this process's queries to the keys of all processes."""

    @staticmethod
    def forward(ctx, query, key, value, ring, causal, scale):
        merged = sums = None
        for source, (keys, values) in zip(ring.sources(), ring.parts((key, value))):
            seen = ring.seen(source, causal)
            if seen is None:
                continue
            queries, halves, masked = seen
            part, part_sums = _attend(
                _half(query, queries), _half(keys, halves), _half(values, halves), masked, scale
            )
            if merged is None:
                # That of this process itself, which all its queries see.
                merged = part.to(_wide(part.dtype)) if ring.convert_to_f32 else part
                sums = part_sums.contiguous()
            else:
                _merge(merged, sums, part, part_sums, queries)
        result = merged.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, sums)
        ctx.ring, ctx.causal, ctx.scale = ring, causal, scale
        return result

    @staticmethod
    @corten.autograd.function.once_differentiable
    def backward(ctx, grad):
        query, key, value, result, sums = ctx.saved_tensors
        ring, grad = ctx.ring, grad.contiguous()
        grad_query = corten.zeros_like(query, dtype=_wide(query.dtype))

        def of(source, keys, values, grad_keys, grad_values):
            """Adds what one part gives."""
            seen = ring.seen(source, ctx.causal)
            if seen is None:
                return
            queries, halves, masked = seen
            parts = _attend_backward(
                _half(grad, queries).contiguous(), _half(query, queries), _half(keys, halves),
                _half(values, halves), _half(result, queries), _half(sums, queries), masked, ctx.scale,
            )
            for total, which, part in zip(
                (grad_query, grad_keys, grad_values), (queries, halves, halves), parts
            ):
                _half(total, which).add_(part)

        grad_key, grad_value = _backward_over(ring, key, value, of)
        return (
            grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype), None, None, None
        )


def _backward_over(ring, key, value, of):
    """The gradients of this process's keys and values, of which all processes have a part."""
    if ring.rotate_method is _RotateMethod.ALL_GATHER:
        grads = [corten.zeros((ring.size, *one.shape), dtype=_wide(one.dtype), device=one.device)
                 for one in (key, value)]
        for source, part in zip(ring.sources(), ring.parts((key, value))):
            of(source, *part, grads[0][source], grads[1][source])
        reduced = [corten.empty_like(one[0]) for one in grads]
        for one, total in zip(reduced, grads):
            dist.reduce_scatter_tensor(one.view(-1), total.view(-1), group=ring.group)
        return reduced
    grads = tuple(corten.zeros_like(one, dtype=_wide(one.dtype)) for one in (key, value))
    for source, part in zip(ring.sources(), ring.parts((key, value))):
        of(source, *part, *grads)
        # They go along with what they are of, and are at home after the last step.
        grads = ring.passed_on(grads)()
    return grads


_active = threading.local()
_patched = {"count": 0, "original": None}
_lock = threading.Lock()


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """What ``scaled_dot_product_attention`` is within :func:`context_parallel`."""
    ring = getattr(_active, "ring", None)
    if ring is None or isinstance(query, DTensor):
        return _patched["original"](
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if attn_mask is not None or dropout_p > 0.0:
        raise NotImplementedError(
            "scaled_dot_product_attention within context_parallel: attn_mask and dropout_p are not supported, got "
            f"attn_mask={None if attn_mask is None else tuple(attn_mask.shape)} and dropout_p={dropout_p}"
        )
    if query.dim() != 4:
        raise ValueError(
            "scaled_dot_product_attention within context_parallel: query must be [batch, heads, length, width], got "
            f"{list(query.shape)}"
        )
    if enable_gqa and key.size(1) != query.size(1):
        key = key.repeat_interleave(query.size(1) // key.size(1), 1)
        value = value.repeat_interleave(query.size(1) // value.size(1), 1)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    return _RingAttention.apply(query, key, value, ring, is_causal, scale)


@contextlib.contextmanager
def _replaced(ring):
    """Replaces the function of attention, in this thread."""
    with _lock:
        if _patched["count"] == 0:
            original = _patched["original"] = functional.scaled_dot_product_attention
            functional.scaled_dot_product_attention = functools.wraps(original)(_attention)
        _patched["count"] += 1
    before, _active.ring = getattr(_active, "ring", None), ring
    try:
        yield
    finally:
        _active.ring = before
        with _lock:
            _patched["count"] -= 1
            if _patched["count"] == 0:
                functional.scaled_dot_product_attention = _patched["original"]


def _balancer(length, mesh):
    if mesh.size() > 1 and _cp_options.enable_load_balance:
        return _HeadTailLoadBalancer(length, mesh.size())
    return None


def _context_parallel_shard(mesh, buffers, seq_dims, load_balancer=None):
    """This process's parts of tensors.

    Args:
        mesh: The processes, of one dimension.
        buffers: The tensors.
        seq_dims: The dimension of each that is the sequence.
        load_balancer: Who says which places are together; by default those are neighbours.

    Raises:
        ValueError: A length is not a multiple of the number of processes.
    """
    found = []
    for buffer, dim in zip(buffers, seq_dims):
        size = mesh.size()
        if buffer.size(dim) % size:
            raise ValueError(
                f"context_parallel: the length {buffer.size(dim)} of dimension {dim} must be a multiple of the number "
                f"of processes, {size}"
            )
        if load_balancer is not None:
            order = load_balancer._generate_indices().view(-1).to(buffer.device)
            buffer = buffer.index_select(dim, order)
        found.append(buffer.chunk(size, dim)[mesh.get_local_rank()].clone())
    return found


@corten.no_grad()
def context_parallel_unshard(mesh, buffers, seq_dims, load_balancer=None):
    """Whole tensors of parts, in the order of the sequence.

    Args:
        mesh: The processes, of one dimension.
        buffers: The parts.
        seq_dims: The dimension of each that is the sequence.
        load_balancer: Who said which places are together; by default that of :func:`context_parallel`.
    """
    group, size, found = mesh.get_group(), mesh.size(), []
    for buffer, dim in zip(buffers, seq_dims):
        part = buffer.detach().contiguous()
        parts = [corten.empty_like(part) for _ in range(size)]
        dist.all_gather(parts, part, group=group)
        whole = corten.cat(parts, dim)
        balancer = load_balancer or _balancer(whole.size(dim), mesh)
        if balancer is not None:
            order = balancer._generate_indices(restore=True).view(-1).to(whole.device)
            whole = whole.index_select(dim, order)
        found.append(whole)
    return found


@contextlib.contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """Within this, tensors are this process's part of them, and ``scaled_dot_product_attention`` attends to the whole
    sequence.

    Forward and backward are to be within. Attention takes ``[batch, heads, length, width]``, of which the length is
    spread, without a mask or with a causal one.

    Args:
        mesh: The processes, of one dimension.
        buffers: Tensors that are replaced by their part, in place; afterwards they are whole again.
        buffer_seq_dims: The dimension of each that is the sequence.
        no_restore_buffers: Those of them that need not be whole afterwards.

    Raises:
        ValueError: ``buffers`` and ``buffer_seq_dims`` differ in length, ``no_restore_buffers`` has others, or a length
            is not a multiple of twice the number of processes.
    """
    buffers, dims, kept = list(buffers or ()), list(buffer_seq_dims or ()), set(no_restore_buffers or ())
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if any(all(one is not buffer for buffer in buffers) for one in kept):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    balanced = mesh.size() > 1 and _cp_options.enable_load_balance
    originals = [None if buffer in kept else buffer.detach().clone() for buffer in buffers]
    parts = [
        _context_parallel_shard(mesh, [buffer], [dim], _balancer(buffer.size(dim), mesh))[0]
        for buffer, dim in zip(buffers, dims)
    ]
    _assign(buffers, parts)
    ring = _Ring(
        mesh.get_group(), mesh.get_local_rank(), mesh.size(), balanced, _cp_options.rotate_method,
        _cp_options.convert_to_f32,
    )
    try:
        with _replaced(ring):
            yield
    finally:
        _assign(buffers, originals)


@corten.no_grad()
def _assign(buffers, values):
    for buffer, value in zip(buffers, values):
        if value is not None:
            buffer.resize_(value.shape)
            buffer.copy_(value)
