"""Backward passes inside backward passes, to any depth."""

import threading
import unittest

from module_under_test import torch


class Nested(torch.autograd.Function):
    """Counts down by one; its gradient runs the rest of the way as a pass of its own."""

    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.next = x.detach().requires_grad_() - 1
        return ctx.next.detach()

    @staticmethod
    def backward(ctx, grad):
        if ctx.next >= 0:
            with torch.enable_grad():
                Nested.apply(ctx.next).sum().backward()
        return grad


class Depths(unittest.TestCase):
    def run_to(self, depth):
        x = torch.tensor([float(depth)], requires_grad=True)
        Nested.apply(x).sum().backward()
        return x.grad.item()

    def test_deeper_than_one_stack(self):
        # Passes continue on other threads, which need the interpreter lock for Python's functions.
        for depth in (0, 59, 60, 61, 121, 1000):
            with self.subTest(depth):
                self.assertEqual(self.run_to(depth), 1)

    def test_on_several_threads(self):
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(self.run_to(130))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [1] * 4)

    def test_errors_come_back_from_other_threads(self):
        class Failing(Nested):
            @staticmethod
            def backward(ctx, grad):
                if ctx.next < 0:
                    raise ValueError("at the end")
                with torch.enable_grad():
                    Failing.apply(ctx.next).sum().backward()
                return grad

        x = torch.tensor([100.0], requires_grad=True)
        with self.assertRaisesRegex(ValueError, "at the end"):
            Failing.apply(x).sum().backward()

    def test_hooks_nest_too(self):
        def hook_of(depth):
            def hook(grad):
                if depth:
                    inner = torch.ones(1, requires_grad=True)
                    with torch.enable_grad():
                        product = inner * 2
                    product.register_hook(hook_of(depth - 1))
                    product.backward(torch.ones(1))
                return grad * 2

            return hook

        x = torch.ones(1, requires_grad=True)
        x.register_hook(hook_of(200))
        (x * 3).backward(torch.ones(1))
        self.assertEqual(x.grad.item(), 6)


if __name__ == "__main__":
    unittest.main()
