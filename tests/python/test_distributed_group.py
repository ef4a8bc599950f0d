"""Process groups over threads: collectives, works, faults, and classes of programs."""

import operator
import os
import threading
import unittest
from datetime import timedelta
from functools import reduce

from module_under_test import torch

c10d = torch._C._distributed_c10d
ReduceOp = c10d.ReduceOp
DEADLINE = 15


def run(size, program, timeout=DEADLINE):
    """Runs a program on so many ranks; what each gave. The first exception is raised."""
    store, results, errors = c10d.HashStore(), [None] * size, []

    def rank(number):
        group = c10d.ProcessGroup(c10d.PrefixStore("group", store), number, size)
        backend = c10d.ProcessGroupThreads(
            c10d.PrefixStore("threads", store), number, size, timedelta(seconds=timeout)
        )
        group._register_backend(torch.device("cpu"), group.BackendType.CUSTOM, backend)
        group._set_default_backend(group.BackendType.CUSTOM)
        try:
            results[number] = program(group)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
            group.abort()

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * DEADLINE)
    if any(thread.is_alive() for thread in threads):
        raise AssertionError("a rank did not end")
    if errors:
        raise errors[0]
    return results


def fault(work_or_call):
    """What a function raises: its class and words."""
    try:
        work_or_call()
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)
    return None, ""


