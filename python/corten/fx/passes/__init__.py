"""Passes over graphs."""

from __future__ import annotations

from . import infra, shape_prop, split_module  # noqa: F401
