"""Collectives with gradients, and modules of other processes (absent: there is no RPC)."""

from __future__ import annotations

from corten.distributed.nn.functional import *  # noqa: F403
from corten.distributed.nn.functional import __all__ as __all__
