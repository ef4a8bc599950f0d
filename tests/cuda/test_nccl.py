"""The back end nccl: between processes on the emulated driver with a stand-in for the library, and alone on a GPU."""

import datetime
import os
import tempfile
import unittest
from pathlib import Path

from cuda_under_test import CudaTest, ON_GPU, torch, usable
from emulator import AVAILABLE, MISSING, build
from rank_processes import RankProcesses

import corten.distributed as dist

if AVAILABLE and not ON_GPU:
    os.environ["CORTEN_NCCL_LIBRARY"] = str(build() / "libnccl.so.2")
    #: Communicators that are kept for the process leave folders.
    FOLDERS = tempfile.TemporaryDirectory()
    os.environ["FAKENCCL_FOLDER"] = FOLDERS.name

needed = usable
if ON_GPU and not dist.is_nccl_available():
    print("nccl: not run: libnccl.so.2 is not installed; `pip install nvidia-nccl-cu13` brings it")
    needed = unittest.skip("libnccl.so.2 is not installed")

START = """
dist.init_process_group("nccl", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=30))
torch.cuda.set_device(rank % torch.cuda.device_count())

def gpu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).cuda()

def same(tensor, values):
    assert tensor.cpu().tolist() == values, (rank, tensor, values)

def raises(kind, words, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{words!r} was not raised")
"""

COLLECTIVES = """
for dtype in [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8,
              torch.uint8, torch.float8_e5m2, torch.float8_e4m3fn]:
    x = torch.tensor([1.0, 2.0, 3.0]).to(dtype).cuda()
    dist.all_reduce(x)
    same(x.cpu().float(), [2.0, 4.0, 6.0])
ops = {dist.ReduceOp.PRODUCT: [2.0, 6.0], dist.ReduceOp.MIN: [1.0, 2.0], dist.ReduceOp.MAX: [2.0, 3.0],
       dist.ReduceOp.AVG: [1.5, 2.5], dist.ReduceOp.SUM: [3.0, 5.0]}
for op, values in ops.items():
    x = gpu([1.0 + rank, 2.0 + rank])
    dist.all_reduce(x, op=op)
    same(x, values)
for factor in (2.0, gpu([2.0])):
    x = gpu([1.0, 3.0])
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(factor))
    same(x, [4.0, 12.0])
x = gpu([rank == 0, False, True], torch.bool)
dist.all_reduce(x)
same(x, [True, False, True])
x = gpu([1 + 2j, 3j], torch.complex64)
dist.all_reduce(x)
same(x, [2 + 4j, 6j])
raises(ValueError, "Cannot use ReduceOp.BAND with NCCL", dist.all_reduce, gpu([1], torch.int32), dist.ReduceOp.BAND)
raises(TypeError, "not supported for NCCL process group", dist.all_reduce, gpu([1], torch.int16))
raises(TypeError, "Cannot use ReduceOp.AVG with boolean", dist.all_reduce, gpu([True], torch.bool), dist.ReduceOp.AVG)
raises(ValueError, "must be contiguous", dist.all_reduce, gpu([[1.0, 2.0], [3.0, 4.0]]).t())
raises(RuntimeError, "No backend type associated with device type cpu", dist.all_reduce, torch.ones(2))
empty = gpu([])
dist.all_reduce(empty)

x = gpu([5, 6] if rank == 1 else [0, 0], torch.int16)
dist.broadcast(x, src=1)
same(x, [5, 6])
x = gpu([1.0 + rank])
dist.reduce(x, dst=1)
if rank == 1:
    same(x, [3.0])
parts = [torch.zeros(2).cuda() for _ in range(size)]
dist.all_gather(parts, gpu([rank, 10.0 + rank]))
same(parts[0], [0.0, 10.0]), same(parts[1], [1.0, 11.0])
parts = [torch.zeros(n + 1).cuda() for n in range(size)]
dist.all_gather(parts, torch.full((rank + 1,), rank + 1.0).cuda())
same(parts[0], [1.0]), same(parts[1], [2.0, 2.0])
whole = torch.zeros(4).cuda()
dist.all_gather_into_tensor(whole, gpu([rank, 10.0 + rank]))
same(whole, [0.0, 10.0, 1.0, 11.0])
part = torch.zeros(1).cuda()
dist.reduce_scatter(part, [gpu([1.0]), gpu([2.0 + rank])])
same(part, [2.0] if rank == 0 else [5.0])
part = torch.zeros(2).cuda()
dist.reduce_scatter_tensor(part, gpu([1.0, 2.0, 3.0, 4.0]), op=dist.ReduceOp.AVG)
same(part, [1.0, 2.0] if rank == 0 else [3.0, 4.0])
out = torch.zeros(2).cuda()
dist.all_to_all_single(out, gpu([10.0 * rank, 10.0 * rank + 1]))
same(out, [float(rank), 10.0 + rank])
out = torch.zeros(3 if rank == 0 else 1).cuda()
dist.all_to_all_single(out, gpu([1.0, 2.0, 3.0] if rank == 0 else [4.0]), [3, 0] if rank == 0 else [0, 1],
                       [3, 0] if rank == 0 else [0, 1])
same(out, [1.0, 2.0, 3.0] if rank == 0 else [4.0])
outs = [torch.zeros(1).cuda(), torch.zeros(2).cuda()] if rank == 0 else [torch.zeros(2).cuda(), torch.zeros(1).cuda()]
dist.all_to_all(outs, [gpu([rank]), gpu([5.0, 6.0])] if rank == 0 else [gpu([7.0, 8.0]), gpu([9.0])])
same(outs[1 - rank], [7.0, 8.0] if rank == 0 else [5.0, 6.0])
parts = [torch.zeros(1).cuda() for _ in range(size)] if rank == 0 else None
dist.gather(gpu([rank + 1.0]), parts, dst=0)
if rank == 0:
    same(parts[0], [1.0]), same(parts[1], [2.0])
out = torch.zeros(1).cuda()
dist.scatter(out, [gpu([3.0]), gpu([4.0])] if rank == 1 else None, src=1)
same(out, [3.0 + rank])
if rank == 0:
    dist.send(gpu([1.0, 2.0]), 1)
    work = dist.irecv(out, 1)
    work.wait()
    same(out, [9.0])
else:
    pair = torch.zeros(2).cuda()
    dist.recv(pair, 0)
    same(pair, [1.0, 2.0])
    dist.isend(gpu([9.0]), 0).wait()
raises(RuntimeError, "recvAnysource", dist.recv, out)
sent, got = gpu([100.0 + rank]), torch.zeros(1).cuda()
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]):
    work.wait()
same(got, [101.0 - rank])
several = [gpu([1.0 + rank]), gpu([2.0, 3.0])]
with dist._coalescing_manager(device=torch.device("cuda"), async_ops=True) as manager:
    for tensor in several:
        dist.all_reduce(tensor)
manager.wait()
same(several[0], [3.0]), same(several[1], [4.0, 6.0])
dist.barrier()
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}], objects
"""

