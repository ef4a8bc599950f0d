"""Schedules that split backward, so that the gradients of weights fill what were bubbles (Qi et al., Zero Bubble
Pipeline Parallelism; DeepSeek-AI, DualPipe)."""

from __future__ import annotations

from collections import defaultdict, deque

from .schedules import PipelineScheduleMulti, ScheduleInterleaved1F1B, _Action, _ComputationType

__all__ = ["ScheduleDualPipeV", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble"]

FORWARD, FULL = _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD
INPUT, WEIGHT = _ComputationType.BACKWARD_INPUT, _ComputationType.BACKWARD_WEIGHT


class ScheduleInterleavedZeroBubble(ScheduleInterleaved1F1B):
    """:class:`ScheduleInterleaved1F1B` with the gradients of weights later, the more so the later the stage (ZB1P of
    Qi et al.)."""

    def _calculate_single_rank_operations(self, rank):
        local, size = self._n_local_stages, self.pp_group_size
        total = local * self._n_microbatches
        ahead = min(total, (local - 1) * self.microbatches_per_round + size - 1 - rank)
        counts = defaultdict(int)

        def action(kind, i):
            place = (i // self.microbatches_per_round) % local
            place = place if kind is FORWARD else local - 1 - place
            stage = place * size + rank
            counts[kind, stage] += 1
            return _Action(stage, kind, counts[kind, stage] - 1)

        actions, left = [action(FORWARD, i) for i in range(ahead)], deque()
        for i in range(total):
            if ahead + i < total:
                actions.append(action(FORWARD, ahead + i))
            actions.append(action(INPUT, i))
            left.append(actions[-1]._replace(computation_type=WEIGHT))
            if len(left) > rank:
                actions.append(left.popleft())
        return actions + list(left)


class _VSchedule(PipelineScheduleMulti):
    """The base of schedules with two stages in each process, of which the second one is as far from the end as the
    first one is from the beginning."""

    def __init__(
        self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
        output_merge_spec=None, scale_grads=True,
    ):
        size = stages[0].group_size
        if len(stages) != 2 or stages[0].num_stages != 2 * size:
            raise ValueError(
                f"{type(self).__name__} requires exactly 2 stages per rank, but got {len(stages)} of "
                f"{stages[0].num_stages} for {size} ranks."
            )
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
            scale_grads=scale_grads,
        )

    def _owner_of_stages(self, stage):
        count, size = stage.num_stages, stage.group_size
        owner = {i: i if i < size else count - 1 - i for i in range(count)}
        for one in self._stages.values():
            one.stage_index_to_group_rank = owner
        return owner


class _VActions:
    """Actions of a process with two stages: each kind of each stage takes the microbatches in order."""

    def __init__(self, rank, num_stages):
        self._stages = rank, num_stages - 1 - rank
        self.actions, self.counts, self._left = [], defaultdict(int), deque()

    def add(self, kind, place):
        """Adds the next microbatch of the first or second stage. Gradients of weights are those that are left
        longest."""
        if kind is WEIGHT:
            self.actions.append(self._left.popleft())
            return
        stage = self._stages[place]
        chunk = self.counts[kind is FORWARD, place]
        self.counts[kind is FORWARD, place] += 1
        self.actions.append(_Action(stage, kind, chunk))
        if kind is INPUT:
            self._left.append(_Action(stage, WEIGHT, chunk))

    def flush(self):
        """Adds all gradients of weights that are left."""
        while self._left:
            self.add(WEIGHT, None)


class ScheduleZBVZeroBubble(_VSchedule):
    """ZB-V of Qi et al.: no bubbles where forward and both parts of backward take as long as each other."""

    def _calculate_single_rank_operations(self, rank):
        size, made = self.pp_group_size, _VActions(rank, self._num_stages)
        count = max(2 * size - 1, self._n_microbatches)
        for _ in range(2 * (size - rank) - 1):
            made.add(FORWARD, 0)
        for _ in range(rank):
            made.add(FORWARD, 1)
            made.add(FORWARD, 0)
        for _ in range(size - rank):
            made.add(FORWARD, 1)
            made.add(INPUT, 1)
            made.add(WEIGHT, 1)
        while made.counts[True, 1] < made.counts[True, 0] or made.counts[True, 0] < count:
            if made.counts[True, 0] < count:
                made.add(FORWARD, 0)
            made.add(INPUT, 0)
            made.add(WEIGHT, 0)
            made.add(FORWARD, 1)
            made.add(INPUT, 1)
            made.add(WEIGHT, 1)
        for _ in range(rank):
            made.add(INPUT, 0)
            made.add(INPUT, 1)
        for _ in range(size - rank):
            made.add(INPUT, 0)
            made.add(WEIGHT, 0)
        made.flush()
        return [action for action in made.actions if action.microbatch_index < self._n_microbatches]


class ScheduleDualPipeV(_VSchedule):
    """DualPipeV of DeepSeek-AI: forward of one stage and backward of the other by turns."""

    def __init__(self, stages, n_microbatches, *args, **kwargs):
        if n_microbatches < stages[0].num_stages:
            raise ValueError(
                f"DualPipeV requires at least as many microbatches as stages, but got {n_microbatches} microbatches "
                f"for {stages[0].num_stages} stages."
            )
        super().__init__(stages, n_microbatches, *args, **kwargs)

    def _calculate_single_rank_operations(self, rank):
        size, made = self.pp_group_size, _VActions(rank, self._num_stages)
        after = size - rank - 1

        def repeat(times, *pairs):
            for _ in range(times):
                for kind, place in pairs:
                    made.add(kind, place)

        repeat(2 * after, (FORWARD, 0))
        repeat(rank + 1, (FORWARD, 0), (FORWARD, 1))
        repeat(after, (INPUT, 1), (WEIGHT, 1), (FORWARD, 1))
        repeat(
            self._n_microbatches - 2 * size + rank + 1, (FORWARD, 0), (FULL, 1), (FORWARD, 1), (FULL, 0)
        )
        repeat(after, (FULL, 1), (FORWARD, 1), (FULL, 0))
        half = (rank + 1) // 2
        repeat(half, (FULL, 1), (FULL, 0))
        if rank % 2 == 0:
            repeat(1, (FULL, 1), (INPUT, 0))
        repeat(rank + 1 - half - (rank % 2 == 0), (INPUT, 1), (INPUT, 0))
        repeat(after, (WEIGHT, 0), (INPUT, 0))
        made.flush()
        return made.actions
