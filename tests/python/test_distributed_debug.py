"""What is told about calls that are not alike on all ranks, and about works that nobody waits for; over gloo."""

import os
import unittest
from unittest import mock

from gloo_processes import GlooProcesses


class Debug(GlooProcesses):
    head = """
def fault(function):
    try:
        function()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("no error")
"""

    def test_calls_are_compared(self):
        """Without that, sizes that differ end the processes in gloo."""
        program = """
        x = torch.ones(100_000)
        dist.all_reduce(x)
        assert x[0] == size
        words = fault(lambda: dist.all_reduce(torch.ones(100_000 + rank)))
        assert words.startswith(f"Detected mismatch between collectives on ranks. Rank {rank} is running"), words
        assert f"OpType=ALLREDUCE, TensorShape=[[{100_001 - rank}]]" in words, words
        words = fault(lambda: dist.barrier() if rank else dist.all_reduce(x))
        assert "OpType=BARRIER" in words and "OpType=ALLREDUCE" in words, words
        with dist._coalescing_manager(async_ops=True) as works:
            parts = [torch.ones(3) for _ in range(3)]
            for part in parts:
                dist.all_reduce(part)
        works.wait()
        assert all(part.tolist() == [2.0] * 3 for part in parts)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        model(torch.ones(1, 2) * (rank + 1)).sum().backward()
        assert model.module.weight.grad.tolist() == [[1.5, 1.5]]
        works = [dist.isend(torch.ones(2), 1 - rank), dist.irecv(x[:2], 1 - rank)]
        [work.wait() for work in works]
        assert dist.get_backend() == "gloo"
        print("right")
        """
        with mock.patch.dict(os.environ, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
            self.assertEqual(self.run_program(program, 2), ["right\n"] * 2)

    def test_a_rank_that_does_not_come_is_named(self):
        program = """
        if rank:
            time.sleep(1.5)
        else:
            words = fault(lambda: dist.all_reduce(torch.ones(2)))
            assert "Rank 1 failed to pass monitoredBarrier" in words and "OpType=ALLREDUCE" in words, words
        os._exit(0)
        """
        with mock.patch.dict(os.environ, TORCH_DISTRIBUTED_DEBUG="DETAIL"):
            for process in self.start(program, 2, timeout=1):
                self.finish(process)

    def test_works_that_nobody_waits_for(self):
        """They end when their time is over, and the next call says why."""
        program = """
        if rank == 0:
            work = dist.all_reduce(torch.ones(100_000), async_op=True)
            end = time.monotonic() + 30
            while not work.is_completed():
                assert time.monotonic() < end
                time.sleep(0.05)
            assert not work.is_success()
            kind = type(work.exception())
            assert issubclass(kind, (dist.DistBackendError, RuntimeError)), kind
            words = fault(lambda: dist.all_reduce(torch.ones(3)))
            assert "Rank 1 did not report" in words, words
            open(f"{folder}/done", "w").close()
        else:
            while not os.path.exists(f"{folder}/done"):
                time.sleep(0.05)
        os._exit(0)
        """
        for process in self.start(program, 2, timeout=1):
            self.finish(process)


if __name__ == "__main__":
    unittest.main()
