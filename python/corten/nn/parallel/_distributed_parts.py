"""What :class:`corten.nn.parallel.DistributedDataParallel` is made of besides the module itself."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, auto
from typing import Any

import corten
from corten._C import _distributed_c10d as native
from corten.autograd import Function, Variable
from corten.distributed.algorithms.join import JoinHook

_DEFAULT_BUCKET_CAP_MB = 25
_MB_TO_BYTES = 1024 * 1024


@dataclass(frozen=True)
class _BucketCapacityConfig:
    """How large buckets are, in bytes."""

    bucket_bytes_cap: int
    per_bucket_bytes_caps: tuple
    first_bucket_bytes_cap: int

    @classmethod
    def create(cls, bucket_cap_mb, bucket_cap_mb_list, use_python_reducer):
        """From sizes in MiB: one for all buckets, one for each, or neither."""
        each = tuple(int(size * _MB_TO_BYTES) for size in bucket_cap_mb_list or ())
        if each:
            size = max(bucket_cap_mb_list)
        else:
            size = _DEFAULT_BUCKET_CAP_MB if bucket_cap_mb is None else bucket_cap_mb
        cap = int(size * _MB_TO_BYTES)
        usual = bucket_cap_mb is None and not each
        return cls(cap, each, native._DEFAULT_FIRST_BUCKET_BYTES if usual else cap)

    @property
    def bucket_cap_mb(self):
        """The size in MiB."""
        return self.bucket_bytes_cap // _MB_TO_BYTES

    @property
    def has_custom_per_bucket_caps(self):
        """Whether each bucket has a size of its own."""
        return len(self.per_bucket_bytes_caps) > 0

    def compute_bucket_size_limits(self, static_graph, find_unused_parameters):
        """The limits of the first buckets, and those of the buckets that are made anew (none: the usual).

        Parameters are registered in an order of their own. Unless unused parameters are searched for, the first
        pass has one bucket, so that nothing is sent before its time, and the order of its gradients is taken.
        """
        if self.has_custom_per_bucket_caps:
            limits = list(self.per_bucket_bytes_caps)
            return limits, limits
        if static_graph or not find_unused_parameters:
            return [sys.maxsize], []
        if self.first_bucket_bytes_cap < self.bucket_bytes_cap:
            return [self.first_bucket_bytes_cap, self.bucket_bytes_cap], []
        return [self.bucket_bytes_cap], []


@dataclass
class _MixedPrecision:
    """The dtypes of parameters, of communication and of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


class _BufferCommHookLocation(Enum):
    PRE_FORWARD = auto()
    POST_FORWARD = auto()


@dataclass
class _BufferCommHook:
    buffer_comm_hook: Callable
    buffer_comm_hook_state: Any
    buffer_comm_hook_location: _BufferCommHookLocation


def _find_tensors(obj):
    """The tensors in a structure of lists, tuples, dictionaries and data classes."""
    if isinstance(obj, corten.Tensor):
        return [obj]
    if isinstance(obj, (list, tuple)):
        return itertools.chain.from_iterable(map(_find_tensors, obj))
    if isinstance(obj, dict):
        return itertools.chain.from_iterable(map(_find_tensors, obj.values()))
    if is_dataclass(obj):
        return itertools.chain.from_iterable(
            _find_tensors(getattr(obj, field.name)) for field in fields(obj)
        )
    return []


class _DDPSink(Function):
    """Passes the outputs of a module on, and is the first of its backward pass to run: gradients that the loss
    does not need stay undefined, and a static graph's first pass is told to communicate at its end."""

    @staticmethod
    def forward(ctx, ddp_weakref, *inputs):
        ctx.set_materialize_grads(False)
        ctx.ddp_weakref = ddp_weakref
        if ddp_weakref()._ddp_sink_clone:
            return tuple(
                value.clone() if isinstance(value, corten.Tensor) else value for value in inputs
            )
        return inputs

    @staticmethod
    def backward(ctx, *grad_outputs):
        ddp = ctx.ddp_weakref()
        if ddp.static_graph and not ddp._static_graph_delay_allreduce_enqueued:
            ddp._static_graph_delay_allreduce_enqueued = True
            Variable._execution_engine.queue_callback(ddp.reducer._delay_all_reduce)
        return (None, *grad_outputs)


class _DDPJoinHook(JoinHook):
    """What a process without inputs does for a module: the collectives of the others' passes."""

    def __init__(self, ddp, divide_by_initial_world_size):
        ddp.logger._set_uneven_input_join()
        self.ddp = ddp
        ddp._divide_by_initial_world_size = divide_by_initial_world_size
        super().__init__()

    def main_hook(self):
        ddp = self.ddp
        ddp.reducer._rebuild_buckets()
        ddp._check_and_sync_module_buffers()
        communicates = ddp._check_global_requires_backward_grad_sync(is_joined_rank=True)
        ddp.require_forward_param_sync = communicates
        if not communicates:
            return
        ddp._match_all_reduce_for_bwd_pass()
        if ddp.find_unused_parameters:
            ddp._match_unused_params_allreduce()
        ddp.reducer._push_all_rebuilt_params()

    def post_hook(self, is_last_joiner):
        self.ddp._sync_final_model(is_last_joiner)
