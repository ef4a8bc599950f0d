"""Passes over graphs."""

from __future__ import annotations

from . import (  # noqa: F401
    fake_tensor_prop, graph_drawer, graph_manipulation, infra, operator_support, shape_prop, split_module, tools_common,
    utils,
)
