"""Parts of the loader."""

from __future__ import annotations

from . import collate, fetch, pin_memory, worker  # noqa: F401
