"""Running sums and extrema, tensors put together, ranges and triangles on the device beside the CPU."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402


def numbers(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_complex:
        return torch.randn(sizes, generator=generator, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    return torch.randint(0, 9, sizes, generator=generator).to(dtype)


@usable
class Scans(CudaTest):
    def test_sums(self):
        for dtype in [torch.float32, torch.float64, torch.int64, torch.int8, torch.bool, torch.complex64]:
            x = numbers(3, 37, 5, dtype=dtype)
            for dim in (0, 1, -1):
                self.check(lambda x: x.cumsum(dim), x, name=f"{dtype} {dim}")
                self.check(lambda x: x.cumprod(dim), x, name=f"{dtype} {dim}")
        self.check(lambda x: x.half().cumsum(0), numbers(12))
        self.check(lambda x: x.cumsum(0, dtype=torch.float64), numbers(50, dtype=torch.int32))
        self.check(lambda x: (x.cumsum(0), x.cumprod(-1)), torch.tensor(3.5))
        self.check(lambda x: x.cumsum(1), numbers(3, 0))

    def test_long_lines(self):
        x = numbers(2, 9001, dtype=torch.float64)
        self.check(lambda x: x.cumsum(1), x)
        self.check(lambda x: (x.t().cumsum(0), x.logcumsumexp(1)), x)
        self.check(lambda x: x.cummax(1), x)
        self.check(lambda x: x.cummin(0), x)
        self.check(lambda x: x.cumsum(0), numbers(20000, dtype=torch.int64))
        self.check(lambda x: x.cumsum(0), torch.ones(40, 9000, dtype=torch.int32))

    def test_extrema(self):
        nan = float("nan")
        for x in [numbers(6, 40), numbers(6, 40, dtype=torch.int64), numbers(9, dtype=torch.bool),
                  torch.tensor([1.0, nan, 3, nan, 2]), torch.tensor([float("-inf"), float("-inf"), 1])]:
            for dim in range(x.dim()):
                self.check(lambda x: x.cummax(dim), x)
                self.check(lambda x: x.cummin(dim), x)

    def test_logarithms(self):
        self.check(lambda x: x.logcumsumexp(0), numbers(7, 8) * 30)
        self.check(lambda x: x.logcumsumexp(0), torch.tensor([float("-inf"), float("-inf"), 1, float("inf"), 2]))

    def test_gradients(self):
        self.check_gradient(lambda x: (x.cumsum(1), x.cumprod(0), x.cummax(1)[0]), numbers(4, 6))

    def test_outputs(self):
        def out(x):
            result = torch.empty(0, dtype=torch.float64, device=x.device)
            torch.cumsum(x, 0, out=result)
            return result
        self.check(out, numbers(9))


@usable
class Together(CudaTest):
    def test_cat(self):
        for dtype in [torch.float32, torch.uint8, torch.float16, torch.complex128, torch.bool]:
            parts = [numbers(3, n, 2, dtype=torch.float32).to(dtype) for n in (4, 1, 7)]
            self.check(lambda *parts: torch.cat(parts, 1), *parts, name=str(dtype))
            self.check(lambda *parts: torch.cat([p.transpose(0, 2) for p in parts], 1), *parts)
        self.check(lambda a, b: torch.cat([a, b, a[:0]]), numbers(5), numbers(4, dtype=torch.int32))
        self.check(lambda a: torch.cat([a, torch.empty(0, device=a.device), a], -1), numbers(2, 3))
        self.check(lambda a: torch.cat([a] * 150), numbers(2, 3))
        self.check(lambda a: torch.cat([a, a], 1), numbers(2, 3, 4, 5).to(memory_format=torch.channels_last))
        self.check(lambda a: torch.stack([a, a + 1], 1), numbers(2, 3))
        self.check_gradient(lambda a, b: torch.cat([a, b], 1), numbers(2, 3), numbers(2, 1))

    def test_cat_into(self):
        def out(a):
            result = torch.zeros(4, 6, device=a.device)[:, ::2]
            torch.cat([a, a], out=result)
            return result
        self.check(out, numbers(2, 3))
        with self.assertRaisesRegex(RuntimeError, "Sizes of tensors must match"):
            torch.cat([torch.ones(2, 3, device="cuda"), torch.ones(3, 2, device="cuda")])

    def test_ranges(self):
        for dtype in [torch.float32, torch.float64, torch.int64, torch.uint8, torch.float16]:
            for make in [lambda **k: torch.arange(3, 50, 2, **k), lambda **k: torch.linspace(1, 9, 33, **k),
                         lambda **k: torch.linspace(2, 7, 1, **k), lambda **k: torch.logspace(0, 2, 5, base=3.0, **k)]:
                self.same(make(dtype=dtype, device="cuda"), make(dtype=dtype), str(dtype))
        self.same(torch.arange(-1, 1, 0.25, device="cuda"), torch.arange(-1, 1, 0.25))
        self.same(torch.linspace(1, 2j, 9, device="cuda"), torch.linspace(1, 2j, 9))

    def test_triangles(self):
        for dtype in [torch.float32, torch.bool, torch.complex128, torch.int16]:
            x = numbers(2, 5, 4).to(dtype)
            for diagonal in (-7, -1, 0, 2, 9):
                self.check(lambda x: (x.tril(diagonal), x.triu(diagonal), x.mT.tril(diagonal)), x)


if __name__ == "__main__":
    unittest.main()