STREAMS = """
# What a stream is given before and after a call, and memory that is freed while it runs.
side = torch.cuda.Stream()
for turn in range(6):
    x = torch.zeros(64).cuda()
    torch.cuda.current_stream().synchronize()
    with torch.cuda.stream(side) if turn % 2 else torch.cuda.stream(torch.cuda.current_stream()):
        torch.cuda._sleep(10)
        x += rank + 1
        work = dist.all_reduce(x, async_op=turn < 4)
        if work is not None:
            work.wait()
        y = x * 2
        torch.cuda.current_stream().synchronize()
    same(y, [6.0] * 64)
for turn in range(4):
    x = torch.full((256,), 1.0).cuda()
    work = dist.all_reduce(x, async_op=True)
    address = x.data_ptr()
    result = work.result()[0]
    del x
    other = torch.full((256,), 7.0).cuda()
    work.wait()
    same(result, [2.0] * 256), same(other, [7.0] * 256)
    del work, result
work = dist.all_reduce(gpu([1.0]), async_op=True)
future = work.get_future()
same(future.wait()[0], [2.0])
assert work.is_completed() and work.is_success()
"""

GROUPS = """
group = dist.new_group([1, 0], sort_ranks=False)
x = gpu([float(rank)])
dist.broadcast(x, src=1, group=group)
same(x, [1.0])
whole = dist.group.WORLD
before = whole._get_backend(torch.device("cuda")).comm_split_count()
part = dist.split_group(split_ranks=[[0], [1]])
x = gpu([float(rank)])
dist.all_reduce(x, group=part)
same(x, [float(rank)])
backend = whole._get_backend(torch.device("cuda"))
assert backend.comm_split_count() == before + 1, backend.comm_split_count()
assert backend._is_initialized() and backend.name() == "nccl" and backend.options.backend == "nccl"
assert backend.get_runtime_nccl_version() == (2, 28, 0) == torch.cuda.nccl.version()
assert isinstance(backend, dist.ProcessGroupNCCL) and dist.get_backend() == "nccl"
"""

DDP = """
torch.manual_seed(0)
def model():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).double()
alone, net = model(), model().cuda()
net.load_state_dict(alone.state_dict())
wrapped = torch.nn.parallel.DistributedDataParallel(net, device_ids=[torch.cuda.current_device()])
data = torch.randn(8, 6, dtype=torch.float64)
for step in range(3):
    for each, rows in ((alone, data), (wrapped, data[rank::size].cuda())):
        for p in each.parameters():
            p.grad = None
        each(rows).square().mean().backward()
        with torch.no_grad():
            for p in each.parameters():
                p -= 0.1 * p.grad
for p, q in zip(alone.parameters(), net.parameters()):
    assert torch.allclose(p, q.cpu(), 1e-9, 1e-12), (p, q)
"""

