"""The back end gloo between processes: values, faults, and the names of ranks that are missing."""

import signal
import time
import unittest

import corten as torch
import corten.distributed as dist
from exact_collectives import run
from gloo_processes import AVAILABLE, GlooProcesses


class Processes(GlooProcesses):
    def test_collectives(self):
        ranks = self.start("""
            x = torch.arange(5.0) + rank
            dist.all_reduce(x)
            assert x.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0], x
            # Strides of any kind, and complex numbers.
            x = (torch.arange(6.0).reshape(2, 3) + rank).t()
            dist.all_reduce(x, op=dist.ReduceOp.MAX)
            assert x.tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]], x
            x = torch.full((3,), 1 + 2j) * (rank + 1)
            dist.all_reduce(x)
            assert x.tolist() == [3 + 6j] * 3, x
            for dtype in [torch.float16, torch.bfloat16, torch.int32]:
                x = torch.full((3,), rank + 1, dtype=dtype)
                dist.all_reduce(x, op=dist.ReduceOp.AVG)
                assert x.tolist() == [1.5 if dtype.is_floating_point else 1] * 3, x
            outputs = [torch.zeros(2, 2) for _ in range(size)]
            dist.all_gather(outputs, torch.full((2, 2), float(rank)))
            assert [output[0, 0].item() for output in outputs] == [0.0, 1.0]
            whole = torch.zeros(4, dtype=torch.int64)
            dist.all_gather_into_tensor(whole, torch.tensor([rank, 10 + rank]))
            assert whole.tolist() == [0, 10, 1, 11], whole
            part = torch.zeros(2)
            dist.reduce_scatter_tensor(part, torch.arange(4.0))
            assert part.tolist() == [4.0 * rank, 4.0 * rank + 2], part
            output = torch.zeros(2 + 2 * rank, dtype=torch.int64)
            dist.all_to_all_single(output, torch.arange(3), [1 + rank] * 2, [1, 2])
            assert output.tolist() == [[0, 0], [1, 2, 1, 2]][rank], output
            objects = [None] * size
            dist.all_gather_object(objects, {"rank": rank})
            assert objects == [{"rank": 0}, {"rank": 1}], objects
            if rank == 0:
                dist.send(torch.arange(4.0), 1, tag=3)
            else:
                got = torch.zeros(4)
                assert dist.recv(got, tag=3) == 0 and got.tolist() == [0.0, 1.0, 2.0, 3.0]
            half = dist.new_group([1])
            if rank == 1:
                dist.all_reduce(torch.ones(1), group=half)
            dist.barrier()
            dist.destroy_process_group()
            print("done")
        """, 2)
        for rank in ranks:
            self.assertEqual(self.finish(rank), "done\n")

    def test_every_collective_of_every_dtype(self):
        self.assertGreater(run("gloo", 3, [0, 17], limit=120), 1000)

    # Each rank says when it runs, and what it was told.
    LOOP = """
        for step in range(10**9):
            if step == 3:
                print("running", flush=True)
            try:
                dist.all_reduce(torch.ones(1000))
            except Exception as error:
                print(type(error).__name__, "|", str(error).replace(chr(10), " "), flush=True)
                sys.exit(7)
    """

    def interrupted(self, number, timeout):
        ranks = self.start(self.LOOP, 3, timeout)
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "running\n")
        begun = time.monotonic()
        ranks[2].send_signal(number)
        told = [self.finish(rank, 7) for rank in ranks[:2]]
        self.assertLess(time.monotonic() - begun, timeout + 5 + 60)  # 60 for machines that are busy
        for text in told:
            self.assertIn("DistBackendError", text)
            self.assertRegex(text, r"[Rr]anks? .*\b2\b")
        return told

    def test_a_killed_rank_is_named(self):
        self.interrupted(signal.SIGKILL, 30)

    def test_a_stopped_rank_is_named(self):
        self.interrupted(signal.SIGSTOP, 2)

    def test_ctrl_c_ends_a_wait(self):
        first, _ = self.start("""
            if rank == 1:
                time.sleep(60)
            print("waiting", flush=True)
            try:
                dist.all_reduce(torch.ones(1))
            except KeyboardInterrupt:
                os._exit(5)
        """, 2)
        self.assertEqual(first.stdout.readline(), "waiting\n")
        time.sleep(0.2)
        first.send_signal(signal.SIGINT)
        self.finish(first, 5)


class Options(unittest.TestCase):
    def test_arguments(self):
        if not AVAILABLE:
            self.skipTest("gloo is not installed")
        group = dist.ProcessGroupGloo
        options = group._Options()
        self.assertEqual((options.backend, options._threads, options._devices), ("gloo", 2, []))
        store = dist.HashStore()
        with self.assertRaisesRegex(RuntimeError, r"No device\(s\) specified"):
            group(store, 0, 1, options)
        with self.assertRaisesRegex(ValueError, "Specify either `hostname` or `interface` argument."):
            group.create_device()
        options._devices = [group.create_device(interface="no_such_interface")]
        with self.assertRaisesRegex(RuntimeError, "no_such_interface"):
            group(store, 0, 1, options)
        options._devices = [group.create_device(hostname="127.0.0.1")]
        alone = group(dist.PrefixStore("alone", store), 0, 1, options)
        self.assertEqual((alone.name(), alone.rank(), alone.size()), ("gloo", 0, 1))
        x = torch.ones(2)
        alone.allreduce([x]).wait()
        self.assertEqual(x.tolist(), [1.0, 1.0])


if __name__ == "__main__":
    unittest.main()
