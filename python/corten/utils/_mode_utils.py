"""Blocks in which modes are not in force."""

from __future__ import annotations

import corten

__all__ = ["all_same_mode", "no_dispatch"]


def no_dispatch():
    """A block in which calls pass modes and classes of tensors by."""
    return corten._C._DisableTorchDispatch()


def all_same_mode(modes):
    """Whether all of some modes are one."""
    return all(mode is modes[0] for mode in modes)


