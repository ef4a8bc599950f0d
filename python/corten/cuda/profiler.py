"""NVIDIA's profiler, which needs a GPU."""

from __future__ import annotations

from corten.cuda import _needs_gpu

__all__ = ["init", "profile", "start", "stop"]

init = _needs_gpu("init", "Sets the profiler up.")
start = _needs_gpu("start", "Starts collecting.")
stop = _needs_gpu("stop", "Stops collecting.")
profile = _needs_gpu("profile", "Collects while a block runs.")
