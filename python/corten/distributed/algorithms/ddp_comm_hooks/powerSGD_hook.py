"""PowerSGD: gradients as products of two narrow matrices (Vogels, Karimireddy, Jaggi 2019,
https://arxiv.org/abs/1905.13727)."""

from __future__ import annotations

import logging
import math
from collections import defaultdict

import corten
import corten.distributed as dist

from . import default_hooks as default
from ._steps import Steps

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

logger = logging.getLogger(__name__)


def _orthogonalize(matrices, epsilon=0):
    """Makes the columns of each matrix of a batch orthonormal, in place."""
    if not (len(matrices.shape) == 3 and matrices.shape[2] <= matrices.shape[1]):
        raise AssertionError(f"matrices of at least as many rows as columns expected, got {matrices.shape}")
    if matrices.shape[2] <= 2 or matrices.dtype in (corten.float16, corten.bfloat16):
        _orthogonalize_gram_schmidt(matrices, epsilon=epsilon)
    else:
        matrices.copy_(corten.linalg.qr(matrices)[0])


def _orthogonalize_gram_schmidt(matrices, epsilon=0):
    """The modified Gram-Schmidt process; ``epsilon`` is added to norms, so that none is 0."""
    count = matrices.shape[2]
    for place in range(count):
        column = matrices[:, :, place:place + 1]
        norm = corten.linalg.vector_norm(column, dim=1, keepdim=True)
        column /= norm + epsilon if epsilon != 0 else norm
        if place + 1 < count:
            rest = matrices[:, :, place + 1:]
            rest -= corten.sum(column * rest, dim=1, keepdim=True) * column


def _should_compress(num_rows, num_cols, matrix_approximation_rank, min_compression_rate):
    """Whether a matrix gets smaller by more than the rate, and its elements before and after."""
    before = num_rows * num_cols
    after = (num_rows + num_cols) * matrix_approximation_rank
    return after * min_compression_rate < before, before, after


def _report_compression_stats(bucket, state):
    if bucket.is_last() and state.iter >= state.next_stats_report:
        rate, before, after = state.compression_stats()
        logger.info(
            "Compression stats: iter %s, total before compression %s, total after compression %s, rate %s",
            state.iter, before, after, rate,
        )
        state.next_stats_report = state.iter + state.compression_stats_logging_frequency


