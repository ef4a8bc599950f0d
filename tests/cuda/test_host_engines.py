"""Tensors on GPUs over engines that take the host's memory: ranks as threads, and gloo between processes."""

import threading
import unittest

from cuda_under_test import CudaTest, ON_GPU, torch, usable
from emulator import AVAILABLE, MISSING
from rank_processes import RankProcesses

import corten.distributed as dist
from corten._C._distributed_c10d import HashStore, ProcessGroupThreads, ReduceOp

GLOO = """
dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=30))
torch.cuda.set_device(rank % torch.cuda.device_count())
x = (torch.arange(6.0).reshape(2, 3) + rank).cuda().t()
dist.all_reduce(x)
assert x.cpu().tolist() == [[1.0, 7.0], [3.0, 9.0], [5.0, 11.0]], x
work = dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)
work.wait()
y = x * 2
assert y.cpu().tolist() == [[2.0, 14.0], [6.0, 18.0], [10.0, 22.0]], y
parts = [torch.zeros(2, dtype=torch.int16).cuda() for _ in range(size)]
dist.all_gather(parts, torch.tensor([rank, 5], dtype=torch.int16).cuda())
assert [part.cpu().tolist() for part in parts] == [[0, 5], [1, 5]], parts
if rank == 0:
    dist.send(y, 1)
else:
    got = torch.zeros(3, 2).cuda()
    assert dist.recv(got, 0) == 0
    assert torch.equal(got.cpu(), y.cpu())
net = torch.nn.Linear(2, 1).cuda()
wrapped = torch.nn.parallel.DistributedDataParallel(net, device_ids=[torch.cuda.current_device()])
wrapped(torch.full((1, 2), rank + 1.0).cuda()).sum().backward()
assert net.weight.grad.cpu().tolist() == [[1.5, 1.5]], net.weight.grad
dist.barrier()
dist.destroy_process_group()
print("done")
"""


@usable
class Threads(CudaTest):
    def on_ranks(self, function, size=2):
        store, failures = HashStore(), []

        def run(rank):
            try:
                torch.cuda.set_device(rank % torch.cuda.device_count())
                function(rank, ProcessGroupThreads(store, rank, size))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        if failures:
            raise failures[0]

    def test_collectives(self):
        def check(rank, group):
            x = torch.tensor([1.0 + rank, 2.0]).cuda()
            for _ in range(3):
                torch.cuda._sleep(10)
                x += 1
                group.allreduce([x]).wait()
                x /= 2
            self.assertEqual(x.cpu().tolist(), [4.5, 5.0])
            group.allreduce([x], ReduceOp.PREMUL_SUM(torch.tensor([2.0]).cuda())).wait()
            self.assertEqual(x.cpu().tolist(), [18.0, 20.0])
            whole = torch.zeros(2, 2).cuda()
            group._allgather_base(whole, torch.tensor([[rank, 7.0]]).cuda()).wait()
            self.assertEqual(whole.cpu().tolist(), [[0.0, 7.0], [1.0, 7.0]])
            part = torch.zeros(1).cuda()
            group._reduce_scatter_base(part, torch.tensor([1.0, 2.0]).cuda()).wait()
            self.assertEqual(part.cpu().tolist(), [2.0 + 2 * rank])
            # On the host, in the same group.
            host = torch.ones(2)
            group.allreduce([host]).wait()
            self.assertEqual(host.tolist(), [2.0, 2.0])
            work = group.broadcast([x], root=1)
            work.synchronize()
            self.assertEqual(work.result()[0].device.type, "cuda")

        self.on_ranks(check)

    def test_messages(self):
        def check(rank, group):
            if rank == 0:
                group.send([torch.arange(4.0).cuda()], 1).wait()
            else:
                x = torch.zeros(4).cuda()
                work = group.recv_anysource([x])
                work.wait()
                self.assertEqual((work.source_rank(), x.cpu().tolist()), (0, [0.0, 1.0, 2.0, 3.0]))

        self.on_ranks(check)


@unittest.skipUnless(AVAILABLE and not ON_GPU, MISSING)
class Gloo(RankProcesses):
    def test_processes(self):
        if not dist.is_gloo_available():
            self.skipTest("gloo is not installed")
        for process in self.start(GLOO, 2):
            self.assertEqual(self.finish(process), "done\n")
