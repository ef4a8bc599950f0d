"""Pipelines: models cut into stages, which run microbatches in different processes at the same time."""

from ._IR import Pipe, SplitPoint, pipe_split, pipeline
from ._zero_bubble import ScheduleDualPipeV, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble
from .schedules import (
    Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS,
)
from .stage import PipelineStage, build_stage

__all__ = [
    "Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "build_stage",
    "pipe_split", "pipeline",
]
