"""The profiler, where older programs look for it."""

from corten.profiler import (  # noqa: F401
    ProfilerAction, profile, schedule, supported_activities, tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction", "profile", "schedule", "supported_activities", "tensorboard_trace_handler",
]


def _default_schedule_fn(_):
    """Records every step."""
    return ProfilerAction.RECORD
