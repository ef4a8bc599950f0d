"""What passes share."""

from __future__ import annotations

from .common import HolderModule, compare_graphs, lift_subgraph_as_module  # noqa: F401
