"""Questions about compilation."""

from __future__ import annotations

import collections

__all__ = ["counters"]

#: How often what happened, by kind.
counters = collections.defaultdict(collections.Counter)


def is_compile_supported(device_type):
    """Whether functions on a device can be compiled: those on others than the host run as they are."""
    return str(device_type).partition(":")[0] == "cpu"
