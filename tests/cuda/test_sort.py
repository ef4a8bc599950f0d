"""Sorting, searching, positions of masks and combining by index on the device beside the CPU."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402


def numbers(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    low, high = (0, 2) if dtype == torch.bool else (0, 9) if dtype == torch.uint8 else (-9, 9)
    return torch.randint(low, high, sizes, generator=generator).to(dtype)


DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]
NAN = float("nan")


@usable
class Sorts(CudaTest):
    def test_sort(self):
        for dtype in DTYPES:
            x = numbers(3, 50, 4, dtype=dtype)
            for dim in (0, 1, -1):
                for descending in (False, True):
                    self.check(lambda x: torch.sort(x, stable=True, dim=dim, descending=descending), x,
                               name=f"{dtype} {dim} {descending}")

    def test_special_numbers(self):
        x = torch.tensor([1.0, NAN, -0.0, 0.0, float("inf"), -float("inf"), NAN, -2])
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            self.check(lambda x: torch.sort(x, stable=True), x.to(dtype))
            self.check(lambda x: torch.sort(x, stable=True, descending=True), x.to(dtype))
        self.check(lambda x: x.sort(stable=True), torch.tensor(2.5))
        self.check(lambda x: x.sort(stable=True), numbers(0, 3))
        limits = torch.tensor([2**63 - 1, -2**63, 0, -1, 1])
        self.check(lambda x: x.sort(stable=True), limits)

    def test_long_lines(self):
        for n in (1024, 1025, 3000, 5001):
            self.check(lambda x: torch.sort(x, stable=True), numbers(2, n, dtype=torch.int8), name=str(n))
            self.check(lambda x: torch.sort(x, stable=True, descending=True), numbers(n), name=str(n))

    def test_parts(self):
        x = torch.randperm(120, generator=torch.Generator().manual_seed(1)).reshape(4, 30).float()
        for dim in (0, 1):
            self.check(lambda x: x.topk(3, dim), x)
            self.check(lambda x: x.topk(2, dim, largest=False), x)
            self.check(lambda x: x.kthvalue(2, dim), x)
            self.check(lambda x: x.median(dim), x)
            self.check(lambda x: x.nanmedian(dim, keepdim=True), x)
        self.check(lambda x: (x.median(), x.nanmedian()), x)
        self.check(lambda x: (x.median(), x.nanmedian(), x.median(0)[0], x.nanmedian(0)[0]),
                   torch.tensor([3, NAN, 1, 2]))
        self.check(lambda x: x.mode(1)[0], numbers(5, 40, dtype=torch.int64))
        self.check(lambda x: (x.median(0)[0], x.mode(0)[0], x.topk(1)[0] if x.dim() else x), torch.tensor(2.0))
        self.check_gradient(lambda x: (x.topk(3)[0], x.sort()[0], x.median(1)[0]), x)

    def test_unique(self):
        for dtype in (torch.int64, torch.float32, torch.bool, torch.uint8):
            x = numbers(4, 30, dtype=torch.int64).abs().to(dtype)
            self.check(lambda x: torch.unique(x), x)
            self.check(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x)
        self.check(lambda x: torch.unique(x, return_inverse=True), numbers(0, 3))

    def test_searching(self):
        lines, values = numbers(3, 40).sort(-1)[0], numbers(3, 7, seed=1)
        for right in (False, True):
            self.check(lambda s, v: torch.searchsorted(s, v, right=right), lines, values)
            self.check(lambda s, v: torch.bucketize(v, s[0].contiguous(), right=right, out_int32=True), lines, values)
        self.check(lambda s, v: torch.searchsorted(s, v, sorter=s.argsort(-1)), numbers(3, 40), values)
        self.check(lambda s: torch.searchsorted(s, 0.5), lines[0].contiguous())
        self.check(lambda a, b: (torch.isin(a, b), torch.isin(a, b, invert=True), torch.isin(a, 3)),
                   numbers(5, 6, dtype=torch.int64), numbers(4, dtype=torch.int64, seed=2))

    def test_counts(self):
        x = numbers(200, dtype=torch.int64).abs()
        self.check(lambda x: (x.bincount(), x.bincount(minlength=20)), x)
        self.check(lambda x, w: x.bincount(w), x, numbers(200).double())


@usable
class Masks(CudaTest):
    def test_positions(self):
        for shape in [(5,), (4, 7), (2, 3, 4), (9000,), (0, 3), (3, 0)]:
            x = numbers(*shape, dtype=torch.int64)
            self.check(lambda x: (x.nonzero(), torch.masked_select(x, x > 0), x[x < 0]), x, name=str(shape))
        self.check(lambda x: x.nonzero(), torch.tensor(3.0))
        self.check(lambda x: torch.argwhere(x.t()), numbers(5, 6, dtype=torch.int32))

    def test_masked_scatter(self):
        x, mask = numbers(4, 6), numbers(4, 6, dtype=torch.bool)
        self.check(lambda x, m, s: x.masked_scatter(m, s), x, mask, numbers(30, seed=3))
        self.check(lambda x, m, s: x.clone().t().masked_scatter_(m.t(), s), x, mask, numbers(30, seed=3))
        with self.assertRaisesRegex(RuntimeError, "source < number of ones"):
            torch.zeros(4, device="cuda").masked_scatter_(torch.ones(4, dtype=torch.bool, device="cuda"),
                                                          torch.ones(2, device="cuda"))

    def test_put(self):
        index = torch.tensor([3, -1, 3, 0])
        for accumulate in (False, True):
            own = index if accumulate else index[1:]
            self.check(lambda x, i, v: (x.put(i, v, accumulate), x.clone().t().put_(i, v, accumulate)),
                       numbers(3, 4), own, numbers(own.numel(), seed=1))

    def test_reductions_by_index(self):
        index = torch.tensor([[0, 2, 0, 1], [1, 1, 2, 0]])
        for dtype in (torch.float32, torch.int64):
            x, source = numbers(3, 4, dtype=dtype), numbers(2, 4, dtype=dtype, seed=1)
            for reduce in ("sum", "prod", "mean", "amax", "amin"):
                for own in (True, False):
                    self.check(lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=own), x, index, source,
                               name=f"{dtype} {reduce} {own}")
                    if reduce != "sum":
                        self.check(lambda x, i, s: x.index_reduce(0, i, s, reduce, include_self=own), x, index[0],
                                   numbers(4, 4, dtype=dtype, seed=2), name=f"{dtype} {reduce} {own}")
        self.check(lambda x, i, v: x.index_fill(0, i, v), numbers(3, 4), torch.tensor([0, 2]), torch.tensor(7.0))

    def test_outputs(self):
        def outputs(x, i):
            outs = [torch.empty(0, dtype=x.dtype, device=x.device) for _ in range(4)]
            places = torch.empty(0, dtype=torch.int64, device=x.device)
            torch.gather(x, 1, i, out=outs[0])
            torch.index_select(x, 0, i[0], out=outs[1])
            torch.take(x, i, out=outs[2])
            torch.masked_select(x, x > 0, out=outs[3])
            torch.nonzero(x > 0, out=places)
            return [out.contiguous() for out in outs + [places]]
        self.check(outputs, numbers(3, 4), torch.tensor([[0, 2], [1, 1], [0, 0]]))


if __name__ == "__main__":
    unittest.main()
