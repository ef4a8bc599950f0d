"""Backward passes run in the streams of their forward operators, over several devices, on drivers that order work
as differently as they may."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import ON_GPU, CudaTest, torch, usable  # noqa: E402

cuda = torch.cuda


def several_streams():
    """Leaves on the host and a GPU, two streams, two GPUs; the gradients where they are wrong."""
    wrong = []
    first, second = cuda.Stream(), cuda.Stream()
    for _ in range(4):
        x = torch.full((500,), 2.0, device="cuda", requires_grad=True)
        w = torch.full((500,), 3.0, requires_grad=True)
        cuda.synchronize()
        with cuda.stream(first):
            cuda._sleep(100)
            a = x * 3
            a = a * a
        with cuda.stream(second):
            b = x * x + 1
        current = cuda.current_stream()
        current.wait_stream(first)
        current.wait_stream(second)
        d = a + b
        last = cuda.device_count() - 1
        e = d.to(f"cuda:{last}") * 2 + w.to(f"cuda:{last}")
        (e.cpu() * w).sum().backward()
        del a, b, d, e
        # Memory of the pass is reused at once.
        torch.full((500,), 7.0, device="cuda")
        if not bool((x.grad == 240).all()) or not bool((w.grad == 88).all()):
            wrong.append((x.grad, w.grad))
        with cuda.stream(second):
            y = (x * 2).sum()
        current.wait_stream(second)
        gradient, = torch.autograd.grad(y, x)
        if not bool((gradient == 2).all()):
            wrong.append(gradient)
    return wrong


@usable
class Streams(CudaTest):
    def test_gradients(self):
        self.assertEqual(several_streams(), [])

    @unittest.skipIf(ON_GPU, "the emulator chooses an order by its seed")
    def test_other_orders(self):
        folder = str(Path(__file__).resolve().parent)
        text = (f"import sys; sys.path.insert(0, {folder!r})\n"
                "import test_backward_streams as test\nassert not test.several_streams()\n")
        for seed in range(1, 4):
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                                  env={**os.environ, "CUSIM_SEED": str(seed)})
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_where_nodes_and_hooks_run(self):
        stream, seen = cuda.Stream(), []
        last = cuda.device_count() - 1

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                seen.append(("node", cuda.current_stream() == stream, cuda.current_device()))
                return gradient * 2

        x = torch.ones(3, device="cuda", requires_grad=True)
        with cuda.stream(stream):
            y = Twice.apply(x)
        y.register_hook(lambda g: seen.append(("hook", cuda.current_stream() == stream, cuda.current_device())))
        cuda.current_stream().wait_stream(stream)
        z = y.to(f"cuda:{last}")
        z.register_hook(lambda g: seen.append(("there", True, cuda.current_device())))
        before = cuda.current_stream(), cuda.current_device()
        z.sum().backward()
        self.assertEqual(seen, [("there", True, last), ("hook", True, 0), ("node", True, 0)])
        self.assertEqual((cuda.current_stream(), cuda.current_device()), before)
        self.assertEqual(x.grad.tolist(), [2, 2, 2])

    def test_errors_reach_the_caller(self):
        x = torch.ones(3, device="cuda", requires_grad=True)
        with cuda.stream(cuda.Stream()):
            y = x * 2

        def fail(gradient):
            raise KeyError("of the hook")

        y.register_hook(fail)
        before = cuda.current_stream()
        with self.assertRaisesRegex(KeyError, "of the hook"):
            y.sum().backward()
        self.assertEqual(cuda.current_stream(), before)

    def test_multithreading_switch(self):
        x = torch.ones(3, device="cuda", requires_grad=True)
        with torch.autograd.set_multithreading_enabled(False):
            (x * 3).sum().backward()
        self.assertEqual(x.grad.tolist(), [3, 3, 3])


if __name__ == "__main__":
    unittest.main()
