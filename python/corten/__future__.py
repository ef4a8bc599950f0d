"""Behaviours that will change, and their switches."""

from __future__ import annotations

_overwrite = _swap = False


def set_overwrite_module_params_on_conversion(value):
    """Whether conversions of modules make new parameters; tensors change their data here."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion():
    """What was set."""
    return _overwrite


def set_swap_module_params_on_conversion(value):
    """Whether conversions of modules swap tensors; tensors change their data here."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion():
    """What was set."""
    return _swap
