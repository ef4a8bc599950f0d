"""Parts of the loader."""

from __future__ import annotations

from . import channel, collate, fetch, pin_memory, pool, worker  # noqa: F401