class PowerSGDState:
    """What the hooks are told and keep between passes.

    Args:
        process_group: The processes; None for all.
        matrix_approximation_rank: The columns of the narrow matrices: few bytes with few of them.
        start_powerSGD_iter: So many passes average gradients as they are.
        min_compression_rate: Matrices that do not get smaller by more than this are sent as they are.
        use_error_feedback: What was lost is added to the gradients of the next pass.
        warm_start: The matrices of the last pass are where the next one begins.
        orthogonalization_epsilon: Added to the norms of columns.
        random_seed: The first matrices are random, the same on all processes.
        compression_stats_logging_frequency: Passes between two reports.
        batch_tensors_with_same_shape: Multiplies gradients of one shape in one call.

    Raises:
        ValueError: Compression is to start before the buckets are made anew, and keeps tensors.
    """

    __slots__ = [
        "process_group", "matrix_approximation_rank", "start_powerSGD_iter", "min_compression_rate",
        "orthogonalization_epsilon", "use_error_feedback", "warm_start", "batch_tensors_with_same_shape",
        "rng", "error_dict", "p_memory_dict", "q_memory_dict", "iter", "total_numel_before_compression",
        "total_numel_after_compression", "compression_stats_logging_frequency", "next_stats_report",
    ]

    def __init__(
        self, process_group, matrix_approximation_rank=1, start_powerSGD_iter=1_000, min_compression_rate=2,
        use_error_feedback=True, warm_start=True, orthogonalization_epsilon=0, random_seed=0,
        compression_stats_logging_frequency=10_000, batch_tensors_with_same_shape=False,
    ):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because "
                "PowerSGD can only be applied after the first two iterations in DDP."
            )
        import numpy as np

        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.error_dict, self.p_memory_dict, self.q_memory_dict = {}, {}, {}
        self.iter = 0
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.next_stats_report = 0
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape

    def __getstate__(self):
        logger.warning("NOTE: Process group is not serializable and excluded from a saved state.")
        return {slot: getattr(self, slot) for slot in self.__slots__ if slot != "process_group"}

    def __setstate__(self, state):
        self.process_group = dist.distributed_c10d._get_default_group()
        logger.warning(
            "NOTE: Process group will be set to a default group (i.e. the world size). If a different group "
            "is desired, please set `self.process_group` after PowerSGD state is loaded."
        )
        for slot, value in state.items():
            setattr(self, slot, value)

    def maybe_increase_iter(self, bucket):
        """Counts passes: one ends with the last bucket."""
        if bucket.is_last():
            self.iter += 1
            if self.iter == self.start_powerSGD_iter:
                logger.info("Start to apply PowerSGD after %s iterations.", self.iter)

    def compression_stats(self):
        """The rate, and the elements before and after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after > 0 else 0, before, after

    def _with_error(self, key, gradient):
        """Adds what the last pass lost, in place, and returns a copy."""
        if not self.use_error_feedback:
            return None
        if key in self.error_dict:
            gradient.add_(self.error_dict[key])
        return gradient.detach().clone()

    def _keep(self, key, wanted, sent, bucket):
        """Ends a pass of one bucket."""
        if self.use_error_feedback:
            self.error_dict[key] = wanted - sent
        if not self.warm_start:
            self.p_memory_dict.clear()
            self.q_memory_dict.clear()
        self.maybe_increase_iter(bucket)

    def _fill_with_random_numbers(self, tensors):
        with corten.random.fork_rng(devices=[]):
            corten.manual_seed(int(self.rng.randint(1_000_000_000)))
            for tensor in tensors:
                tensor.copy_(corten.randn(*tensor.shape, device="cpu", dtype=tensor.dtype))


def _sum(tensor, group):
    """The sum over the processes, in place."""
    dist.all_reduce(tensor, group=group)
    return tensor


def _narrow_views(memory, batches, rows, rank):
    """The parts of one tensor that are the narrow matrices of each batch."""
    views, start = [], 0
    for batch in batches:
        shape = (batch.shape[0], batch.shape[rows], min(batch.shape[1], batch.shape[2], rank))
        end = start + math.prod(shape)
        views.append(memory[start:end].view(shape))
        start = end
    return views


def _sort(state, gradients):
    """Matrices that are compressed, in batches with the tensors they came from, and the other tensors."""
    by_shape, plain = defaultdict(list), []
    for gradient in gradients:
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 0 else gradient.view(1, 1)
        rows, columns = matrix.shape
        rank = min(rows, columns, state.matrix_approximation_rank)
        worth, before, after = _should_compress(rows, columns, rank, state.min_compression_rate)
        state.total_numel_before_compression += before
        state.total_numel_after_compression += after if worth else before
        if worth:
            by_shape[matrix.shape].append(matrix)
        else:
            plain.append(gradient)
    batches = []
    for matrices in by_shape.values():
        if state.batch_tensors_with_same_shape and len(matrices) > 1:
            batches.append((corten.stack(matrices), matrices))
        else:
            batches += [(matrix.unsqueeze(0), None) for matrix in matrices]
    return batches, plain


def powerSGD_hook(state, bucket):
    """Sends matrices of gradients as products of two narrow ones, one parameter at a time; vectors as they are."""
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    size, flat, key = group.size(), bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default._allreduce_fut(group, flat)
    wanted = state._with_error(key, flat)
    batches, plain = _sort(state, bucket.gradients())
    _report_compression_stats(bucket, state)
    matrices, rank, epsilon = [batch for batch, _ in batches], state.matrix_approximation_rank, \
        state.orthogonalization_epsilon

    def length(rows):
        return sum(batch.shape[0] * batch.shape[rows] * min(*batch.shape[1:], rank) for batch in matrices)

    fresh = not state.warm_start or key not in state.p_memory_dict
    if fresh:
        state.p_memory_dict[key] = flat.new_empty(length(1))
        state.q_memory_dict[key] = flat.new_empty(length(2))
    p_memory, q_memory = state.p_memory_dict[key], state.q_memory_dict[key]
    ps, qs = _narrow_views(p_memory, matrices, 1, rank), _narrow_views(q_memory, matrices, 2, rank)
    if fresh:
        state._fill_with_random_numbers(qs)
    for q in qs:
        _orthogonalize(q, epsilon)
    for matrix, p, q in zip(matrices, ps, qs):
        corten.bmm(matrix, q, out=p)
    together = corten.cat([tensor.reshape(-1) for tensor in plain]) if plain else flat.new_empty(0)
    first = dist.all_reduce(together, group=group, async_op=True).get_future()

    def narrow_rounds(_):
        start = 0
        together.div_(size)
        for tensor in plain:
            tensor.copy_(together[start:start + tensor.numel()].view_as(tensor))
            start += tensor.numel()
        _sum(p_memory, group)
        for matrix, p, q in zip(matrices, ps, qs):
            _orthogonalize(p, epsilon)
            corten.bmm(matrix.transpose(1, 2), p, out=q)
        _sum(q_memory, group).div_(size)
        for (batch, parts), p, q in zip(batches, ps, qs):
            corten.bmm(p, q.transpose(1, 2), out=batch)
            for part, result in zip(parts or (), batch):
                part.copy_(result)
        state._keep(key, wanted, flat, bucket)
        return flat

    return Steps(first, narrow_rounds)


def batched_powerSGD_hook(state, bucket):
    """As :func:`powerSGD_hook`, with the whole bucket as one square matrix: faster, less exact."""
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    size, flat, key = group.size(), bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default._allreduce_fut(group, flat)
    total = flat.shape[0]
    side = math.ceil(math.sqrt(total))
    state.total_numel_before_compression += total
    state.total_numel_after_compression += side * state.matrix_approximation_rank * 2
    padded = flat.new_zeros(side * side)
    padded[:total].copy_(flat)
    _report_compression_stats(bucket, state)
    wanted = state._with_error(key, padded)
    matrix = padded.view(side, side)
    if not state.warm_start or key not in state.p_memory_dict:
        state.p_memory_dict[key] = flat.new_empty(side, state.matrix_approximation_rank)
        state.q_memory_dict[key] = flat.new_empty(side, state.matrix_approximation_rank)
        state._fill_with_random_numbers([state.q_memory_dict[key]])
    p, q = state.p_memory_dict[key], state.q_memory_dict[key]
    _orthogonalize(q.unsqueeze(0))
    corten.matmul(matrix, q, out=p)
    first = dist.all_reduce(p, group=group, async_op=True).get_future()

    def second_round(_):
        _orthogonalize(p.unsqueeze(0))
        corten.matmul(matrix.t(), p, out=q)
        _sum(q, group).div_(size)
        corten.matmul(p, q.t(), out=matrix)
        flat.copy_(padded[:total])
        state._keep(key, wanted, padded, bucket)
        return flat

    return Steps(first, second_round)
