"""Groups, collectives, messages and objects of torch.distributed, with ranks that are threads."""

import datetime
import os
import pickle
import socket
import tempfile
import threading
import unittest
import warnings

import corten as torch
import corten.distributed as dist
from corten.testing._internal.distributed.multi_threaded_pg import run_threads, threads_as_ranks
from ranks_as_threads import ranks


def full(value, count=3, dtype=torch.float32):
    return torch.full((count,), value, dtype=dtype)


class Collectives(unittest.TestCase):
    @ranks(4)
    def test_all_reduce(self):
        rank = dist.get_rank()
        for op, expected in (("SUM", 10), ("PRODUCT", 24), ("MIN", 1), ("MAX", 4), ("AVG", 2.5)):
            tensor = full(rank + 1.0)
            self.assertIsNone(dist.all_reduce(tensor, getattr(dist.ReduceOp, op)))
            self.assertEqual(tensor.tolist(), [expected] * 3, op)
        for op, expected in (("BAND", 0), ("BOR", 7), ("BXOR", 4)):
            tensor = full(rank + 1, dtype=torch.int64)
            dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
            self.assertEqual(tensor.tolist(), [expected] * 3, op)
        tensor = full(rank + 1.0)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        self.assertTrue(work.is_completed())
        self.assertEqual(tensor.tolist(), [10.0] * 3)

    @ranks(2)
    def test_complex(self):
        tensor = torch.ones(2, dtype=torch.complex64) * (dist.get_rank() + 1j)
        dist.all_reduce(tensor)
        self.assertEqual(tensor.tolist(), [1 + 2j, 1 + 2j])
        with self.assertRaisesRegex(ValueError, "all_reduce does not support .*MAX on complex tensors"):
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
        parts = [torch.zeros(2, dtype=torch.complex64) for _ in range(2)]
        dist.all_gather(parts, tensor * (dist.get_rank() + 1))
        self.assertEqual(parts[1].tolist(), [2 + 4j, 2 + 4j])

    @ranks(3)
    def test_broadcast_and_reduce(self):
        rank = dist.get_rank()
        tensor = full(float(rank))
        dist.broadcast(tensor, 1)
        self.assertEqual(tensor.tolist(), [1.0] * 3)
        tensor = full(float(rank))
        dist.reduce(tensor, dst=2)
        if rank == 2:
            self.assertEqual(tensor.tolist(), [3.0] * 3)
        tensor = full(float(rank))
        dist.broadcast(tensor, group_src=2)
        self.assertEqual(tensor.tolist(), [2.0] * 3)

    @ranks(3)
    def test_gathering(self):
        rank = dist.get_rank()
        parts = [full(-1.0) for _ in range(3)]
        dist.all_gather(parts, full(float(rank)))
        self.assertEqual([each.tolist() for each in parts], [[float(i)] * 3 for i in range(3)])
        whole = torch.empty(9)
        dist.all_gather_into_tensor(whole, full(float(rank)))
        self.assertEqual(whole.tolist(), [0.0] * 3 + [1.0] * 3 + [2.0] * 3)
        stacked = torch.empty(3, 3)
        dist.all_gather_into_tensor(stacked, full(float(rank)))
        self.assertEqual(stacked.tolist(), [[0.0] * 3, [1.0] * 3, [2.0] * 3])
        parts = [full(-1.0) for _ in range(3)] if rank == 1 else None
        dist.gather(full(float(rank)), parts, dst=1)
        if rank == 1:
            self.assertEqual([each[0].item() for each in parts], [0.0, 1.0, 2.0])
        whole = torch.empty(3, 2) if rank == 0 else None
        dist.gather_single(full(float(rank), 2), whole)
        if rank == 0:
            self.assertEqual(whole.tolist(), [[0.0] * 2, [1.0] * 2, [2.0] * 2])
        lists = [[full(-1.0), full(-1.0, 2)] for _ in range(3)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.all_gather_coalesced(lists, [full(float(rank)), full(rank + 10.0, 2)])
        self.assertEqual([each[1].tolist() for each in lists], [[10.0] * 2, [11.0] * 2, [12.0] * 2])

    @ranks(3)
    def test_scattering(self):
        rank = dist.get_rank()
        tensor = full(-1.0)
        dist.scatter(tensor, [full(i * 2.0) for i in range(3)] if rank == 0 else None)
        self.assertEqual(tensor.tolist(), [rank * 2.0] * 3)
        tensor = full(-1.0)
        dist.reduce_scatter(tensor, [full(float(i)) for i in range(3)])
        self.assertEqual(tensor.tolist(), [rank * 3.0] * 3)
        tensor = full(-1.0, 1)
        dist.reduce_scatter_tensor(tensor, torch.arange(3.0) + rank)
        self.assertEqual(tensor.item(), rank * 3 + 3)
        tensor = torch.empty(3)
        dist.all_to_all_single(tensor, torch.arange(3.0) + 10 * rank)
        self.assertEqual(tensor.tolist(), [rank, 10.0 + rank, 20.0 + rank])
        outputs = [torch.empty(i + 1) for i in range(3)]
        dist.all_to_all(outputs, [full(float(rank), rank + 1) for _ in range(3)])
        self.assertEqual([each.tolist() for each in outputs], [[0.0], [1.0] * 2, [2.0] * 3])
        uneven = torch.empty(1 + 2 + 3)
        dist.all_to_all_single(uneven, full(float(rank), 3 * (rank + 1)), [1, 2, 3], [rank + 1] * 3)
        self.assertEqual(uneven.tolist(), [0.0, 1.0, 1.0, 2.0, 2.0, 2.0])

    @ranks(2)
    def test_coalescing(self):
        tensors = [full(1.0), full(2.0, 5)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            future = dist.all_reduce_coalesced(tensors, async_op=True)
        future.wait()
        self.assertEqual([each[0].item() for each in tensors], [2.0, 4.0])
        with dist._coalescing_manager(async_ops=True) as manager:
            for tensor in tensors:
                work = dist.all_reduce(tensor, async_op=True)
        with self.assertRaisesRegex(ValueError, "Illegal to call wait on IllegalWork object"):
            work.wait()
        manager.wait()
        self.assertEqual([each[0].item() for each in tensors], [4.0, 8.0])
        outputs = [torch.empty(2), torch.empty(4)]
        with dist._coalescing_manager():
            for output in outputs:
                dist.all_gather_into_tensor(output, full(float(dist.get_rank()), output.numel() // 2))
        self.assertEqual(outputs[1].tolist(), [0.0, 0.0, 1.0, 1.0])
        with self.assertRaisesRegex(RuntimeError, "all collectives to be the same type"):
            with dist._coalescing_manager():
                dist.all_reduce(tensors[0])
                dist.all_gather_into_tensor(outputs[0], full(1.0, 1))

    @ranks(2)
    def test_barriers(self):
        dist.barrier()
        work = dist.barrier(async_op=True)
        work.wait()
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))

    @ranks(2)
    def test_arguments(self):
        wrong = (
            (lambda: dist.all_reduce([1]), TypeError, "Expected parameter `tensor` of type torch.Tensor"),
            (lambda: dist.all_gather(full(1.0), full(1.0)), TypeError, "`tensor_list` of type List"),
            (lambda: dist.all_gather([full(1.0), full(1, dtype=torch.int64)], full(1.0)), ValueError, "different dtypes"),
            (lambda: dist.broadcast(full(1.0)), ValueError, "Must specify global_rank or group_rank"),
            (lambda: dist.broadcast(full(1.0), 0, group_src=0), ValueError, "Can't specify both"),
            (lambda: dist.send(full(1.0), dist.get_rank()), ValueError, "Invalid destination rank"),
            (lambda: dist.gather(full(1.0), [full(1.0)] * 2 if dist.get_rank() else None), ValueError, "gather_list"),
            (lambda: dist.batch_isend_irecv([1]), ValueError, "Each op is expected"),
            (lambda: dist.P2POp(dist.send, full(1.0), 0), ValueError, "Invalid ``op``"),
            (lambda: dist.set_timeout(5), TypeError, "datetime.timedelta"),
        )
        for call, kind, text in wrong:
            with self.assertRaisesRegex(kind, text):
                call()


class Messages(unittest.TestCase):
    @ranks(3)
    def test_messages(self):
        rank = dist.get_rank()
        if rank == 0:
            dist.send(full(5.0), 1)
            dist.send(full(6.0), 2, tag=3)
            self.assertEqual(sorted(dist.recv(torch.empty(3)) for _ in range(2)), [1, 2])
        else:
            tensor = torch.empty(3)
            self.assertEqual(dist.recv(tensor, 0, tag=0 if rank == 1 else 3), 0)
            self.assertEqual(tensor.tolist(), [4.0 + rank] * 3)
            dist.isend(tensor, 0).wait()

    @ranks(3)
    def test_batch(self):
        rank = dist.get_rank()
        after, before = (rank + 1) % 3, (rank - 1) % 3
        received = torch.empty(2)
        operations = [
            dist.P2POp(dist.irecv, received, before),
            dist.P2POp(dist.isend, full(float(rank), 2), group_peer=after),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        self.assertEqual(received.tolist(), [float(before)] * 2)
        self.assertRegex(repr(operations[1]), rf"P2POp\(isend pg=.*group_src={rank}, group_dst={after}")


class Objects(unittest.TestCase):
    @ranks(3)
    def test_objects(self):
        rank = dist.get_rank()
        found = [None] * 3
        dist.all_gather_object(found, {"rank": rank, "text": "x" * rank * 100})
        self.assertEqual([each["rank"] for each in found], [0, 1, 2])
        found = [None] * 3 if rank == 1 else None
        dist.gather_object((rank, torch.ones(rank)), found, dst=1)
        if rank == 1:
            self.assertEqual([each[1].numel() for each in found], [0, 1, 2])
        objects = ["a", 2, [rank]]
        dist.broadcast_object_list(objects, src=2)
        self.assertEqual(objects, ["a", 2, [2]])
        output = [None]
        dist.scatter_object_list(output, ["zero", 1.0, {"two": 2}] if rank == 0 else None)
        self.assertEqual(output, [["zero", 1.0, {"two": 2}][rank]])

    @ranks(2)
    def test_lists_between_two(self):
        for use_batch in (False, True):
            if dist.get_rank() == 0:
                dist.send_object_list(["a", {"b": 1}], dst=1, use_batch=use_batch)
            else:
                objects = [None, None]
                self.assertEqual(dist.recv_object_list(objects, src=0, use_batch=use_batch), 0)
                self.assertEqual(objects, ["a", {"b": 1}])

    @ranks(2)
    def test_weights_only(self):
        found = [None, None]
        dist.all_gather_object(found, {"w": torch.ones(2)}, weights_only=True)
        self.assertEqual(found[1]["w"].tolist(), [1.0, 1.0])


class Groups(unittest.TestCase):
    @ranks(4)
    def test_new_group(self):
        rank = dist.get_rank()
        group = dist.new_group([3, 1])
        if rank in (1, 3):
            self.assertEqual(dist.get_rank(group), (1, 3).index(rank))
            self.assertEqual((dist.get_world_size(group), dist.get_process_group_ranks(group)), (2, [1, 3]))
            self.assertEqual((dist.get_group_rank(group, 3), dist.get_global_rank(group, 0)), (1, 1))
            tensor = full(float(rank))
            dist.all_reduce(tensor, group=group)
            self.assertEqual(tensor.tolist(), [4.0] * 3)
            with self.assertRaisesRegex(ValueError, "Global rank 0 is not part of group"):
                dist.get_group_rank(group, 0)
        else:
            self.assertEqual(group, dist.GroupMember.NON_GROUP_MEMBER)
            self.assertEqual((dist.get_rank(group), dist.get_world_size(group)), (-1, -1))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self.assertIsNone(dist.all_reduce(full(1.0), group=group))
            self.assertTrue(any("does not belong to the given group" in str(each.message) for each in caught))
        dist.destroy_process_group(group)
        kept = dist.new_group([2, 0], sort_ranks=False)
        if rank in (0, 2):
            self.assertEqual(dist.get_process_group_ranks(kept), [2, 0])
            self.assertEqual(dist.get_rank(kept), (2, 0).index(rank))

    @ranks(4)
    def test_wrong_groups(self):
        for given, text in (([0, 0], "must not contain duplicate"), ([9], "Rank 9 is out of range"), (list(range(5)), "less or")):
            with self.assertRaisesRegex(ValueError, text):
                dist.new_group(given)
        with self.assertRaisesRegex(TypeError, "sequence of integers"):
            dist.new_group(["a"])
        with self.assertRaisesRegex(ValueError, "must be divisible"):
            dist.new_subgroups(3)
        with self.assertRaisesRegex(ValueError, "has appeared in both"):
            dist.new_subgroups_by_enumeration([[0, 1], [1, 2]])

    @ranks(4)
    def test_subgroups(self):
        mine, groups = dist.new_subgroups(2)
        self.assertEqual(dist.get_process_group_ranks(mine), [[0, 1], [2, 3]][dist.get_rank() // 2])
        self.assertEqual(len(groups), 2)
        local = dist.new_group([0, 1] if dist.get_rank() < 2 else [2, 3], use_local_synchronization=True)
        tensor = full(float(dist.get_rank()))
        dist.all_reduce(tensor, group=local)
        self.assertEqual(tensor[0].item(), [1.0, 5.0][dist.get_rank() // 2])

    @ranks(4)
    def test_splitting(self):
        rank = dist.get_rank()
        group = dist.split_group(split_ranks=[[0, 2], [1, 3]])
        self.assertEqual(dist.get_process_group_ranks(group), [rank % 2, rank % 2 + 2])
        tensor = full(float(rank))
        dist.all_reduce(tensor, group=group)
        self.assertEqual(tensor[0].item(), [2.0, 4.0][rank % 2])
        for given, text in ((None, "cannot be None or empty"), ([[]], "cannot be empty"), ([[0, 0]], "duplicate ranks")):
            with self.assertRaisesRegex(ValueError, text):
                dist.split_group(split_ranks=given)

    @ranks(4)
    def test_shrinking(self):
        rank = dist.get_rank()
        part = dist.new_group([0, 1, 2])
        if rank in (0, 2):
            smaller = dist.shrink_group([1], group=part)
            tensor = full(float(rank))
            dist.all_reduce(tensor, group=smaller)
            self.assertEqual((tensor[0].item(), dist.get_process_group_ranks(smaller)), (2.0, [0, 2]))
        dist.barrier()
        if rank != 3:
            made = dist.shrink_group([3])
            self.assertIs(dist.group.WORLD, made)
            tensor = full(float(rank))
            dist.all_reduce(tensor)
            self.assertEqual((tensor[0].item(), dist.get_world_size()), (3.0, 3))

    @ranks(2)
    def test_the_default_group(self):
        self.assertTrue(dist.is_initialized() and dist.is_available())
        self.assertIs(dist.group.WORLD, dist.GroupMember.WORLD)
        self.assertIs(dist.group.WORLD, dist.distributed_c10d._get_default_group())
        self.assertEqual(dist.get_backend(), "threaded")
        self.assertEqual(dist.get_backend_config(), "cpu:threaded")
        self.assertEqual(dist.get_process_group_ranks(None), [0, 1])
        with self.assertRaisesRegex(ValueError, "trying to initialize the default process group twice"):
            dist.init_process_group("threaded", rank=0, world_size=1, store=dist.HashStore())


class Starting(unittest.TestCase):
    def tearDown(self):
        if dist.is_initialized():
            dist.destroy_process_group()

    def test_before(self):
        self.assertFalse(dist.is_initialized())
        for call in (dist.get_rank, dist.get_world_size, dist.barrier, dist.get_backend):
            with self.assertRaisesRegex(ValueError, "Default process group has not been initialized"):
                call()
        self.assertIsNone(dist.group.WORLD)
        with self.assertRaisesRegex(AssertionError, "Process group cannot be None"):
            dist.destroy_process_group()

    def test_where(self):
        store = dist.HashStore()
        with self.assertRaisesRegex(AssertionError, "Cannot specify both init_method and store"):
            dist.init_process_group("gloo", init_method="env://", store=store, rank=0, world_size=1)
        with self.assertRaisesRegex(AssertionError, "world_size must be positive"):
            dist.init_process_group("gloo", store=store)
        with self.assertRaisesRegex(ValueError, "environment variable RANK expected, but not set"):
            dist.init_process_group("gloo")
        with self.assertRaisesRegex(RuntimeError, "No rendezvous handler for nowhere://"):
            dist.init_process_group("gloo", init_method="nowhere://x", rank=0, world_size=1)
        with self.assertRaisesRegex(ValueError, "rank parameter missing"):
            next(dist.rendezvous("tcp://127.0.0.1:29999"))
        with self.assertRaisesRegex(TypeError, "datetime.timedelta"):
            dist.init_process_group("gloo", store=store, rank=0, world_size=1, timeout=30)

    def test_unknown_backend(self):
        with self.assertRaises((RuntimeError, AssertionError)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.init_process_group("no_such_engine", store=dist.HashStore(), rank=0, world_size=1)
        with self.assertRaisesRegex(RuntimeError, "doesn't have UCC built in"):
            dist.init_process_group("ucc", store=dist.HashStore(), rank=0, world_size=1)

    def meet(self, url, **more):
        """What two threads get that meet at an address."""
        found = {}

        def rank(number):
            store, rank, size = next(dist.rendezvous(url, number, 2, timeout=datetime.timedelta(seconds=20), **more))
            store.set(f"from {rank}", str(size))
            found[rank] = store.get(f"from {1 - rank}"), store

        threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual({number: value for number, (value, _) in found.items()}, {0: b"2", 1: b"2"})

    def test_meetings(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.meet(f"tcp://127.0.0.1:{port}")
        with tempfile.TemporaryDirectory() as folder:
            self.meet(f"file://{folder}/meeting")

    def test_backends_from_outside(self):
        made = []

        def create(store, rank, size, timeout):
            made.append((rank, size, timeout))
            return dist.ProcessGroup(rank, size)

        dist.Backend.register_backend("outside", create, devices="cpu")
        self.assertEqual((dist.Backend.OUTSIDE, dist.Backend("OUTSIDE")), ("outside", "outside"))
        self.assertTrue(dist.is_backend_available("outside"))
        dist.init_process_group("outside", store=dist.HashStore(), rank=0, world_size=1)
        self.assertEqual(made, [(0, 1, dist.default_pg_timeout)])
        self.assertEqual((dist.get_backend(), dist.get_rank(), dist.get_world_size()), ("outside", 0, 1))

    def test_backend_config(self):
        self.assertEqual(repr(dist.BackendConfig("cpu:gloo,cuda:nccl")), "cpu:gloo,cuda:nccl")
        self.assertEqual(dist.BackendConfig("gloo").get_device_backend_map(), {"cpu": "gloo", "cuda": "gloo"})
        for text, error in (("cpu:gloo,cpu:mpi", "Duplicate device type"), ("cpu:gloo:x", "Invalid device:backend pairing")):
            with self.assertRaisesRegex(ValueError, error):
                dist.BackendConfig(text)
        self.assertEqual(dist.get_default_backend_for_device("cuda:0"), "nccl")
        self.assertEqual(dist.get_default_backend_for_device(torch.device("cpu")), "gloo")

    def test_names(self):
        self.assertEqual(dist.get_node_local_rank(3), 3)
        with self.assertRaisesRegex(RuntimeError, "LOCAL_RANK is not in the environment"):
            dist.get_node_local_rank()
        self.assertIs(pickle.loads(pickle.dumps(dist.all_reduce)), dist.all_reduce)
        self.assertEqual(dist.all_reduce.__module__.partition(".")[2], "distributed.distributed_c10d")
        with self.assertWarnsRegex(FutureWarning, "reduce_op` is deprecated"):
            self.assertEqual(dist.reduce_op.SUM, dist.ReduceOp.SUM)
        self.assertFalse(dist.is_ucc_available() or dist.is_xccl_available() or dist.is_torchelastic_launched())


class Failures(unittest.TestCase):
    def test_a_rank_that_raises(self):
        def rank():
            if dist.get_rank() == 1:
                raise KeyError("rank one")
            dist.barrier()

        with self.assertRaisesRegex(RuntimeError, "rank one"):
            run_threads(2, rank, timeout=20)

    def test_threads_are_ranks_only_within(self):
        with threads_as_ranks():
            self.assertTrue(dist.distributed_c10d._world.threads_are_ranks)
        self.assertFalse(dist.distributed_c10d._world.threads_are_ranks)


os.environ.pop("RANK", None)
os.environ.pop("LOCAL_RANK", None)

class Launchers(unittest.TestCase):
    def test_mpi_is_not_for_processes_that_others_started(self):
        import os
        from unittest import mock

        from corten.distributed._c10d import backends

        with mock.patch.object(backends, "_is_mpi_there", lambda: True):
            for variables, expected in (
                ({}, True), ({"WORLD_SIZE": "1"}, True), ({"WORLD_SIZE": "2", "RANK": "0"}, False),
                ({"WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, True), ({"WORLD_SIZE": "2", "PMI_RANK": "1"}, True),
            ):
                with mock.patch.dict(os.environ, variables, clear=True):
                    self.assertEqual(backends.is_mpi_available(), expected)


if __name__ == "__main__":
    unittest.main()
