"""Several calls as one."""

from __future__ import annotations

import contextlib

from corten._C import _distributed_c10d as native
from corten.distributed._c10d.checks import _get_pg_default_device, _IllegalWork
from corten.distributed._c10d.world import _get_default_group, _world


class _CollOp:
    """A call that waits for the end of its block."""

    def __init__(self, op, tensor, dst_tensor=None, redop=None, root=None):
        self.op = op
        self.tensor = tensor
        self.dst_tensor = dst_tensor
        self.redop = redop
        self.root = root


def put_off(group, op, tensor, dst_tensor=None, redop=None):
    """Keeps a call for the end of the block that its group is in; False where there is none."""
    pending = _world.pg_coalesce_state.get(group)
    if pending is None:
        return False
    pending.append(_CollOp(op, tensor, dst_tensor, redop))
    return True


def later(async_op):
    """What a call that was put off gives back."""
    return _IllegalWork() if async_op else None


class _CoalescingManager:
    """The works of a block."""

    def __init__(self):
        self.works = []

    def append(self, work=None):
        """Adds a work, if there is one."""
        if work:
            self.works.append(work)

    def wait(self):
        """Waits for all."""
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Runs the ``all_reduce``, ``all_gather_into_tensor`` or ``reduce_scatter_tensor`` calls of a block as
    one; with ``device``, the messages of a back end that coalesces.

    Raises:
        ValueError: The group is in such a block already.
        RuntimeError: The calls are of several kinds.
    """
    group = _get_default_group() if group is None else group
    if _world.pg_coalesce_state.setdefault(group, []):
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    if device:
        group._start_coalescing(device)
    manager = _CoalescingManager()
    try:
        yield manager
    finally:
        pending = _world.pg_coalesce_state.pop(group, [])
    work = _run(group, pending, async_ops) if pending else None
    if device:
        work = group._end_coalescing(device)
    if async_ops:
        manager.append(work)
    elif work is not None:
        work.wait()


def _run(group, pending, async_ops):
    from corten.distributed._c10d import collectives

    first = pending[0]
    if any(each.op is not first.op for each in pending):
        raise RuntimeError(
            "Coalescing manager requires all collectives to be the same type, but got mixed types: "
            f"{ {each.op.__name__ for each in pending} }"
        )
    inputs, outputs = [each.tensor for each in pending], [each.dst_tensor for each in pending]
    if first.op is collectives.all_reduce:
        options = native.AllreduceCoalescedOptions()
        options.reduceOp, options.asyncOp = first.redop, async_ops
        return group.allreduce_coalesced(inputs, options)
    if first.op is collectives.all_gather_single:
        options = native.AllgatherOptions()
        options.asyncOp = async_ops
        return group.allgather_into_tensor_coalesced(outputs, inputs, options)
    options = native.ReduceScatterOptions()
    options.reduceOp, options.asyncOp = first.redop, async_ops
    return group.reduce_scatter_tensor_coalesced(outputs, inputs, options)


class _TimeEstimator:
    """Holds what :func:`_time_estimator` found."""

    def __init__(self):
        self.estimated_time = None


@contextlib.contextmanager
def _time_estimator(group=None, device=None):
    """Has a back end estimate the collectives of a block instead of running them.

    Raises:
        NotImplementedError: The back end does not estimate.
    """
    group = _get_default_group() if group is None else group
    backend = group._get_backend(_get_pg_default_device(group) if device is None else device)
    if not getattr(backend, "_supports_time_estimate", False):
        raise NotImplementedError(
            f"collective time estimator is not supported in the current version of backend {backend}"
        )
    backend._start_time_estimate()
    estimator = _TimeEstimator()
    yield estimator
    estimator.estimated_time = backend._end_time_estimate()
