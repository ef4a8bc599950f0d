"""Compiled functions on a device: groups of calls are one launch each, and give what the calls give."""

import ctypes
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import ON_GPU, CudaTest, torch, usable  # noqa: E402

from corten import _C  # noqa: E402
from corten.compiler._regions import run_region  # noqa: E402


def launches():
    """The launches of this process until now."""
    if ON_GPU:
        return 0
    count = ctypes.CDLL(str(Path(os.environ["CORTEN_CUDA_LIB_DIR"]) / "libcuda.so.1")).cusim_launches
    count.restype = ctypes.c_ulonglong
    return count()


def counted(function, *arguments):
    before = launches()
    result = function(*arguments)
    torch.cuda.synchronize()
    return launches() - before, result


class CompiledTest(CudaTest):
    def equal(self, found, wanted):
        """The same bits; on a GPU products and sums of two calls may be rounded once."""
        self.assertEqual((found.device, found.dtype), (wanted.device, wanted.dtype))
        self.assertEqual((found.shape, found.stride()), (wanted.shape, wanted.stride()))
        found, wanted = found.detach().cpu(), wanted.detach().cpu()
        close = torch.allclose(found, wanted, 1e-2, 1e-5) if ON_GPU else torch.equal(found, wanted)
        self.assertTrue(close, f"{found} {wanted}")

    def recorded(self, function, *arguments, groups=None):
        """Checks that a function gives the same in a region, and gives its launches at once and there."""
        copies = [[a.clone() if isinstance(a, torch.Tensor) else a for a in arguments] for _ in range(4)]
        function(*copies[0])
        at_once, wanted = counted(function, *copies[1])
        # Operators run at once the first time that they get a dtype on a device.
        run_region(function, copies[2], {})
        _C._region_statistics(True)
        together, found = counted(run_region, function, copies[3], {})
        _, _, reports = _C._region_statistics(False)
        as_list = lambda value: list(value) if isinstance(value, tuple) else [value]  # noqa: E731
        for one, other in zip(as_list(found) + copies[3], as_list(wanted) + copies[1]):
            if isinstance(one, torch.Tensor):
                self.equal(one, other)
        if groups is not None:
            self.assertEqual(sum(len(of_program) for of_program, _ in reports), groups)
        return at_once, together

    def one_launch(self, function, *arguments):
        """As `recorded`, for a function that is one group."""
        at_once, together = self.recorded(function, *arguments, groups=1)
        if not ON_GPU:
            self.assertGreater(at_once, 1)
            self.assertEqual(together, 1)


@usable
class Elements(CompiledTest):
    def test_chain(self):
        def chain(x, number):
            return (x * number + 1) * 0.5 + x

        x = torch.randn(1027, device="cuda")
        self.one_launch(chain, x, 3.0)
        # Other numbers and sizes are the same kernel; addresses that are not aligned have one of their own.
        self.one_launch(chain, torch.randn(3, 50, device="cuda"), -1.5)
        self.one_launch(chain, x[1:], 3.0)

    def test_broadcasting_and_layouts(self):
        def scaled(x, weight, bias):
            return (x * weight + bias).relu()

        x = torch.randn(4, 6, 5, device="cuda")
        self.one_launch(scaled, x, torch.randn(5, device="cuda"), torch.randn((), device="cuda"))
        self.one_launch(scaled, x.permute(2, 0, 1), torch.randn(6, device="cuda"), torch.randn(4, 1, device="cuda"))

    def test_dtypes_and_several_results(self):
        def mixed(half, x, count):
            y = half * x + count
            return y, y.to(torch.bfloat16) * 2, y > 0, torch.where(y > 0, count, -count)

        half = torch.randn(40, device="cuda").half()
        self.one_launch(mixed, half, torch.randn(40, device="cuda"), torch.arange(40, device="cuda"))

    def test_writes_and_views(self):
        def writes(x, y):
            x.mul_(2).add_(y)
            row = x[1]
            row.add_(1)
            z = x.t() + 1
            y.copy_(x)
            return z * 2, y.sigmoid_()

        x = torch.randn(3, 4, device="cuda")
        self.recorded(writes, x, torch.randn(3, 4, device="cuda"))

    def test_values_are_there_when_they_are_looked_at(self):
        def looks(x):
            y = x * 2 + 1
            if y.sum().item() > 0:
                y = y + 1
            return y.tolist(), (x + y).cpu().tolist()

        x = torch.ones(4, device="cuda")
        for _ in range(3):
            self.assertEqual(run_region(looks, (x,), {}), ([4.0] * 4, [5.0] * 4))


