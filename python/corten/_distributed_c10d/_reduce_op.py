"""What reductions compute."""

from __future__ import annotations

import enum


class RedOpType(enum.Enum):
    """The kinds of reductions."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __int__(self):
        return self.value

    __index__ = __int__

    def __call__(self, factor):
        """The sum of elements times a factor, which each rank has."""
        if self is not RedOpType.PREMUL_SUM:
            raise TypeError(f"Only PREMUL_SUM takes a factor, not {self.name}")
        return ReduceOp._with_factor(factor)


class ReduceOp:
    """A reduction: one of ``SUM``, ``AVG``, ``PRODUCT``, ``MIN``, ``MAX``, ``BAND``, ``BOR``, ``BXOR`` and, made
    with a factor, ``PREMUL_SUM``."""

    RedOpType = RedOpType

    def __init__(self, op):
        if isinstance(op, ReduceOp):
            self.op, self._factor = op.op, op._factor
            return
        if not isinstance(op, RedOpType):
            raise TypeError(f"ReduceOp expects a ReduceOp.RedOpType, not {type(op).__name__}")
        self.op, self._factor = op, None

    @classmethod
    def _with_factor(cls, factor):
        made = cls(RedOpType.PREMUL_SUM)
        made._factor = factor if hasattr(factor, "numel") else float(factor)
        return made

    @property
    def factor(self):
        """The factor of ``PREMUL_SUM``."""
        if self._factor is None:
            raise RuntimeError("only a ReduceOp made by PREMUL_SUM(factor) has a factor")
        return self._factor

    @property
    def name(self):
        """The name of the kind."""
        return self.op.name

    def __eq__(self, other):
        if isinstance(other, ReduceOp):
            other = other.op
        return self.op is other if isinstance(other, RedOpType) else NotImplemented

    def __hash__(self):
        return hash(self.op)

    def __int__(self):
        return self.op.value

    def __copy__(self):
        made = type(self)(self.op)
        made._factor = self._factor
        return made

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __repr__(self):
        return f"<torch.distributed.distributed_c10d.ReduceOp {self.op.name}>"


for _member in RedOpType:
    setattr(ReduceOp, _member.name, _member)


def _make_nccl_premul_sum(factor):
    """The sum of elements times a factor."""
    return ReduceOp._with_factor(factor)


def encoded(op):
    """The number of a reduction and its factor."""
    if op is None:
        return 0, None
    if isinstance(op, RedOpType):
        op = ReduceOp(op)
    if not isinstance(op, ReduceOp):
        raise TypeError(f"a ReduceOp is expected, not {type(op).__name__}")
    if op.op is RedOpType.UNUSED:
        raise RuntimeError("Unhandled ReduceOp")
    if op.op is RedOpType.PREMUL_SUM and op._factor is None:
        raise RuntimeError("PREMUL_SUM needs a factor: ReduceOp.PREMUL_SUM(factor)")
    return op.op.value, op._factor
