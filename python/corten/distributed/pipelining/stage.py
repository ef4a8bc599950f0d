"""One stage of a pipeline: a module that gets its inputs from the stage before it."""

from __future__ import annotations

import contextlib

import corten
import corten.distributed as dist
from corten import nn
from corten.distributed.fsdp import FSDPModule
from corten.utils._pytree import tree_map_only

__all__ = ["PipelineStage"]


def as_tuple(output):
    """What a module gave as a tuple."""
    return tuple(output) if isinstance(output, (tuple, list)) else (output,)


def _example(value):
    """Examples of tensors as a tuple, or nothing."""
    if value is None:
        return None
    return tree_map_only(corten.Tensor, lambda tensor: tensor.to("meta"), as_tuple(value))


class _PipelineStageBase:
    """What schedules need of a stage."""

    def __init__(self, submodule, stage_index, num_stages, device, group=None):
        if stage_index >= num_stages:
            raise ValueError(
                f"Stage index {stage_index} is out of range of {num_stages}"
            )
        self.submod = submodule
        self.stage_index, self.num_stages = stage_index, num_stages
        self.device = corten.device(device)
        self.group = group
        self.group_rank, self.group_size = dist.get_rank(group), dist.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        #: The rank in the group of each stage's process.
        self.stage_index_to_group_rank = {i: i % self.group_size for i in range(num_stages)}
        self.has_backward = False
        self._chunks = {}

    @property
    def is_first(self):
        """Whether inputs are those of the program."""
        return self.stage_index == 0

    @property
    def is_last(self):
        """Whether outputs are those of the pipeline."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self):
        """Forgets what is kept between forward and backward."""
        self._chunks.clear()

    def forward_one_chunk(self, fwd_chunk_id, args, kwargs=None):
        """Runs the module for a microbatch.

        Args:
            fwd_chunk_id: The number of the microbatch.
            args: Its inputs.
            kwargs: Its keyword arguments.

        Returns:
            What the module gave.
        """
        kwargs = kwargs or {}
        try:
            with self._sync_context(False):
                output = self.submod(*args, **kwargs)
        except Exception as error:
            shapes = [tuple(arg.shape) for arg in args if isinstance(arg, corten.Tensor)]
            raise RuntimeError(
                f"[Stage {self.stage_index}] failed to run forward of microbatch {fwd_chunk_id} "
                f"with inputs of the shapes {shapes}: {error}"
            ) from error
        self._chunks[fwd_chunk_id] = (args, as_tuple(output))
        return output

    def _sync_context(self, last):
        """Whether gradients are reduced over processes: after the last microbatch."""
        if isinstance(self.submod, nn.parallel.DistributedDataParallel) and not last:
            return self.submod.no_sync()
        if isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    def backward_one_chunk(self, bwd_chunk_id, output_grads, scale=None, last_backward=False):
        """Runs backward of a microbatch.

        Args:
            bwd_chunk_id: The number of the microbatch.
            output_grads: The gradients of those outputs that need one; for the last stage its loss.
            scale: What the loss is multiplied by.
            last_backward: Whether it is the last one of the step.

        Returns:
            For each input that needs a gradient, the gradient.
        """
        args, outputs = self._chunks.pop(bwd_chunk_id)
        with self._sync_context(last_backward):
            if self.is_last:
                (loss,) = output_grads
                seed = None if scale is None else corten.full_like(loss, scale)
                corten.autograd.backward(loss, seed)
            else:
                needing = tensors_needing_grad(outputs)
                if needing:
                    corten.autograd.backward(needing, list(output_grads))
        inputs = () if self.is_first else tensors_needing_grad(args)
        return [
            corten.zeros_like(value) if value.grad is None else value.grad for value in inputs
        ]

    def outputs_of(self, chunk_id):
        """The outputs of a microbatch whose backward has not run."""
        return self._chunks[chunk_id][1]


def tensors_needing_grad(values):
    """The tensors of a tuple that need a gradient."""
    return [value for value in values if isinstance(value, corten.Tensor) and value.requires_grad]


class PipelineStage(_PipelineStageBase):
    """A module as a stage of a pipeline.

    Inputs and outputs of stages are tensors, or tuples of them; shapes are told to the next stage with the
    first microbatch of each step.

    Args:
        submodule: The module.
        stage_index: The number of the stage.
        num_stages: How many there are.
        device: Where the module is.
        input_args: An example of its inputs; they are checked against it.
        output_args: An example of its outputs; they are checked against it.
        output_grads, input_grads: Examples of gradients, whose shapes are those of the values.
        group: The processes of the pipeline; by default all.
        dw_builder: What schedules that split backward need, which are not here.

    Raises:
        ValueError: ``stage_index`` is not below ``num_stages``.
        RuntimeError: There are more processes than stages.
        NotImplementedError: ``dw_builder`` is given.
    """

    def __init__(
        self, submodule, stage_index, num_stages, device, input_args=None, output_args=None,
        output_grads=None, input_grads=None, group=None, dw_builder=None,
    ):
        super().__init__(submodule, stage_index, num_stages, device, group)
        if dw_builder is not None:
            raise NotImplementedError("PipelineStage: dw_builder, as no schedule here splits backward")
        self.input_args, self.output_args = _example(input_args), _example(output_args)

    def forward_one_chunk(self, fwd_chunk_id, args, kwargs=None):
        self._check("input", self.input_args, args)
        output = super().forward_one_chunk(fwd_chunk_id, args, kwargs)
        self._check("output", self.output_args, as_tuple(output))
        return output

    def _check(self, kind, expected, given):
        if expected is None:
            return
        if len(expected) != len(given):
            raise ValueError(
                f"Stage {self.stage_index} {kind}: expected {len(expected)} values, got {len(given)}"
            )
        for i, (one, other) in enumerate(zip(expected, given)):
            if isinstance(one, corten.Tensor) and (
                one.shape != other.shape or one.dtype != other.dtype
            ):
                raise ValueError(
                    f"Stage {self.stage_index} {kind} {i}: expected {one.dtype} {list(one.shape)}, "
                    f"got {other.dtype} {list(other.shape)}"
                )