FAILURES = """
time_of_calls = datetime.timedelta(seconds=2)
def group_that_works():
    group, x = dist.new_group(timeout=time_of_calls), gpu([1.0])
    dist.all_reduce(x, group=group)
    same(x, [3.0])
    return group

# One rank never comes to make the communicator.
group = dist.new_group(timeout=time_of_calls)
if rank != 1:
    raises(dist.DistBackendError, "ank 1 did not", dist.all_reduce, gpu([1.0]), group=group)
meet()

# One rank stays away from a collective: who waits for the device learns of it, and so does every later call.
group = group_that_works()
if rank != 2:
    x = gpu([1.0])
    work = dist.all_reduce(x, group=group, async_op=True)
    work.wait()
    raises(RuntimeError, "Rank 2 did not report", x.cpu)
    assert isinstance(work.exception(), dist.DistBackendError) and work.is_completed() and not work.is_success()
    raises(dist.DistBackendError, "timed out", dist.all_reduce, x, group=group)
meet()

# Sizes that differ.
group = group_that_works()
x = torch.zeros(3 + rank).cuda()
raises(RuntimeError, "invalid usage", lambda: (dist.all_reduce(x, group=group), time.sleep(0.5), x.cpu()))
meet()

# An abort by the program.
group = group_that_works()
group.abort()
raises(dist.DistBackendError, "aborted", dist.all_reduce, gpu([1.0]), group=group)
meet()

# A rank dies: the others say which.
group = group_that_works()
if rank == 2:
    os.kill(os.getpid(), 9)
x = gpu([1.0])
raises(RuntimeError, "Rank 2 did not report", lambda: dist.all_reduce(x, group=group, async_op=True).wait(time_of_calls * 5))
print("done", flush=True)
os._exit(0)
"""

# A barrier over the store alone.
MEET = """
turns = []
def meet():
    turns.append(len(turns))
    store.set(f"turn{turns[-1]}/{rank}", "1")
    store.wait([f"turn{turns[-1]}/{other}" for other in range(size)], datetime.timedelta(seconds=30))
"""


@unittest.skipUnless(AVAILABLE and not ON_GPU, MISSING)
class Ranks(RankProcesses):
    def test_two_ranks(self):
        program = START + COLLECTIVES + STREAMS + GROUPS + DDP + "\ndist.destroy_process_group()\nprint('done')"
        for process in self.start(program, 2):
            self.assertEqual(self.finish(process), "done\n")

    def test_failures(self):
        for rank, process in enumerate(self.start(START + MEET + FAILURES, 3)):
            output = self.finish(process, -9 if rank == 2 else 0)
            self.assertEqual(output, "" if rank == 2 else "done\n")

    def test_errors_of_the_library(self):
        program = START + MEET + """
x = gpu([1.0])
dist.all_reduce(x)
same(x, [2.0])
meet()
dist.all_reduce(x)
time.sleep(0.5)
raises(RuntimeError, "remote process exited", lambda: (dist.all_reduce(x), x.cpu()))
os._exit(0)
"""
        for process in self.start(program, 2, FAKENCCL_FAIL="2"):
            self.finish(process)


