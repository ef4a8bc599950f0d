"""Passes over graphs."""

from __future__ import annotations

from . import shape_prop  # noqa: F401
