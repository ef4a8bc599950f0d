"""Options of collectives."""

from __future__ import annotations

from ._enums import _DEFAULT_PG_TIMEOUT, _UNSET_TIMEOUT
from ._reduce_op import ReduceOp


class _Options:
    """Attributes with defaults, and no others."""

    __slots__ = ("timeout", "asyncOp")

    def __init__(self):
        self.timeout, self.asyncOp = _UNSET_TIMEOUT, True


class BroadcastOptions(_Options):
    """Options of broadcasts."""

    __slots__ = ("rootRank", "rootTensor")

    def __init__(self):
        super().__init__()
        self.rootRank = self.rootTensor = 0


class _Reducing(_Options):
    __slots__ = ("_op",)

    def __init__(self):
        super().__init__()
        self._op = ReduceOp(ReduceOp.SUM)

    @property
    def reduceOp(self):
        """What is computed."""
        return self._op

    @reduceOp.setter
    def reduceOp(self, op):
        self._op = ReduceOp(op)


class AllreduceOptions(_Reducing):
    """Options of reductions that all ranks get."""

    __slots__ = ("sparseIndices",)

    def __init__(self):
        super().__init__()
        self.sparseIndices = None


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of several such reductions at once."""

    __slots__ = ()


class ReduceOptions(_Reducing):
    """Options of reductions that one rank gets."""

    __slots__ = ("rootRank", "rootTensor")

    def __init__(self):
        super().__init__()
        self.rootRank = self.rootTensor = 0


class AllgatherOptions(_Options):
    """Options of gathers that all ranks get."""

    __slots__ = ()


class GatherOptions(_Options):
    """Options of gathers that one rank gets."""

    __slots__ = ("rootRank",)

    def __init__(self):
        super().__init__()
        self.rootRank = 0


class ScatterOptions(GatherOptions):
    """Options of scatters."""

    __slots__ = ()


class ReduceScatterOptions(_Reducing):
    """Options of reductions of which each rank gets a part."""

    __slots__ = ()


class AllToAllOptions(_Options):
    """Options of exchanges."""

    __slots__ = ()


class BarrierOptions(_Options):
    """Options of barriers."""

    __slots__ = ("device_ids", "device")

    def __init__(self):
        super().__init__()
        self.device_ids, self.device = [], None


class _DistributedBackendOptions:
    """What a function that creates a back end is given."""

    def __init__(self):
        self.store = self.process_group = self.split_from = None
        self.group_rank = self.group_size = 0
        self.timeout = _DEFAULT_PG_TIMEOUT
        self.group_id = ""
        self.global_ranks_in_group = []
        self.enable_reconfigure = False


class PreHookArgs:
    """What a hook before a collective is given."""

    def __init__(self):
        self.name = self.async_op = self.root = self.op_id = None
        self.input_tensors, self.output_tensors = [], []


class PostHookArgs:
    """What a hook after the start of a collective is given."""

    def __init__(self):
        self.name = self.async_op = self.work = self.op_id = None


def seconds(timeout):
    """A time for the native side: ``None`` where the group decides."""
    if timeout is None:
        return None
    value = timeout.total_seconds()
    return None if value <= 0 else value
