"""Whether kernels can be written in Triton: they cannot."""

from __future__ import annotations


def has_triton_package():
    """Whether Triton could compile kernels for tensors of this package."""
    return False


def has_triton():
    """Whether kernels written in Triton can be launched."""
    return False


def has_triton_tma():
    """Whether such kernels could use the tensor memory accelerator."""
    return False


def has_triton_tma_device():
    """Whether such kernels could make descriptors of it."""
    return False


def has_triton_stable_tma_api():
    """Whether such kernels could make descriptors by the stable interface."""
    return False
