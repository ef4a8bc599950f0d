"""The order in which stages run microbatches forward and backward.

Note [Schedules]: a schedule is the list of actions of every process. One runner does them: an action gets what
it needs from the stages beside it, runs, and sends what it gave together with the receive of the next action.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import NamedTuple, Optional

import corten

from ._exchange import Exchange
from .microbatch import merge_chunks, split_args_kwargs_into_chunks
from .stage import as_tuple

__all__ = [
    "get_schedule_class", "PipelineScheduleSingle", "PipelineScheduleMulti", "Schedule1F1B",
    "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS", "ScheduleZBVZeroBubble",
]


class _ComputationType(str, Enum):
    """What an action does."""

    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    WAIT_SEND_F = "WAIT_SEND_F"
    WAIT_SEND_B = "WAIT_SEND_B"
    FULL_BACKWARD = "B"
    OVERLAP_F_B = "OVERLAP_F_B"
    REDUCE_GRAD = "REDUCE_GRAD"
    WAIT_REDUCE_GRAD = "WAIT_REDUCE_GRAD"

    def __str__(self):
        return self.value


globals().update(_ComputationType.__members__)
F, B = FORWARD, FULL_BACKWARD = _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD
I, W = _ComputationType.BACKWARD_INPUT, _ComputationType.BACKWARD_WEIGHT  # noqa: E741


class _Action(NamedTuple):
    """A stage runs a microbatch."""

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: Optional[int] = None

    def __str__(self):
        return f"{self.stage_index}{self.computation_type}{self.microbatch_index}"

    __repr__ = __str__


class _PipelineSchedule:
    """What all schedules have in common.

    Args:
        stages: The stages of this process.
        n_microbatches: How many microbatches a batch is cut into.
        loss_fn: The loss of the last stage's output and the target, of a microbatch. Without it there is no
            backward.
        args_chunk_spec, kwargs_chunk_spec: How arguments are cut; see :class:`TensorChunkSpec`.
        output_merge_spec: How outputs are put together.
        scale_grads: Gradients are those of the mean of the microbatches' losses, not of the sum.
    """

    def __init__(
        self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
        output_merge_spec=None, scale_grads=True,
    ):
        self._n_microbatches, self._loss_fn, self._loss_kwargs = n_microbatches, loss_fn, {}
        self.scale_grads = scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._has_backward = loss_fn is not None
        self._stages = {stage.stage_index: stage for stage in stages}
        first = stages[0]
        self._num_stages, self.pp_group_size = first.num_stages, first.group_size
        self.rank, self._owner = first.group_rank, self._owner_of_stages(first)
        for stage in stages:
            stage.has_backward = self._has_backward
            if self._owner[stage.stage_index] != self.rank:
                raise ValueError(
                    f"Stage {stage.stage_index} belongs to rank {self._owner[stage.stage_index]} of the group, "
                    f"not to rank {self.rank}"
                )
        #: The actions of every process.
        self.pipeline_order = {
            rank: self._calculate_single_rank_operations(rank) for rank in range(self.pp_group_size)
        }

    def _owner_of_stages(self, stage):
        """The rank of each stage's process."""
        return stage.stage_index_to_group_rank

    def _calculate_single_rank_operations(self, rank):
        """The actions of a process, in order."""
        raise NotImplementedError

    def step(
        self, *args, target=None, losses=None, return_outputs=True, loss_kwargs=None, arg_mbs=None,
        kwarg_mbs=None, target_mbs=None, **kwargs,
    ):
        """Runs a batch forward and, if there is a loss, backward; all processes call this.

        Args:
            *args: The inputs, in the process of the first stage.
            target: What the loss compares with, in the process of the last stage.
            losses: A list, which gets the loss of each microbatch there.
            return_outputs: Whether to put the outputs together.
            loss_kwargs: Keyword arguments of the loss.
            arg_mbs, kwarg_mbs, target_mbs: The same as lists of microbatches, in place of what is to be cut.
            **kwargs: Keyword arguments of this process's stages.

        Returns:
            The outputs of the batch in the process of the last stage; elsewhere nothing.

        Raises:
            ValueError: The batch has fewer samples than there are microbatches.
        """
        if self._has_backward and not corten.is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; "
                "it should not be used under torch.no_grad() context. Please call eval() instead."
            )
        self._loss_kwargs = loss_kwargs or {}
        batches = self._split(args, kwargs, target, arg_mbs, kwarg_mbs, target_mbs)
        return self._run(batches, losses, return_outputs, self._has_backward)

    def eval(
        self, *args, target=None, losses=None, arg_mbs=None, kwarg_mbs=None, target_mbs=None, **kwargs
    ):
        """As :meth:`step`, forward alone, without gradients."""
        self._loss_kwargs = {}
        with corten.no_grad():
            batches = self._split(args, kwargs, target, arg_mbs, kwarg_mbs, target_mbs)
            return self._run(batches, losses, True, False)

    def _split(self, args, kwargs, target, arg_mbs, kwarg_mbs, target_mbs):
        """The microbatches of inputs, keyword arguments and targets."""
        args_split, kwargs_split = self._split_inputs(args, kwargs)
        if target is not None:
            target_mbs = list(corten.tensor_split(target, self._n_microbatches))
        given = [
            ("arg_mbs", arg_mbs, args_split), ("kwarg_mbs", kwarg_mbs, kwargs_split),
            ("target_mbs", target_mbs, None),
        ]
        for name, batches, _ in given:
            if batches is None:
                continue
            if not isinstance(batches, list):
                raise TypeError(f"{name} must be a list but got a {type(batches)}")
            if len(batches) != self._n_microbatches:
                raise ValueError(f"Expecting {self._n_microbatches} {name} but got {len(batches)}")
        return [split if batches is None else batches for _, batches, split in given]

    def _run(self, batches, losses, return_outputs, training):
        args_mbs, kwargs_mbs, target_mbs = batches
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        for stage in self._stages.values():
            stage.clear_runtime_states()
        outputs, found = self._run_actions(args_mbs, kwargs_mbs, target_mbs, training)
        if losses is not None and found:
            losses[:] = [found[i] for i in sorted(found)]
        if self._num_stages - 1 in self._stages and return_outputs:
            return merge_chunks([outputs[i] for i in sorted(outputs)], self._output_merge_spec)
        return None

    def _split_inputs(self, args, kwargs):
        count = self._n_microbatches
        if not args and not kwargs:
            return [()] * count, [{}] * count
        split = split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec
        )
        if len(split[0]) != count:
            raise ValueError(f"Expecting {count} arg_mbs but got {len(split[0])}")
        return split

    def _run_actions(self, args_mbs, kwargs_mbs, target_mbs, training):
        """Does the actions of this process: outputs and losses of the last stage by microbatch."""
        order = {
            rank: [
                (action.computation_type.value, action.stage_index, action.microbatch_index)
                for action in actions
                if action is not None and (training or action.computation_type is FORWARD)
            ]
            for rank, actions in self.pipeline_order.items()
        }
        mine = order[self.rank]
        exchange = Exchange(self._stages, {rank: _sending(actions) for rank, actions in order.items()}, self._owner)
        outputs, losses, left = {}, {}, defaultdict(lambda: self._n_microbatches)
        for i, (kind, number, chunk) in enumerate(mine):
            stage = self._stages[number]
            if kind == "F":
                args = args_mbs[chunk] if stage.is_first else exchange.receive(kind, number, chunk)
                output = stage.forward_one_chunk(chunk, tuple(args), kwargs_mbs[chunk])
                sent = as_tuple(output)
                if stage.is_last:
                    outputs[chunk] = output
                    if self._loss_fn is not None and target_mbs is not None:
                        losses[chunk] = self._loss_fn(output, target_mbs[chunk], **self._loss_kwargs)
            else:
                left[number] -= kind != "I"
                sent = self._backward(exchange, stage, kind, chunk, losses, left[number] == 0)
            if kind != "W":
                following = next(iter(_sending(mine[i + 1:])), None)
                exchange.post(exchange.send("F" if kind == "F" else "B", number, chunk, sent), following)
        exchange.finish()
        if training:
            # Losses are given to the caller; their graphs are used up.
            losses = {chunk: loss.detach() for chunk, loss in losses.items()}
        return outputs, losses

    def _backward(self, exchange, stage, kind, chunk, losses, is_last):
        """Runs backward, or its part for the inputs or for the weights; gives what is sent."""
        if kind == "W":
            stage.backward_weight_one_chunk(chunk, is_last)
            return []
        scale = None
        if not stage.is_last:
            grads = exchange.receive("B", stage.stage_index, chunk)
        elif chunk in losses:
            grads, scale = (losses[chunk],), 1.0 / self._n_microbatches if self.scale_grads else None
        else:
            raise RuntimeError(
                f"Stage {stage.stage_index}: the loss needs a target, which step() was not given"
            )
        if kind == "I":
            return stage.backward_input_one_chunk(chunk, grads, scale)
        return stage.backward_one_chunk(chunk, grads, scale, is_last)