class Collectives(unittest.TestCase):
    """What the ranks get."""

    def test_reductions_of_every_dtype(self):
        dtypes = [
            torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16,
            torch.int32, torch.int64, torch.bool,
        ]
        operations = {
            "SUM": operator.add, "PRODUCT": operator.mul, "MIN": torch.minimum, "MAX": torch.maximum,
            "BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor,
        }

        def program(group):
            for dtype in dtypes:
                inputs = [(torch.arange(5) * (rank + 1) % 4).to(dtype) for rank in range(group.size())]
                for name, operation in operations.items():
                    bits = name.startswith("B")
                    if bits and dtype.is_floating_point:
                        continue
                    own = inputs[group.rank()].clone()
                    group.allreduce([own], getattr(ReduceOp, name)).wait()
                    if dtype == torch.bool and name in ("SUM", "PRODUCT"):
                        operation = {"SUM": operator.or_, "PRODUCT": operator.and_}[name]
                    expected = reduce(operation, inputs)
                    if not torch.equal(own, expected):
                        return name, dtype, own, expected
            return None

        self.assertEqual(run(3, program), [None] * 3)

    def test_averages_and_factors(self):
        def program(group):
            mean = torch.tensor([1.0, 2.0]) * (group.rank() + 1)
            group.allreduce([mean], ReduceOp.AVG).wait()
            scaled = torch.ones(2)
            group.allreduce([scaled], ReduceOp.PREMUL_SUM(group.rank() + 1.0)).wait()
            by_tensor = torch.ones(2)
            group.allreduce([by_tensor], ReduceOp.PREMUL_SUM(torch.tensor([0.5]))).wait()
            half = torch.full((1000,), 0.001, dtype=torch.float16)
            group.allreduce([half]).wait()
            return mean.tolist(), scaled.tolist(), by_tensor.tolist(), half[0].item()

        for mean, scaled, by_tensor, half in run(2, program):
            self.assertEqual((mean, scaled, by_tensor), ([1.5, 3.0], [3.0, 3.0], [1.0, 1.0]))
            self.assertAlmostEqual(half, 0.002, places=5)

    def test_sizes(self):
        def program(group):
            sums = []
            for count in (0, 1, 7, 1_000_000):
                tensor = torch.full((count,), float(group.rank() + 1))
                group.allreduce([tensor]).wait()
                sums.append(bool((tensor == 6).all()))
            return sums

        self.assertEqual(run(3, program), [[True] * 4] * 3)

    def test_moving_data(self):
        def program(group):
            rank, size = group.rank(), group.size()
            got = {}
            sent = torch.tensor([rank, rank + 10])
            group.broadcast([sent], 1).wait()
            got["broadcast"] = sent.tolist()
            outputs = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
            group.allgather([outputs], [torch.tensor([rank, -rank])]).wait()
            got["allgather"] = torch.stack(outputs).tolist()
            output = torch.zeros(size * 2, dtype=torch.int64)
            group._allgather_base(output, torch.tensor([rank, -rank])).wait()
            got["base"] = output.tolist()
            outputs = [torch.zeros(1) for _ in range(size)] if rank == 2 else []
            group.gather([outputs] if outputs else [], [torch.tensor([float(rank)])], 2).wait()
            got["gather"] = [each.item() for each in outputs]
            part = torch.zeros(2)
            group.scatter([part], [list(torch.arange(6.0).view(3, 2))] if rank == 0 else [], 0).wait()
            got["scatter"] = part.tolist()
            total = torch.tensor([float(rank + 1)])
            group.reduce([total], 1).wait()
            got["reduce"] = total.item() if rank == 1 else None
            part = torch.zeros(1)
            group.reduce_scatter([part], [[torch.tensor([float(10 * to + rank)]) for to in range(size)]]).wait()
            got["reduce_scatter"] = part.item()
            part = torch.zeros(1)
            group._reduce_scatter_base(part, torch.arange(3.0) + rank).wait()
            got["scatter_base"] = part.item()
            return got

        for rank, got in enumerate(run(3, program)):
            self.assertEqual(got, {
                "broadcast": [1, 11], "allgather": [[0, 0], [1, -1], [2, -2]], "base": [0, 0, 1, -1, 2, -2],
                "gather": [0.0, 1.0, 2.0] if rank == 2 else [], "scatter": [2.0 * rank, 2.0 * rank + 1],
                "reduce": 6.0 if rank == 1 else None, "reduce_scatter": 30.0 * rank + 3,
                "scatter_base": 3.0 * rank + 3,
            })

    def test_exchanges(self):
        def program(group):
            rank, size = group.rank(), group.size()
            output = torch.zeros(size)
            group.alltoall_base(output, torch.arange(3.0) + 10 * rank, [], []).wait()
            rows = torch.zeros(size * (rank + 1), 2)
            source = torch.cat([torch.full((to + 1, 2), float(10 * rank + to)) for to in range(size)])
            group.alltoall_base(rows, source, [rank + 1] * size, [1, 2, 3]).wait()
            lists = [torch.zeros(from_ + 1) for from_ in range(size)]
            group.alltoall(lists, [torch.full((rank + 1,), float(10 * rank + to)) for to in range(size)]).wait()
            return output.tolist(), rows[:, 1].tolist(), [each.tolist() for each in lists]

        for rank, (output, rows, lists) in enumerate(run(3, program)):
            self.assertEqual(output, [rank, 10.0 + rank, 20.0 + rank])
            self.assertEqual(rows, [10.0 * each + rank for each in range(3) for _ in range(rank + 1)])
            self.assertEqual(lists, [[10.0 * each + rank] * (each + 1) for each in range(3)])

    def test_two_ranks(self):
        def program(group):
            if group.rank() == 0:
                for tag in (2, 1):
                    group.send([torch.tensor([float(tag)])], 1, tag).wait()
                group.send([torch.tensor([9.0])], 1, 5).wait()
                return None
            one, two, any_rank = torch.zeros(1), torch.zeros(1), torch.zeros(1)
            works = [group.recv([one], 0, 1), group.recv([two], 0, 2)]
            for work in works:
                work.wait()
            work = group.recv_anysource([any_rank], 5)
            work.wait()
            return one.item(), two.item(), any_rank.item(), work.source_rank()

        self.assertEqual(run(2, program)[1], (1.0, 2.0, 9.0, 0))

    def test_strides_and_histories(self):
        def program(group):
            turned = torch.arange(6.0).view(2, 3).t()
            group.allreduce([turned]).wait()
            every_second = torch.arange(6.0)
            group.broadcast([every_second[::2]], 0).wait()
            leaf = torch.ones(2, requires_grad=True)
            version = leaf._version
            group.allreduce([leaf]).wait()
            conjugate = torch.tensor([1 + 2j]).conj()
            gathered = [torch.zeros(1, dtype=torch.complex64) for _ in range(group.size())]
            group.allgather([gathered], [conjugate]).wait()
            return turned.tolist(), every_second.tolist(), leaf.tolist(), leaf._version - version, gathered[1].item()

        for got in run(2, program):
            self.assertEqual(
                got,
                ([[0, 6], [2, 8], [4, 10]], [0, 1, 2, 3, 4, 5], [2.0, 2.0], 0, 1 - 2j),
            )

    def test_sparse_sums(self):
        def program(group):
            rank = group.rank()
            tensor = torch.sparse_coo_tensor([[rank, rank + 1]], [1.0, 2.0], (5,))
            group.allreduce([tensor]).wait()
            return tensor.to_dense().tolist()

        self.assertEqual(run(3, program), [[1.0, 3.0, 3.0, 2.0, 0.0]] * 3)

    def test_several_as_one(self):
        def program(group):
            device = torch.device("cpu")
            one, two = torch.ones(1), torch.ones(2, dtype=torch.int64)
            group.allreduce_coalesced([one, two]).wait()
            group._start_coalescing(device)
            self.assertIsNone(group.allreduce([one]))
            group.broadcast([two], 0)
            group._end_coalescing(device).wait()
            outputs = [torch.zeros(2), torch.zeros(4)]
            group.allgather_into_tensor_coalesced(outputs, [torch.ones(1), torch.ones(2)]).wait()
            c10d._broadcast_coalesced(group, [one, two], 8, 1)
            return one.item(), two.tolist(), [each.sum().item() for each in outputs]

        self.assertEqual(run(2, program), [(4.0, [2, 2], [2.0, 4.0])] * 2)

    def test_parts_of_groups(self):
        def program(group):
            part = group.split_group([2, 0], group_name="part")
            if part is None:
                return None
            tensor = torch.tensor([group.rank()])
            part.broadcast([tensor], 0).wait()
            return part.rank(), part.size(), part.group_name, tensor.item()

        self.assertEqual(run(3, program), [(1, 2, "part", 2), None, (0, 2, "part", 2)])


