"""One stage of a pipeline: a module that gets its inputs from the stage before it."""

from __future__ import annotations

import contextlib
import functools

import corten
import corten.distributed as dist
from corten import nn
from corten.distributed.fsdp import FSDPModule
from corten.utils._pytree import tree_map_only

from ._backward import SplitBackward

__all__ = ["PipelineStage", "build_stage"]


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
        self._chunks, self._weights_left = {}, {}
        self._dw_builder = None

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
        self._weights_left.clear()

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
        needing, grads = self._roots(outputs, output_grads, scale)
        with self._sync_context(last_backward):
            if needing:
                corten.autograd.backward(needing, grads)
        inputs = () if self.is_first else tensors_needing_grad(args)
        return [
            corten.zeros_like(value) if value.grad is None else value.grad for value in inputs
        ]

    def _roots(self, outputs, output_grads, scale):
        """The tensors that backward begins with, and their gradients."""
        if not self.is_last:
            return tensors_needing_grad(outputs), list(output_grads)
        (loss,) = output_grads
        return [loss], [corten.full_like(loss, 1.0 if scale is None else scale)]

    def backward_input_one_chunk(self, bwd_chunk_id, output_grads, scale=None):
        """As :meth:`backward_one_chunk`, but leaves the gradients of the weights to
        :meth:`backward_weight_one_chunk`.

        Raises:
            NotImplementedError: The module is sharded, or wrapped for data parallelism, and this is not the first
                stage.
        """
        if self._dw_builder is not None:
            grads = self.backward_one_chunk(bwd_chunk_id, output_grads, scale)
            self._weights_left[bwd_chunk_id] = self._dw_builder()
            return grads
        if self.is_first:
            # Nobody waits for what it gives.
            self._weights_left[bwd_chunk_id] = functools.partial(
                self.backward_one_chunk, bwd_chunk_id, output_grads, scale
            )
            return []
        if isinstance(self.submod, (nn.parallel.DistributedDataParallel, FSDPModule)):
            raise NotImplementedError(
                f"Stage {self.stage_index}: schedules that split backward cannot run a {type(self.submod).__name__}, "
                "which sends gradients during it; use Schedule1F1B or ScheduleInterleaved1F1B"
            )
        args, outputs = self._chunks.pop(bwd_chunk_id)
        needing, grads = self._roots(outputs, output_grads, scale)
        inputs = tensors_needing_grad(args)
        if not needing:
            return [corten.zeros_like(value) for value in inputs]
        split = SplitBackward(needing, grads, inputs)
        self._weights_left[bwd_chunk_id] = split.finish
        return [
            corten.zeros_like(value) if grad is None else grad for value, grad in zip(inputs, split.input_grads)
        ]

    def backward_weight_one_chunk(self, bwd_chunk_id, last_backward=False):
        """Adds up the gradients of the weights of a microbatch.

        Args:
            bwd_chunk_id: The number of the microbatch.
            last_backward: Whether it is the last one of the step.
        """
        run = self._weights_left.pop(bwd_chunk_id, None)
        if isinstance(run, functools.partial) and self.is_first:
            run(last_backward=last_backward)
        elif run is not None:
            run()

    def outputs_of(self, chunk_id):
        """The outputs of a microbatch whose backward has not run."""
        return self._chunks[chunk_id][1]


def tensors_needing_grad(values):
    """The tensors of a tuple that need a gradient."""
    return [value for value in values if isinstance(value, corten.Tensor) and value.requires_grad]


class _PipelineStage(_PipelineStageBase):
    """A stage of a model that was cut by tracing it.

    Args:
        stage_module: The module of the stage, which is moved to ``device``.
        stage_index: The number of the stage.
        pipe_info: What is known of the pipeline.
        device: Where it runs.
        group: The processes of the pipeline; by default all.
    """

    def __init__(self, stage_module, stage_index, pipe_info, device, group=None):
        super().__init__(stage_module, stage_index, pipe_info.num_stages, device, group)
        self.pipe_info = pipe_info
        self.submod.to(self.device)


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """A stage for schedules, of a model that was cut by tracing it; see :meth:`Pipe.build_stage`."""
    return _PipelineStage(stage_module, stage_index, pipe_info, device, group)


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
        dw_builder: For modules that leave the gradients of their weights for later themselves: called after each
            backward of a schedule that splits it, it gives a function that computes them.

    Raises:
        ValueError: ``stage_index`` is not below ``num_stages``.
        RuntimeError: There are more processes than stages.
    """

    def __init__(
        self, submodule, stage_index, num_stages, device, input_args=None, output_args=None,
        output_grads=None, input_grads=None, group=None, dw_builder=None,
    ):
        super().__init__(submodule, stage_index, num_stages, device, group)
        self._dw_builder = dw_builder
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
