"""Memory that is shared: with other libraries, with other processes, and between GPUs of one process."""

import gc
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

cuda = torch.cuda


class Described:
    """What another library would give out."""

    def __init__(self, tensor, **changes):
        self.tensor, self.changes = tensor, changes

    @property
    def __cuda_array_interface__(self):
        return {**self.tensor.__cuda_array_interface__, **self.changes}


@usable
class ArrayInterface(CudaTest):
    def test_import(self):
        for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64):
            source = torch.arange(6, device="cuda").reshape(2, 3).to(dtype).t()
            made = torch.as_tensor(Described(source))
            self.assertEqual((made.data_ptr(), made.dtype, made.shape, made.stride(), made.device),
                             (source.data_ptr(), dtype, source.shape, source.stride(), source.device))
            self.assertTrue(torch.equal(made, source))
        made = torch.tensor(Described(source))
        self.assertNotEqual(made.data_ptr(), source.data_ptr())
        self.assertEqual(torch.as_tensor(Described(torch.ones(0, 3, device="cuda"))).shape, (0, 3))

    def test_other_device_and_lifetime(self):
        last = cuda.device_count() - 1
        source = torch.arange(4.0, device=f"cuda:{last}")
        made = torch.as_tensor(Described(source))
        self.assertEqual(made.device.index, last)
        del source
        gc.collect()
        torch.zeros(4, device=f"cuda:{last}")
        self.assertEqual(made.tolist(), [0, 1, 2, 3])
        made.record_stream(cuda.Stream(last))

    def test_stream_of_the_producer(self):
        stream = cuda.Stream()
        x = torch.zeros(100, device="cuda")
        cuda.synchronize()
        with cuda.stream(stream):
            cuda._sleep(100)
            x += 5
        made = torch.as_tensor(Described(x, version=3, stream=stream.cuda_stream))
        self.assertEqual(made.sum().item(), 500)
        for known in (None, 1, 2):
            torch.as_tensor(Described(x, version=3, stream=known))
        with self.assertRaisesRegex(ValueError, "stream 0 is ambiguous"):
            torch.as_tensor(Described(x, version=3, stream=0))

    def test_refusals(self):
        x = torch.ones(3, device="cuda")
        host = torch.ones(3)
        with self.assertRaisesRegex(ValueError, "resides on host memory"):
            torch.as_tensor(Described(x, data=(host.data_ptr(), False)))
        with self.assertRaisesRegex(ValueError, "byte order"):
            torch.as_tensor(Described(x, typestr=">f4"))
        with self.assertRaisesRegex(TypeError, "can't convert memory of type"):
            torch.as_tensor(Described(x, typestr="<M8"))
        with self.assertRaises(RuntimeError):
            torch.as_tensor(Described(x, strides=(-4,)))


def receive(inbox, outbox):
    first, second = inbox.get()
    outbox.put((first.sum().item(), second.tolist(), str(first.device)))
    outbox.put(inbox.get().query())
    first.mul_(2)
    cuda.synchronize()
    outbox.put(outcome(first))
    inbox.get()
    del first, second
    gc.collect()
    outbox.put("freed")
    inbox.get()


def outcome(received):
    """What sending on gives."""
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.dumps(received)
    except RuntimeError as error:
        return str(error)
    return "sent"


@usable
class Processes(CudaTest):
    def test_queue(self):
        import corten.multiprocessing as processes
        from corten.multiprocessing import _cuda_ipc

        context = processes.get_context("spawn")
        there, back = context.Queue(), context.Queue()
        process = context.Process(target=receive, args=(there, back))
        process.start()
        x, y = torch.ones(5, device="cuda"), torch.arange(10.0, device="cuda")
        there.put((x, y[2:5]))
        self.assertEqual(back.get(timeout=60), (5.0, [2, 3, 4], "cuda:0"))
        event = cuda.Event(interprocess=True)
        event.record()
        cuda.synchronize()
        there.put(event)
        self.assertTrue(back.get(timeout=60))
        self.assertIn("Consider cloning before sending", back.get(timeout=60))
        self.assertEqual(x.tolist(), [2] * 5)
        cuda.ipc_collect()
        self.assertEqual(len(_cuda_ipc._sender().kept), 2)
        there.put(None)
        self.assertEqual(back.get(timeout=60), "freed")
        cuda.ipc_collect()
        self.assertEqual(len(_cuda_ipc._sender().kept), 0)
        there.put(None)
        process.join(60)
        self.assertEqual(process.exitcode, 0)

    def test_own_message(self):
        import pickle
        from multiprocessing.reduction import ForkingPickler

        import corten.multiprocessing  # noqa: F401

        x = torch.ones(3, device="cuda")
        self.assertEqual(pickle.loads(ForkingPickler.dumps(x)).data_ptr(), x.data_ptr())
        self.assertEqual(pickle.loads(ForkingPickler.dumps(x[:0])).shape, (0,))


@usable
class DataParallel(CudaTest):
    def test_gradients(self):
        torch.manual_seed(0)
        reference = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        model = torch.nn.DataParallel(torch.nn.Sequential(*[
            torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)]).cuda())
        model.module.load_state_dict(reference.state_dict())
        x = torch.randn(7, 4)
        wanted = reference(x)
        found = model(x.cuda())
        self.same(found, wanted)
        wanted.square().sum().backward()
        found.square().sum().backward()
        for one, other in zip(model.parameters(), reference.parameters()):
            self.same(one.grad, other.grad)
        self.same(torch.nn.parallel.data_parallel(model.module, x.cuda()), wanted)
        with torch.no_grad():
            self.assertFalse(model(x.cuda()).requires_grad)

    def test_parts(self):
        devices = list(range(cuda.device_count()))
        parts = torch.nn.parallel.scatter({"x": torch.arange(4.0), "y": ["same"]}, devices)
        self.assertEqual([part["x"].device.index for part in parts], devices)
        self.assertEqual([part["y"] for part in parts], [["same"]] * len(devices))
        together = torch.nn.parallel.gather([part["x"] for part in parts], 0)
        self.assertEqual(together.tolist(), [0, 1, 2, 3])
        with self.assertWarnsRegex(UserWarning, "will instead unsqueeze and return a vector"):
            scalars = torch.nn.parallel.gather([torch.tensor(1.0, device=f"cuda:{i}") for i in devices], -1 + 1)
        self.assertEqual(scalars.shape, (len(devices),))

    def test_errors(self):
        model = torch.nn.Linear(3, 2)
        with self.assertRaisesRegex(RuntimeError, "module must have its parameters and buffers on device cuda:0"):
            torch.nn.DataParallel(model, device_ids=list(range(cuda.device_count())) if cuda.device_count() > 1 else None)(
                torch.ones(2, 3, device="cuda"))
        models = [torch.nn.Linear(3, 2).cuda(), torch.nn.Linear(4, 2).cuda()]
        given = [torch.ones(1, 3, device="cuda")] * 2
        with self.assertRaisesRegex(RuntimeError, "in replica 1 on device"):
            torch.nn.parallel.parallel_apply(models, given)


if __name__ == "__main__":
    unittest.main()
