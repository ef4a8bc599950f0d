"""Ranks of tests of distributed tensors: threads of one process."""

from __future__ import annotations

import importlib

from module_under_test import torch

common = importlib.import_module(f"{torch.__name__}.testing._internal.common_distributed")


def run_ranks(count, function):
    """What a function of no arguments gives on so many ranks."""
    return common.run_threads(count, function, timeout=300)