class Works(unittest.TestCase):
    """What a call that was started tells."""

    def test_a_work(self):
        def program(group):
            tensor = torch.ones(1)
            work = group.allreduce([tensor])
            future = work.get_future().then(lambda done: done.value()[0] * 2)
            done = work.wait()
            return (
                done, work.is_completed(), work.is_success(), work.exception(), work.result()[0] is tensor,
                future.wait().item(), fault(work.source_rank)[0], work._get_sequence_number(),
            )

        self.assertEqual(run(2, program), [(True, True, True, None, True, 4.0, RuntimeError, 1)] * 2)

    def test_a_rank_that_does_not_come(self):
        def program(group):
            if group.rank() == 2:
                return None
            work = group.allreduce([torch.ones(1)], timeout=timedelta(milliseconds=200))
            kind, message = fault(work.wait)
            return kind is torch._C._DistBackendError, "Rank 2 did not report" in message, work.is_success()

        self.assertEqual(run(3, program), [(True, True, False)] * 2 + [None])

    def test_futures_of_faults(self):
        def program(group):
            work = group.allreduce([torch.ones(group.rank() + 1)])
            kind, message = fault(work.get_future().wait)
            return kind, "mismatch" in message

        self.assertEqual(run(2, program), [(RuntimeError, True)] * 2)

    def test_ranks_that_disagree(self):
        def program(group):
            rank = group.rank()
            calls = [
                lambda: group.broadcast([torch.ones(1)], rank),
                lambda: group.allreduce([torch.ones(1, dtype=[torch.float32, torch.int32][rank])]),
                lambda: group.allreduce([torch.ones(1)], [ReduceOp.SUM, ReduceOp.MAX][rank]),
                lambda: group.allreduce([torch.ones(1)]) if rank else group.barrier(),
            ]
            return ["mismatch" in fault(call().wait)[1] for call in calls]

        self.assertEqual(run(2, program), [[True] * 4] * 2)

    def test_aborting(self):
        def program(group):
            if group.rank() == 0:
                group.abort()
                return None
            kind, message = fault(group.barrier().wait)
            return kind is torch._C._DistBackendError, "aborted" in message

        self.assertEqual(run(2, program)[1], (True, True))

    def test_barriers_that_watch(self):
        def program(group):
            group.monitored_barrier()
            if group.rank() in (1, 3):
                return None
            wait = timedelta(milliseconds=200)
            return fault(lambda: group.monitored_barrier(wait, wait_all_ranks=True))[1]

        first, _, third, _ = run(4, program)
        self.assertEqual(first, "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 200 ms")
        self.assertIn("Rank 2 successfully reached monitoredBarrier", third)