@usable
class Rows(CompiledTest):
    def test_softmax(self):
        def softmax(x):
            e = (x - x.amax(-1, keepdim=True)).exp()
            return e / e.sum(-1, keepdim=True)

        self.one_launch(softmax, torch.randn(5, 70, device="cuda"))
        self.one_launch(softmax, torch.randn(2, 3, 300, device="cuda"))

    def test_normalisation(self):
        def norm(x, weight, bias):
            mean = x.mean(-1, keepdim=True)
            centred = x - mean
            scale = ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt()
            return centred * scale * weight + bias, mean, scale.squeeze(-1)

        x = torch.randn(7, 33, device="cuda")
        self.one_launch(norm, x, torch.randn(33, device="cuda"), torch.randn(33, device="cuda"))

    def test_prologue_and_epilogue(self):
        def losses(x, y):
            error = (x.float() - y).abs()
            return (error * error).sum(1) * 0.5, error.amax(1).sqrt()

        x = torch.randn(9, 40, device="cuda").bfloat16()
        self.one_launch(losses, x, torch.randn(9, 40, device="cuda"))


@usable
class Boundaries(CompiledTest):
    def test_streams(self):
        side = torch.cuda.Stream()

        def streams(x):
            y = x * 2 + 1
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                z = y * y - x
            torch.cuda.current_stream().wait_stream(side)
            z.record_stream(torch.cuda.current_stream())
            return z + y

        self.recorded(streams, torch.randn(50, device="cuda"))
        self.assertEqual(torch.cuda.current_stream(), torch.cuda.default_stream())

    def test_events_and_waiting(self):
        x = torch.ones(5, device="cuda")
        for wait in (torch.cuda.synchronize, lambda: torch.cuda.current_stream().record_event().synchronize()):
            def waits(x):
                y = x * 3 - 1
                _C._region_statistics(True)
                wait()
                return len(_C._region_statistics(False)[0]), y

            run_region(waits, (x,), {})
            programs, y = run_region(waits, (x,), {})
            self.assertEqual((programs, y.tolist()), (1, [2.0] * 5))

    def test_graphs(self):
        compiled = torch.compile(lambda x: (x * 2 + 1) * x, fullgraph=True)
        x = torch.ones(6, device="cuda")
        for _ in range(2):
            compiled(x)
        record = torch.cuda.CUDAGraph()
        with torch.cuda.graph(record):
            y = compiled(x)
        for value in (2, 3):
            x.fill_(value)
            record.replay()
            self.assertEqual(y.tolist(), [(2.0 * value + 1) * value] * 6)

    def test_another_thread(self):
        import threading

        def shares(x):
            y, seen = x * 2 + 1, []
            reader = threading.Thread(target=lambda: seen.append(y.tolist()))
            reader.start()
            reader.join(20)
            return seen, y - 1

        x = torch.ones(3, device="cuda")
        for _ in range(2):
            seen, y = run_region(shares, (x,), {})
            self.assertEqual((seen, y.tolist()), ([[3.0] * 3], [2.0] * 3))

    def test_host_and_device_in_one_function(self):
        def both(x, y):
            z = x * 2 + 1
            on_device = y * 2 + 1
            return z.to("cuda") + on_device, (on_device * 3).cpu() + z

        x = torch.randn(8)
        for _ in range(2):
            a, b = run_region(both, (x, x.cuda()), {})
            self.equal(a, (x * 2 + 1).cuda() * 2)
            self.assertTrue(torch.allclose(b, (x * 2 + 1) * 4))


@usable
class Training(CompiledTest):
    def step(self, compile):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
        model = model.cuda()
        run = torch.compile(model, fullgraph=True) if compile else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        x, y, losses = torch.randn(5, 6).cuda(), torch.randn(5, 2).cuda(), []
        for _ in range(3):
            optimizer.zero_grad()
            loss = ((run(x) * 2 - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, list(model.parameters())

    def test_steps(self):
        (losses, parameters), (wanted, others) = self.step(True), self.step(False)
        self.assertTrue(torch.allclose(torch.tensor(losses), torch.tensor(wanted), 1e-5, 1e-6))
        for one, other in zip(parameters, others):
            self.assertTrue(torch.allclose(one.cpu(), other.cpu(), 1e-5, 1e-6))

    def test_choice(self):
        compiled = torch.compile(lambda x: (x * 2 + 1).exp())
        x = torch.zeros(4, device="cuda")
        for _ in range(20):
            self.equal(compiled(x), (x * 2 + 1).exp())


if __name__ == "__main__":
    unittest.main()
