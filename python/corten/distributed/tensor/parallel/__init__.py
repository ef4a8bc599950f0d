"""Modules whose parameters and activations are distributed tensors: tensor and sequence parallelism."""

from corten.distributed.tensor.parallel.api import parallelize_module
from corten.distributed.tensor.parallel.loss import loss_parallel
from corten.distributed.tensor.parallel.style import (
    ColwiseParallel, ParallelStyle, PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput, RowwiseParallel,
    SequenceParallel,
)

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
           "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel", "parallelize_module"]
