"""A back end that does not talk: each rank sees what it would if the others had the same."""

from __future__ import annotations

import corten

from ._groups import Backend, _BackendOptions
from ._works import FakeWork


class _FakeOptions(_BackendOptions):
    """Options of the back end ``fake``."""

    def __init__(self):
        super().__init__("fake")
        self.fake_option = 0
        self.error_on_collective = self.simulate_uniform_ranks = False


class FakeProcessGroup(Backend):
    """A back end of many ranks in one process, of which one is there."""

    Options = _FakeOptions

    def __init__(self, *args, **kwargs):
        raise TypeError("FakeProcessGroup: No constructor defined!")

    @staticmethod
    def _create_internal(rank, world_size, options=None):
        made = FakeProcessGroup.__new__(FakeProcessGroup)
        made._rank, made._size, made._options = rank, world_size, options
        return made

    def name(self):
        """Its name."""
        return "fake"

    @property
    def options(self):
        """The options that it was made with, or none."""
        return self._options

    @property
    def supports_splitting(self):
        """Whether a part of the ranks may become a back end."""
        return True

    def split(self, ranks, opts=None, store=None, timeout=None):
        """The back end of some ranks."""
        if self._rank not in ranks:
            return None
        if opts is not None and not isinstance(opts, _FakeOptions):
            raise RuntimeError("opts not a FakeProcessGroup::Options.")
        return self._create_internal(list(ranks).index(self._rank), len(ranks), opts)

    def set_timeout(self, timeout):
        """Nothing takes time."""

    def abort(self):
        """Nothing runs."""

    shutdown = abort

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """All are here."""

    @property
    def _uniform(self):
        return self._options is not None and self._options.simulate_uniform_ranks

    def _begin(self, name, arguments, calls, opts, outputs, op_type):
        """Does what the call does where the others have the same tensors, for what moves data."""
        options = self._options
        if options is not None and options.error_on_collective and name not in ("send", "recv", "recv_anysource"):
            raise RuntimeError(
                "FakeProcessGroup collective operation error (error_on_collective=true)"
            )
        with corten.no_grad():
            for each in calls:
                getattr(self, f"_do_{each[0].lstrip('_')}", self._nothing)(each, opts)
        return FakeWork(outputs if self._uniform else ())

    def _nothing(self, call, opts):
        pass

    def _reduced(self, tensor, opts):
        """Reduces a tensor with equal ones."""
        if not self._uniform:
            return
        name = opts.reduceOp.name
        if name == "SUM":
            tensor.mul_(self._size)
        elif name == "PREMUL_SUM":
            tensor.mul_(opts.reduceOp.factor).mul_(self._size)
        elif name == "PRODUCT":
            tensor.pow_(self._size)
        elif name == "BXOR" and self._size % 2 == 0:
            tensor.zero_()

    def _do_allreduce(self, call, opts):
        for tensor in call[1]:
            self._reduced(tensor, opts)

    def _do_reduce(self, call, opts):
        if opts.rootRank == self._rank:
            self._do_allreduce(call, opts)

    def _do_allgather(self, call, opts):
        for tensor in call[1]:
            tensor.copy_(call[2][0])

    _do_gather = _do_allgather

    def _do_allgather_base(self, call, opts):
        for tensor in call[1][0].chunk(self._size):
            tensor.copy_(call[2][0])

    def _do_scatter(self, call, opts):
        if opts.rootRank == self._rank:
            call[1][0].copy_(call[2][self._rank])

    def _do_reduce_scatter(self, call, opts):
        if len(call[2]) != self._size:
            raise RuntimeError("FakeProcessGroup::reduce_scatter: invalid input tensor list size, must be world size")
        call[1][0].copy_(call[2][self._rank])
        self._reduced(call[1][0], opts)

    def _do_reduce_scatter_base(self, call, opts):
        output, whole = call[1][0], call[2][0]
        if whole.numel() != output.numel() * self._size:
            raise RuntimeError("input tensor must be the same size as output size times world size")
        output.copy_(whole.chunk(self._size)[self._rank])
        self._reduced(output, opts)

    def _do_alltoall(self, call, opts):
        if len(call[1]) != self._size or len(call[2]) != self._size:
            raise RuntimeError("FakeProcessGroup::alltoall: invalid tensor list size, must be world size")
        for output, tensor in zip(call[1], call[2]):
            output.copy_(call[2][self._rank] if self._uniform else tensor)

    def _do_alltoall_base(self, call, opts):
        output, whole = call[1][0], call[2][0]
        for tensor, splits in ((whole, call[8]), (output, call[7])):
            if sum(splits) != (tensor.shape[0] if tensor.dim() else 0):
                raise RuntimeError("Split sizes doesn't match total dim 0 size")
        if self._uniform:
            mine = whole.split(call[8])[self._rank].reshape(-1)
            for part in output.split(call[7]):
                flat = part.reshape(-1)
                if mine.numel() == 0:
                    flat.zero_()
                elif flat.numel():
                    times = -(-flat.numel() // mine.numel())
                    part.copy_(mine.repeat(times)[: flat.numel()].view_as(part))
            return
        output.zero_()
        count = min(output.numel(), whole.numel())
        if count:
            output.view(-1)[:count].copy_(whole.reshape(-1)[:count])