class Arguments(unittest.TestCase):
    """What is said of wrong ones."""

    def test_words(self):
        def program(group):
            one, two = torch.ones(1), torch.ones(2)
            return [
                fault(lambda: group.broadcast([one], 5)),
                fault(lambda: group.allgather([[one]], [one])),
                fault(lambda: group.allgather([[one, two]], [one])),
                fault(lambda: group.allgather([[one.int(), one]], [one])),
                fault(lambda: group._allgather_base(torch.ones(3), one)),
                fault(lambda: group.allreduce([one], ReduceOp.BAND)),
                fault(lambda: group.allreduce([])),
                fault(lambda: group.alltoall_base(one, torch.ones(3), [], [])),
                fault(lambda: group.alltoall_base(two, torch.ones(3), [1, 1], [1, 1])),
                fault(lambda: group.send([one], 7, 0)),
                fault(lambda: group.allreduce(["text"])),
                fault(lambda: group.allreduce([torch.ones(1, device="meta")])),
            ]

        words = [
            "invalid root rank: 5", "expected length 2, got 1", "invalid tensor size at index 1 (expected (1), got (2))",
            "invalid tensor type at index 0", "world_size times", "Cannot use ReduceOp.BAND with non-integral dtype",
            "requires non-empty tensor list", "does not divide equally across group size",
            "Split sizes doesn't match total dim 0 size", "invalid rank: 7", "", "No backend type associated",
        ]
        for got in run(2, program):
            for (kind, message), expected in zip(got, words, strict=True):
                self.assertIsNotNone(kind)
                self.assertIn(expected, message)

    def test_reductions(self):
        self.assertEqual(ReduceOp(ReduceOp.SUM), ReduceOp.SUM)
        self.assertEqual(ReduceOp.SUM, ReduceOp(ReduceOp.SUM))
        self.assertNotEqual(ReduceOp(ReduceOp.SUM), ReduceOp.MAX)
        self.assertEqual(hash(ReduceOp(ReduceOp.MIN)), hash(ReduceOp.MIN))
        self.assertIsInstance(ReduceOp.SUM, ReduceOp.RedOpType)
        self.assertEqual((str(ReduceOp.SUM), ReduceOp.BXOR.value), ("RedOpType.SUM", 7))
        self.assertEqual(ReduceOp.PREMUL_SUM(2).factor, 2.0)
        self.assertRaises(TypeError, ReduceOp.SUM, 2)
        options = c10d.AllreduceOptions()
        options.reduceOp = ReduceOp.MAX
        self.assertEqual(options.reduceOp, ReduceOp.MAX)
        with self.assertRaises(AttributeError):
            options.unknown = 1

    def test_debug_levels(self):
        before = c10d.get_debug_level()
        try:
            os.environ["TORCH_DISTRIBUTED_DEBUG"] = "detail"
            c10d.set_debug_level_from_env()
            self.assertEqual(c10d.get_debug_level(), c10d.DebugLevel.DETAIL)
            os.environ["TORCH_DISTRIBUTED_DEBUG"] = "much"
            self.assertRaisesRegex(RuntimeError, "OFF, INFO, or DETAIL", c10d.set_debug_level_from_env)
        finally:
            del os.environ["TORCH_DISTRIBUTED_DEBUG"]
            c10d.set_debug_level(before)