def _sending(actions):
    """The actions that send something; the gradients of inputs are what backward sends."""
    return [("F" if kind == "F" else "B", stage, chunk) for kind, stage, chunk in actions if kind != "W"]


class PipelineScheduleSingle(_PipelineSchedule):
    """The base of schedules with one stage in each process.

    Args:
        stage: This process's stage; for the others see :class:`_PipelineSchedule`.

    Raises:
        ValueError: There are not as many stages as processes.
    """

    def __init__(
        self, stage, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
        output_merge_spec=None, scale_grads=True,
    ):
        if stage.num_stages != stage.group_size:
            raise ValueError(
                f"Number of stages ({stage.num_stages}) must be equal to the group size "
                f"({stage.group_size}) for single-stage schedules"
            )
        self._stage = stage
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
            scale_grads,
        )


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forward, then all backward."""

    def _calculate_single_rank_operations(self, rank):
        chunks = range(self._n_microbatches)
        return [_Action(rank, kind, i) for kind in (FORWARD, FULL_BACKWARD) for i in chunks]


class Schedule1F1B(PipelineScheduleSingle):
    """Forward and backward by turns, so that a stage keeps at most as many microbatches as stages follow."""

    def _calculate_single_rank_operations(self, rank):
        count = self._n_microbatches
        ahead = min(count, self._num_stages - rank - 1)
        actions = [_Action(rank, FORWARD, i) for i in range(ahead)]
        for i in range(count):
            if ahead + i < count:
                actions.append(_Action(rank, FORWARD, ahead + i))
            actions.append(_Action(rank, FULL_BACKWARD, i))
        return actions


class PipelineScheduleMulti(_PipelineSchedule):
    """The base of schedules with several stages in each process.

    Args:
        stages: This process's stages; for the others see :class:`_PipelineSchedule`.

    Raises:
        ValueError: There are fewer stages than processes.
    """

    def __init__(
        self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
        output_merge_spec=None, use_full_backward=None, scale_grads=True,
    ):
        if stages[0].num_stages <= 1:
            raise ValueError(
                f"Multi-stage schedule expects at least two stages but got {stages[0].num_stages}"
            )
        self._n_local_stages = len(stages)
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
            scale_grads,
        )


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Each stage of a process runs all microbatches before the next one does."""

    def __init__(self, stages, n_microbatches, loss_fn=None, output_merge_spec=None, scale_grads=True):
        super().__init__(
            stages, n_microbatches, loss_fn, output_merge_spec=output_merge_spec, scale_grads=scale_grads
        )

    def _calculate_single_rank_operations(self, rank):
        stages = range(rank, self._num_stages, self.pp_group_size)
        chunks = range(self._n_microbatches)
        forward = [_Action(stage, FORWARD, i) for stage in stages for i in chunks]
        backward = [
            _Action(stage, FULL_BACKWARD, i) for stage in reversed(stages) for i in reversed(chunks)
        ]
        return forward + backward


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """Forward and backward by turns, with several stages in each process that take rounds of microbatches
    (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, 2.2)."""

    def __init__(
        self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None,
        output_merge_spec=None, scale_grads=True,
    ):
        size = stages[0].group_size
        self.number_of_rounds = max(1, n_microbatches // size)
        self.microbatches_per_round = n_microbatches // self.number_of_rounds
        if n_microbatches % self.number_of_rounds:
            raise ValueError(
                "Interleaved 1F1B requires the number of microbatches to be a multiple of the number of "
                f"rounds ({self.number_of_rounds}), but got {n_microbatches}."
            )
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
            scale_grads=scale_grads,
        )

    def _calculate_single_rank_operations(self, rank):
        local, size = self._n_local_stages, self.pp_group_size
        per_round = self.microbatches_per_round
        total = local * self._n_microbatches
        ahead = min(total, (local - 1) * per_round + 2 * (size - 1 - rank))
        counts = defaultdict(int)

        def action(kind, i):
            place = (i // per_round) % local
            place = place if kind is FORWARD else local - 1 - place
            stage = place * size + rank
            counts[kind, stage] += 1
            return _Action(stage, kind, counts[kind, stage] - 1)

        actions = [action(FORWARD, i) for i in range(ahead)]
        for i in range(total):
            if ahead + i < total:
                actions.append(action(FORWARD, ahead + i))
            actions.append(action(FULL_BACKWARD, i))
        return actions


def get_schedule_class(schedule_name):
    """The class of a schedule, whose name may be in any case.

    Raises:
        ValueError: There is none of that name.
    """
    from . import _zero_bubble as zero_bubble

    known = {
        "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
        "LoopedBFS": ScheduleLoopedBFS, "InterleavedZeroBubble": zero_bubble.ScheduleInterleavedZeroBubble,
        "ZBVZeroBubble": zero_bubble.ScheduleZBVZeroBubble, "DualPipeV": zero_bubble.ScheduleDualPipeV,
        "PipelineScheduleSingle": PipelineScheduleSingle,
        "PipelineScheduleMulti": PipelineScheduleMulti,
    }
    for name, cls in known.items():
        if name.lower() == schedule_name.lower():
            return cls
    raise ValueError(
        f"Unknown schedule name '{schedule_name}'. The valid options are {list(known)}"
    )


def __getattr__(name):
    if name in ("ScheduleDualPipeV", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble"):
        from . import _zero_bubble

        return getattr(_zero_bubble, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
