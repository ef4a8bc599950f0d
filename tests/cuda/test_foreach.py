"""Operators of lists, whose launches are made one, against the CPU's results."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, to_cuda, torch, usable  # noqa: E402


def tensors(count=40):
    """More tensors than a launch with numbers of their own takes, some empty, transposed or not aligned."""
    torch.manual_seed(1)
    lists = [torch.randn(n) for n in (5, 0, 1, 9000, 70)] + [torch.randn(6, 7).t(), torch.randn(11)[1:]]
    return lists + [torch.randn(3) for _ in range(count - len(lists))]


@usable
class ForeachTest(CudaTest):
    def test_results(self):
        xs, ys = tensors(), [torch.rand_like(x) + 0.5 for x in tensors()]
        scalars = [0.5 * i + 1 for i in range(len(xs))]
        self.check(lambda x, y: torch._foreach_add(x, y, alpha=2), xs, ys, name="add")
        self.check(lambda x: torch._foreach_mul(x, scalars), xs, name="a number each")
        self.check(lambda x, y: torch._foreach_addcdiv(x, x, y, scalars), xs, ys, name="addcdiv")
        self.check(lambda x, number: torch._foreach_mul(x, number), xs, torch.tensor(2.5), name="a tensor of rank 0")
        self.check(lambda x: torch._foreach_norm(x), xs, name="norm")
        self.check(lambda x: torch._foreach_max(x), [x for x in xs if x.numel()], name="max")
        whole = [torch.arange(n) for n in (3, 1, 5)]
        self.check(lambda x: torch._foreach_add(x, 1.5), whole, name="promoted")

    def test_in_place_in_order(self):
        def run(xs, ys):
            xs = [x.clone() for x in xs]
            torch._foreach_copy_(xs[:4], ys[:4])
            torch._foreach_add_(xs, ys)
            # One tensor three times, and one that the next one reads.
            torch._foreach_add_([xs[0], xs[0], xs[0]], [ys[0], ys[0], xs[0]])
            torch._foreach_mul_([xs[3], xs[4]], [ys[3], ys[4]])
            torch._foreach_mul_(xs, xs)
            torch._foreach_zero_(xs[5:7])
            return xs

        self.check(run, tensors(12), [torch.rand_like(x) for x in tensors(12)])

    def test_gradients(self):
        xs = [torch.randn(4).requires_grad_() for _ in range(3)]
        sum(x.sum() for x in torch._foreach_mul(to_cuda(xs), 3.0)).backward()
        on_device = [x.requires_grad_() for x in to_cuda([x.detach() for x in xs])]
        sum(x.sum() for x in torch._foreach_mul(on_device, 3.0)).backward()
        for x in on_device:
            self.assertTrue(torch.equal(x.grad.cpu(), torch.full((4,), 3.0)))

    def test_clipping(self):
        def run(*xs):
            for x in xs:
                x.grad = x * 3
            norm = torch.nn.utils.clip_grad_norm_(xs, 1.0, foreach=True)
            return [norm] + [x.grad for x in xs]

        self.check(run, *[torch.randn(n) for n in (5, 20000, 1)])

    def test_an_error_leaves_nothing_behind(self):
        xs = to_cuda([torch.ones(3), torch.ones(4)])
        with self.assertRaises(RuntimeError):
            torch._foreach_add_(xs, to_cuda([torch.ones(3), torch.ones(5)]))
        self.assertTrue(torch.equal(xs[0].cpu(), torch.full((3,), 2.0)))
        self.check(lambda x: torch._foreach_add(x, 1), [torch.ones(3), torch.ones(4)])


if __name__ == "__main__":
    unittest.main()
