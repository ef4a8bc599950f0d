"""Starting the processes of a program from Python."""

from __future__ import annotations

from corten.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