@needed
class Alone(CudaTest):
    """A world of one rank, with two communicators; also on a GPU."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        dist.init_process_group(
            "nccl", init_method=f"file://{Path(cls.folder.name) / 'store'}", rank=0, world_size=1,
            timeout=datetime.timedelta(seconds=60), device_id=torch.device("cuda", 0),
        )
        cls.addClassCleanup(dist.destroy_process_group)

    def test_every_collective(self):
        x = torch.arange(6.0).cuda()
        for call in (dist.all_reduce, lambda t: dist.broadcast(t, 0), lambda t: dist.reduce(t, 0)):
            call(x)
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        dist.all_reduce(x, op=dist._make_nccl_premul_sum(3.0))
        self.assertEqual(x.cpu().tolist(), [0.0, 3.0, 6.0, 9.0, 12.0, 15.0])
        out = torch.zeros(6).cuda()
        for call in (
            lambda: dist.all_gather([out], x), lambda: dist.all_gather_into_tensor(out, x),
            lambda: dist.reduce_scatter(out, [x]), lambda: dist.reduce_scatter_tensor(out, x),
            lambda: dist.all_to_all([out], [x]), lambda: dist.all_to_all_single(out, x),
            lambda: dist.gather(x, [out]), lambda: dist.scatter(out, [x]),
        ):
            out.zero_()
            call()
            self.assertEqual(out.cpu().tolist(), x.cpu().tolist())
        dist.barrier()

    def test_dtypes(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool):
            x = torch.tensor([1, 0, 1]).to(dtype).cuda()
            dist.all_reduce(x)
            self.assertEqual(x.cpu().to(torch.int64).tolist(), [1, 0, 1], dtype)

    def test_second_communicator(self):
        group, other = dist.new_group([0]), torch.cuda.Stream()
        x, y = torch.ones(1000).cuda(), torch.ones(1000).cuda()
        for _ in range(10):
            first = dist.all_reduce(x, async_op=True)
            with torch.cuda.stream(other):
                dist.all_reduce(y, group=group, async_op=True).wait()
                y += 1
            first.wait()
            x += 1
        other.synchronize()
        self.assertEqual((x.cpu().tolist(), y.cpu().tolist()), ([11.0] * 1000,) * 2)
        dist.destroy_process_group(group)

    def test_names(self):
        backend = dist.group.WORLD._get_backend(torch.device("cuda"))
        self.assertTrue(backend._is_initialized() and backend._comm_ptr())
        self.assertEqual(dist.get_backend(), "nccl")
        self.assertGreaterEqual(backend.get_runtime_nccl_version(), (2, 18))
        self.assertTrue(dist.is_nccl_available())
        options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
        self.assertEqual((options.backend, options.is_high_priority_stream), ("nccl", True))
        self.assertEqual((options._timeout, options.config.blocking), (datetime.timedelta(minutes=10), -(2**31)))

    def test_ddp(self):
        net = torch.nn.Linear(3, 2).cuda()
        wrapped = torch.nn.parallel.DistributedDataParallel(net, device_ids=[0])
        rows = torch.randn(4, 3).cuda()
        wrapped(rows).sum().backward()
        self.assertTrue(torch.allclose(net.bias.grad.cpu(), torch.full((2,), 4.0)))


class Functions(CudaTest):
    """torch.cuda.nccl: the devices of one process."""

    @unittest.skipUnless(AVAILABLE and not ON_GPU, MISSING)
    def test_two_devices(self):
        nccl = torch.cuda.nccl
        first, second = torch.tensor([1.0, 2.0], device="cuda:0"), torch.tensor([10.0, 20.0], device="cuda:1")
        results = [torch.zeros(2, device="cuda:0"), torch.zeros(2, device="cuda:1")]
        self.assertTrue(nccl.is_available([first, second]))
        self.assertFalse(nccl.is_available([first, first]) or nccl.is_available([first.cpu()]))
        for number, wanted in enumerate(([11.0, 22.0], [10.0, 40.0], [10.0, 20.0], [1.0, 2.0], [5.5, 11.0])):
            nccl.all_reduce([first, second], results, op=number)
            self.assertEqual([result.tolist() for result in results], [wanted] * 2)
        nccl.reduce((first, second), results[1], root=1)
        self.assertEqual((results[1].tolist(), second.tolist()), ([11.0, 22.0], [10.0, 20.0]))
        whole = [torch.zeros(4, device="cuda:0"), torch.zeros(2, 2, device="cuda:1")]
        nccl.all_gather([first, second], whole)
        self.assertEqual([result.flatten().tolist() for result in whole], [[1.0, 2.0, 10.0, 20.0]] * 2)
        streams = [torch.cuda.Stream(device) for device in (0, 1)]
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream(stream.device))
        nccl.reduce_scatter(whole, results, streams=streams)
        for stream in streams:
            stream.synchronize()
        self.assertEqual([result.tolist() for result in results], [[2.0, 4.0], [20.0, 40.0]])
        nccl.broadcast([first, second], root=1)
        nccl.all_reduce([first, second])
        self.assertEqual((first.tolist(), second.tolist()), ([20.0, 40.0],) * 2)
        for words, wrong in (
            ("unique devices", lambda: nccl.all_reduce([first, first])),
            ("same length", lambda: nccl.all_reduce([first, second], [first])),
            ("can't be empty", lambda: nccl.all_reduce([])),
            ("4 are expected", lambda: nccl.all_gather([first, second], results)),
            ("output 0 must be a dense CUDA tensor", lambda: nccl.all_reduce([first], [first.cpu()])),
        ):
            self.assertRaisesRegex(RuntimeError, words, wrong)
        self.assertRaisesRegex(TypeError, "collection of tensors", nccl.all_reduce, first)
        self.assertRaisesRegex(ValueError, "from 0 to 4", nccl.all_reduce, [first], op=7)

    @needed
    def test_one_device(self):
        x = torch.arange(4.0).cuda()
        torch.cuda.nccl.all_reduce([x])
        self.assertEqual(x.tolist(), [0.0, 1.0, 2.0, 3.0])
