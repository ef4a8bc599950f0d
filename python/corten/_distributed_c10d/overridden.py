"""Calls of the native side to back ends and groups that are written in Python."""

from __future__ import annotations

from datetime import timedelta

from . import _options as options
from ._reduce_op import RedOpType, ReduceOp


def start(object, described, timeout):
    """Calls the method of a back end or a group for a call that the native side describes."""
    name, outputs, inputs, number, factor, peer, tag, output_splits, input_splits = described
    op = ReduceOp(RedOpType(number)) if factor is None else ReduceOp._with_factor(factor)
    time = timedelta(seconds=timeout)

    def opts(kind, **values):
        made = kind()
        made.timeout = time
        for key, value in values.items():
            setattr(made, key, value)
        return made

    arguments = {
        "allreduce": lambda: (outputs, opts(options.AllreduceOptions, reduceOp=op)),
        "broadcast": lambda: (outputs, opts(options.BroadcastOptions, rootRank=peer)),
        "reduce": lambda: (outputs, opts(options.ReduceOptions, reduceOp=op, rootRank=peer)),
        "allgather": lambda: ([outputs], inputs, opts(options.AllgatherOptions)),
        "_allgather_base": lambda: (outputs[0], inputs[0], opts(options.AllgatherOptions)),
        "gather": lambda: ([outputs] if outputs else [], inputs, opts(options.GatherOptions, rootRank=peer)),
        "scatter": lambda: (outputs, [inputs] if inputs else [], opts(options.ScatterOptions, rootRank=peer)),
        "reduce_scatter": lambda: (outputs, [inputs], opts(options.ReduceScatterOptions, reduceOp=op)),
        "_reduce_scatter_base": lambda: (outputs[0], inputs[0], opts(options.ReduceScatterOptions, reduceOp=op)),
        "alltoall": lambda: (outputs, inputs, opts(options.AllToAllOptions)),
        "alltoall_base": lambda: (outputs[0], inputs[0], output_splits, input_splits, opts(options.AllToAllOptions)),
        "send": lambda: (inputs, peer, tag),
        "recv": lambda: (outputs, peer, tag),
        "recvAnySource": lambda: (outputs, tag),
        "barrier": lambda: (opts(options.BarrierOptions),),
    }[name]()
    return getattr(object, "recv_anysource" if name == "recvAnySource" else name)(*arguments)


def wait(work, timeout):
    """Waits for work that is written in Python; whether it ended well."""
    result = work.wait() if timeout is None else work.wait(timedelta(seconds=timeout))
    return result is None or bool(result)
