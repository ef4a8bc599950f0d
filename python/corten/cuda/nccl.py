"""Collective operations of one process by NCCL. Only its version can be asked for; the others are not called."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from corten import _C

__all__ = ["all_gather", "all_reduce", "broadcast", "init_rank", "is_available", "reduce",
           "reduce_scatter", "unique_id", "version"]

#: The number of the sum among NCCL's reductions.
SUM = 0


def is_available(tensors):
    """Whether NCCL takes the tensors: never, since it is not called."""
    if any(tensor.is_cuda for tensor in tensors):
        warnings.warn("PyTorch is not compiled with NCCL support", stacklevel=2)
    return False


def _absent(name, doc):
    def function(*args, **kwargs):
        raise NotImplementedError(f"torch.cuda.nccl.{name}: this build does not call NCCL")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def version():
    """The version of the NCCL that is installed: ``(major, minor, patch)``.

    Raises:
        RuntimeError: There is none; `pip install nvidia-nccl-cu13` brings it.
    """
    if not hasattr(_C, "_dist_nccl_version"):
        raise NotImplementedError("torch.cuda.nccl.version: NCCL is not loaded on this system")
    packages = [Path(entry, "nvidia", "nccl", "lib") for entry in sys.path]
    return tuple(_C._dist_nccl_version([str(folder) for folder in packages if folder.is_dir()]))


unique_id = _absent("unique_id", "A name for a group of processes.")
init_rank = _absent("init_rank", "Joins a group of processes.")
all_reduce = _absent("all_reduce", "Sums of all devices' tensors, on all of them.")
reduce = _absent("reduce", "Sums of all devices' tensors, on one of them.")
broadcast = _absent("broadcast", "A tensor of one device on all of them.")
all_gather = _absent("all_gather", "All devices' tensors, on all of them.")
reduce_scatter = _absent("reduce_scatter", "Sums of all devices' tensors, a part on each.")
