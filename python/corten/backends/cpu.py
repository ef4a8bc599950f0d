"""The host's vector instructions."""

__all__ = ["get_cpu_capability"]


def get_cpu_capability():
    """The instruction set that kernels use."""
    from corten import _C

    return _C._cpu_capability()
