"""What :func:`fully_shard` takes: policies, and how tensors are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Callable, Optional, Union

import corten


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module computes.

    Attributes:
        param_dtype: Of gathered parameters and of the module's inputs; by default that of the parameters.
        reduce_dtype: In which gradients are added up; by default that of the parameters.
        output_dtype: Of the module's outputs; by default whatever comes.
        cast_forward_inputs: Whether inputs are cast to ``param_dtype``.
        param_dtype_override_fn: Gives ``param_dtype`` for a parameter: that, its own dtype, or nothing.
    """

    param_dtype: Optional[corten.dtype] = None
    reduce_dtype: Optional[corten.dtype] = None
    output_dtype: Optional[corten.dtype] = None
    cast_forward_inputs: bool = True
    param_dtype_override_fn: Optional[Callable] = field(default=None, kw_only=True)

    def _resolve_for_param(self, param):
        if self.param_dtype_override_fn is None:
            return self
        dtype = self.param_dtype_override_fn(param)
        if dtype is not None and not isinstance(dtype, corten.dtype):
            raise ValueError(
                f"param_dtype_override_fn must return a torch.dtype or None but got {type(dtype)}"
            )
        if dtype not in (None, self.param_dtype, param.dtype):
            raise ValueError(
                "param_dtype_override_fn must return None, param_dtype, or the parameter's original dtype "
                f"but got {dtype} for a parameter with dtype {param.dtype} and param_dtype {self.param_dtype}"
            )
        dtype = self.param_dtype if dtype is None else dtype
        return replace(self, param_dtype=dtype, param_dtype_override_fn=None)


class Comm(ABC):
    """Sends tensors, in memory of its choice."""

    @abstractmethod
    def allocate(self, size, *, dtype, device):
        """A tensor to send from or to receive in."""


class AllGather(Comm):
    """Collects the tensors of all processes."""

    @abstractmethod
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        """Fills ``output_tensor``; with ``async_op`` the work."""


class ReduceScatter(Comm):
    """Adds up the tensors of all processes and gives each a part."""

    @abstractmethod
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        """Fills ``output_tensor``; with ``async_op`` the work."""


def _as_names(names):
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)


@dataclass
class DataParallelMeshDims:
    """The dimensions of a mesh over which parameters are sharded, and those over which they are replicated."""

    shard: Union[str, tuple[str, ...], None] = None
    replicate: Union[str, tuple[str, ...], None] = None

    def __post_init__(self):
        if self.shard is None and self.replicate is None:
            raise ValueError("At least one of shard or replicate must be set")

    @property
    def shard_names(self):
        """The first as a tuple."""
        return _as_names(self.shard)

    @property
    def replicate_names(self):
        """The second as a tuple."""
        return _as_names(self.replicate)


@dataclass
class OffloadPolicy:
    """Parameters stay where the module computes."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Sharded parameters, their gradients and the state of optimizers are on the CPU, in pinned memory with
    ``pin_memory``."""

    pin_memory: bool = True
