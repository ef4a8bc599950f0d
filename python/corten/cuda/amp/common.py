"""Whether automatic casts on GPUs can be."""

from importlib.util import find_spec

from corten import cuda

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available():
    """Whether there is neither a GPU nor a TPU."""
    return not (cuda.is_available() or find_spec("torch_xla"))
