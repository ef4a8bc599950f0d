"""``explain``: what was recorded and why it ran."""

from __future__ import annotations

import dataclasses
import traceback

from corten import _C
from corten.compiler._regions import run_region

__all__ = ["BreakReason", "ExplainOutput", "explain"]


@dataclasses.dataclass
class BreakReason:
    """Why what was recorded had to run early."""

    reason: str
    user_stack: list
    graph_break: bool = True


@dataclasses.dataclass
class ExplainOutput:
    """What became of a call."""

    graphs: list
    graph_count: int
    graph_break_count: int
    break_reasons: list
    op_count: int
    ops_per_graph: list = None
    out_guards: list = None
    compile_times: str = None
    #: By graph: the numbers of the operators that run together, and the bytes of memory traffic that this saves.
    groups: list = None
    bytes_saved: list = None

    def __str__(self):
        rows = [
            f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}", "Break Reasons:",
        ]
        for number, why in enumerate(self.break_reasons, 1):
            rows += [f"  Break Reason {number}:", f"    Reason: {why.reason}", "    User Stack:"]
            rows += [f"      {frame}" for frame in why.user_stack]
        rows.append("Ops per Graph:")
        for number, ops in enumerate(self.ops_per_graph or (), 1):
            rows.append(f"  Ops {number}:")
            rows += [f"    {op}" for op in ops]
        for number, (groups, saved) in enumerate(zip(self.groups or (), self.bytes_saved or ()), 1):
            rows.append(f"Groups {number}: {groups}, {saved} bytes of memory traffic saved")
        return "\n".join(rows) + "\n"


def explain(f, *extra_args, **extra_kwargs):
    """Says what a call of a function records: ``explain(f)(*args)``.

    The function is called twice: operators run by themselves the first time they get a dtype.
    """

    def inner(*args, **kwargs):
        function = getattr(f, "_torchdynamo_orig_callable", f)
        run_region(function, args, kwargs)
        _C._region_statistics(True)
        try:
            run_region(function, args, kwargs)
        finally:
            found = _C._region_statistics(False)
        return _output(*found)

    if extra_args or extra_kwargs:
        return inner(*extra_args, **extra_kwargs)
    return inner


def _output(programs, breaks, reports):
    reasons = [BreakReason(f"{name}: {why}", _stack(line)) for name, why, line in breaks]
    ops = [[name if line is None else f"{name} ({line})" for name, line in program]
           for program in programs]
    count = sum(map(len, programs))
    return ExplainOutput(
        programs, len(programs), len(breaks), reasons, count, ops,
        groups=[groups for groups, _ in reports], bytes_saved=[saved for _, saved in reports],
    )


def _stack(line):
    if line is None:
        return []
    file, _, number = line.rpartition(":")
    return [traceback.FrameSummary(file, int(number), "")]