class OfPrograms(unittest.TestCase):
    """Back ends and groups that are written in Python."""

    class Alone(c10d.Backend):
        """A back end of one rank."""

        def __init__(self):
            super().__init__(0, 1)
            self.seen = []

        def name(self):
            return "alone"

        def allreduce(self, tensors, opts):
            self.seen.append(("allreduce", opts.reduceOp.name))
            return c10d._create_work_from_future(done(tensors))

        def allgather(self, outputs, inputs, opts):
            outputs[0][0].copy_(inputs[0])
            return c10d._create_work_from_future(done(outputs))

    def test_a_back_end(self):
        backend = self.Alone()
        group = c10d.ProcessGroup(0, 1)
        group._register_backend(torch.device("cpu"), group.BackendType.CUSTOM, backend)
        group.allreduce([torch.ones(1)], ReduceOp.MAX).wait()
        output = torch.zeros(1)
        group.allgather([[output]], [torch.ones(1)]).wait()
        self.assertEqual((backend.seen, output.item(), group.name()), ([("allreduce", "MAX")], 1.0, "alone"))
        self.assertIs(group._get_backend(torch.device("cpu")), backend)
        self.assertRaisesRegex(RuntimeError, "does not support broadcast", group.broadcast, [torch.ones(1)], 0)

    def test_a_group(self):
        class Group(c10d.ProcessGroup):
            def getBackendName(self):
                return "of a program"

            def broadcast(self, tensors, opts):
                tensors[0].fill_(7)
                return c10d.FakeWork()

        group = Group(0, 1)
        tensor = torch.zeros(1)
        c10d._broadcast_coalesced(group, [tensor], 100)
        self.assertEqual(tensor.item(), 7.0)
        self.assertEqual(group.name(), "of a program")
        self.assertTrue(group._overrides_collectives)
        self.assertFalse(c10d.ProcessGroup(0, 1)._overrides_collectives)

    def test_fake(self):
        fake = c10d.FakeProcessGroup._create_internal(1, 4)
        output = torch.zeros(4)
        fake._allgather_base(output, torch.ones(1)).wait()
        part = torch.zeros(1)
        fake._reduce_scatter_base(part, torch.arange(4.0)).wait()
        self.assertEqual((output.tolist(), part.item(), fake.name()), ([1.0] * 4, 1.0, "fake"))
        options = c10d.FakeProcessGroup.Options()
        options.error_on_collective = True
        refusing = c10d.FakeProcessGroup._create_internal(0, 2, options)
        self.assertRaises(RuntimeError, refusing.allreduce, [torch.ones(1)])
        store = c10d.FakeStore()
        self.assertEqual((store.add("k", 2), store.check(["k"])), (2, True))

    def test_ranks_are_compared(self):
        def program(group):
            store, rank = group.get_group_store(), group.rank()
            backends = [
                c10d.ProcessGroupThreads(c10d.PrefixStore(name, store), rank, 2, timedelta(seconds=DEADLINE))
                for name in ("run", "watch")
            ]
            wrapper = c10d._ProcessGroupWrapper(*backends)
            whole = c10d.ProcessGroup(store, rank, 2)
            whole._register_backend(torch.device("cpu"), whole.BackendType.CUSTOM, wrapper)
            tensor = torch.ones(2)
            whole.allreduce([tensor]).wait()
            size = fault(lambda: whole.allreduce([torch.ones(rank + 1)]))
            kind = fault(lambda: whole.barrier() if rank else whole.allreduce([tensor]))
            return tensor.tolist(), size, kind

        for tensor, size, kind in run(2, program):
            self.assertEqual(tensor, [2.0, 2.0])
            self.assertIn("Detected mismatch between collectives on ranks", size[1])
            self.assertIn("OpType=BARRIER", kind[1])

    def test_names_of_groups(self):
        group = c10d.ProcessGroup(0, 1)
        c10d._register_process_group("of test", group)
        self.assertIs(c10d._resolve_process_group("of test"), group)
        c10d._unregister_process_group("of test")
        self.assertRaisesRegex(RuntimeError, "Could not resolve", c10d._resolve_process_group, "of test")

    def test_hooks(self):
        fake = c10d.FakeProcessGroup._create_internal(0, 2)
        group = c10d.ProcessGroup(0, 2)
        group._register_backend(torch.device("cpu"), group.BackendType.CUSTOM, fake)
        seen = []
        group.register_pre_hook(1, lambda each: seen.append((each.name, len(each.output_tensors))))
        group.register_post_hook(1, lambda each: seen.append(each.work is not None))
        group.allreduce([torch.ones(1)])
        group.unregister_pre_hook(1)
        group.unregister_post_hook(1)
        group.allreduce([torch.ones(1)])
        self.assertEqual(seen, [(c10d.HookOpName.ALLREDUCE, 1), True])


class Buckets(unittest.TestCase):
    """Which tensors go together."""

    def test_by_size_and_kind(self):
        tensors = [torch.empty(100), torch.empty(100, dtype=torch.float64), torch.empty(50), torch.empty(50)]
        assign = c10d._compute_bucket_assignment_by_size
        self.assertEqual(assign(tensors, [400]), ([[0], [1], [2, 3]], [400, 400, 400]))
        self.assertEqual(assign(tensors, [10_000]), ([[0, 2, 3], [1]], [10_000, 10_000]))
        self.assertEqual(assign(tensors[2:], [200, 400], [], [7, 5]), ([[7], [5]], [200, 400]))
        self.assertEqual(assign(tensors[:2], [1 << 20], [True, False]), ([[0], [1]], [0, 1 << 20]))


def done(value):
    future = torch.futures.Future()
    future.set_result(value)
    return future


if __name__ == "__main__":
    unittest.main()
