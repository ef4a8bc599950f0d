"""Pointwise operators, reductions, softmax, products, indexing and copies on the device beside the CPU."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import AVAILABLE, ON_GPU, CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional
REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGER = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def numbers(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, sizes, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, generator=generator, dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -9, 10, sizes, generator=generator).to(dtype)


@usable
class Pointwise(CudaTest):
    def test_layouts(self):
        for dtype in [*REAL, torch.complex64, torch.int32]:
            x, y = numbers(5, 37, dtype=dtype), numbers(37, 5, dtype=dtype, seed=1)
            for a, b in [(x, x), (x, y.t()), (x[:, ::2], x[:, 1::2][:, :1]), (x[1:, 3:], x[1:, 3:]), (x[:0], x[:0]),
                         (x[0, 0], y[0, 0]), (x, x[0]), (x.flip(0), x)]:
                self.check(lambda a, b: a * b - a + 3, a, b, name=f"{dtype} {a.shape} {a.stride()}")

    def test_dtypes_mix(self):
        for first in [*REAL, *INTEGER, torch.bool]:
            for second in [torch.float32, torch.int64, torch.float16, torch.uint8]:
                self.check(lambda a, b: (a + b, a * 2, a < b), numbers(7, dtype=first), numbers(7, dtype=second),
                           name=f"{first} {second}")

    def test_host_numbers(self):
        x = numbers(4, 6)
        self.check(lambda x: (x + torch.tensor(2.5), torch.tensor(3) * x, x.clamp(-0.5, 0.5), x.clamp(min=0)), x)
        self.check(lambda x: (torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, 7), x ** 2, 2 ** x, x ** 0.5), x.abs())
        with self.assertRaisesRegex(RuntimeError, "at least two devices, cuda:0 and cpu"):
            x.cuda() + x

    def test_functions(self):
        names = "exp log sin cos tan tanh sinh cosh asinh atan sigmoid sqrt rsqrt erf erfc expm1 log1p floor ceil round " \
                "trunc frac abs neg sign reciprocal square isnan isfinite lgamma erfinv exp2 log2 log10 sgn relu"
        x = torch.cat([numbers(40), torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")])])
        for name in names.split():
            for dtype in (torch.float32, torch.float64):
                self.check(getattr(torch, name), x.to(dtype) / 3, name=f"{name} {dtype}")
        z = numbers(30, dtype=torch.complex64)
        for name in "exp log sin cos tan tanh sinh cosh asinh acosh asin acos atan atanh sqrt abs angle sgn square".split():
            self.check(getattr(torch, name), z, name=f"complex {name}")

    def test_integers(self):
        a, b = numbers(60, dtype=torch.int32), numbers(60, dtype=torch.int32, seed=1)
        b = torch.where(b == 0, 3, b).int()
        self.check(lambda a, b: (a // b, a % b, torch.div(a, b, rounding_mode="trunc"), torch.fmod(a, b), a & b, a | b,
                                 a ^ b, ~a, a << b.abs(), a >> b.abs(), torch.gcd(a, b), torch.lcm(a, b), a / b), a, b)
        for dtype in INTEGER:
            self.check(lambda x: (x * x * x, -x, x.abs(), x ** 3), numbers(33, dtype=dtype), name=str(dtype))

    def test_gradients(self):
        x, y = numbers(6, 5), numbers(5, seed=2)
        self.check_gradient(lambda x, y: torch.sigmoid(x * y) + torch.exp(-x.abs()) * F.gelu(x) / (1 + y * y), x, y)

    def test_results_and_places(self):
        x = numbers(4, 5)
        y = x.cuda()
        self.assertIs(y.add_(1), y)
        self.same(y, x + 1)
        self.same(torch.mul(y, 2, out=torch.empty(0, device="cuda")), (x + 1) * 2)
        half = torch.empty(4, 5, device="cuda", dtype=torch.float16)
        self.same(torch.exp(y, out=half), torch.exp(x + 1).half())
        y.t().mul_(3)
        self.same(y, (x + 1) * 3)

    def test_many_dimensions(self):
        x = numbers(*[2] * 9).permute(8, 0, 6, 2, 4, 1, 3, 5, 7)
        self.check(lambda x: x + x.permute(*range(8, -1, -1)), x)


@usable
class Reductions(CudaTest):
    def test_sums(self):
        for dtype in [*REAL, *INTEGER, torch.bool, torch.complex64]:
            for sizes in [(5, 300), (3000,), (2, 3, 4, 5), (1, 7), (0, 3)]:
                x = numbers(*sizes, dtype=dtype)
                for dim in [None, 0, -1]:
                    self.check(lambda x: x.sum(dim) if dim is not None else x.sum(), x, name=f"{dtype} {sizes} {dim}")
        x = numbers(4, 5, 6, 7)
        for dims in [(0, 2), (1, 3), (0, 1, 2, 3), (2,)]:
            self.check(lambda x: (x.sum(dims), x.mean(dims, keepdim=True), x.amax(dims), x.std(dims)), x, name=str(dims))
            self.check(lambda x: x.permute(3, 1, 0, 2).sum(dims), x, name=str(dims))

    def test_two_passes(self):
        x = numbers(3, 70001)
        self.check(lambda x: (x.sum(), x.sum(1), x.max(), x.argmax(), x.argmin(1), x.var(1), x.norm(), x.prod(1)), x)
        self.check(lambda x: (x.sum(0), x.amax(0), x.std(0)), x.t())

    def test_extrema(self):
        x = numbers(6, 9)
        x[2, 3] = x[4, 4] = float("nan")
        self.check(lambda x: (*x.max(0), *x.min(1), x.argmax(1), x.amin(0), *torch.aminmax(x, dim=1)), x)
        tied = torch.tensor([[1, 3, 3, 0], [2, 2, 2, 2]])
        self.check(lambda x: (*x.max(1), x.argmin(1), x.argmax()), tied)
        with self.assertRaisesRegex((IndexError, RuntimeError), "max"):
            torch.empty(0, device="cuda").max()

    def test_truth_and_norms(self):
        x = numbers(5, 8) > 1
        self.check(lambda x: (x.any(), x.all(), x.any(1), x.all(0), x[:0].all(), x[:0].any()), x)
        for order in [0, 1, 2, 3.5, -1, float("inf"), -float("inf")]:
            self.check(lambda x: torch.linalg.vector_norm(x, order, dim=1), numbers(5, 8), name=str(order))
        self.check(lambda x: torch.linalg.vector_norm(x), numbers(50, dtype=torch.complex64))

    def test_softmax(self):
        for dtype in REAL:
            for sizes, dim in [((5, 300), 1), ((4, 6, 7), 1), ((3, 4), 0), ((9,), 0), ((2, 0), 1)]:
                x = numbers(*sizes, dtype=dtype)
                self.check_gradient(lambda x: (torch.softmax(x, dim), torch.log_softmax(x, dim)), x, name=f"{dtype} {sizes}")

    def test_results_repeat(self):
        x = numbers(100_003).cuda()
        self.assertEqual(len({x.sum().item() for _ in range(3)}), 1)


@usable
class Products(CudaTest):
    def test_matrices(self):
        for dtype in [*REAL, torch.complex64, torch.int32]:
            a, b = numbers(70, 33, dtype=dtype), numbers(33, 65, dtype=dtype, seed=1)
            self.check(lambda a, b: (a @ b, a.t() @ a, b @ b.t(), a[:, :7] @ b[:7]), a, b, name=str(dtype))
        self.check(lambda a, b: torch.addmm(a[0, 0], a, b, beta=0.5, alpha=2), numbers(3, 4), numbers(4, 5))
        self.check(lambda a: (a[:0] @ a.t(), a[:, :0] @ a.t()[:0]), numbers(3, 4))
        with self.assertRaisesRegex(RuntimeError, "shapes cannot be multiplied"):
            numbers(3, 4).cuda() @ numbers(3, 4).cuda()

    def test_batches_and_vectors(self):
        a, b = numbers(3, 17, 20), numbers(3, 20, 9, seed=1)
        self.check_gradient(lambda a, b: (a @ b, a[0] @ b, a @ b[0], a[0] @ b[0, :, 0], a[0, 0] @ b[0, :, 1]), a, b)
        self.check(lambda a, b: (torch.baddbmm(a[:, :, :9] * 0 + 1, a, b), torch.addbmm(a[0, :, :9], a, b)), a, b)

    def test_linear(self):
        self.check_gradient(F.linear, numbers(5, 7, 33), numbers(12, 33, seed=1), numbers(12, seed=2))


@usable
class Indexing(CudaTest):
    def test_reading(self):
        x = numbers(7, 9, 5)
        i, j = torch.tensor([[3], [-7], [0]]), torch.tensor([[4, 0, 2]])
        self.check_gradient(lambda x: (x[i.to(x.device)], x[i.to(x.device), :, j.to(x.device)], x[:, :, j.to(x.device)],
                                       x[x.detach() > 0], x[:, torch.tensor([2, 2], device=x.device)]), x)
        self.check(lambda x: (x[i], x[2], x[..., -1], x[None, 1:3]), x)
        self.check_gradient(lambda x: (x.index_select(1, torch.tensor([8, 0, 8], device=x.device)), x.take(j.to(x.device))), x)

    def test_writing(self):
        def write(x):
            x = x.clone()
            x[torch.tensor([1, 2], device=x.device)] = 5.0
            x[x < -1] = 0
            x[:, torch.tensor([0, 3], device=x.device)] += 2
            x.index_put_((torch.tensor([0, 0, 0], device=x.device),), torch.ones(5, device=x.device), accumulate=True)
            return x

        self.check(write, numbers(7, 9, 5))

    def test_scatter(self):
        for dtype in [torch.float32, torch.float16, torch.float64, torch.int64, torch.uint8, torch.complex64]:
            x, index = numbers(6, 8, dtype=dtype), torch.randint(0, 6, (4, 8), generator=torch.Generator().manual_seed(1))
            self.check(lambda x, i: (x.scatter_add(0, i, x), x.gather(0, i), x.scatter(0, i, 3),
                                     x.index_add(0, i[0, :3], x[:3])), x, index, name=str(dtype))

    def test_out_of_bounds(self):
        x = numbers(4, 3).cuda()
        for access in [lambda: x[torch.tensor([4], device="cuda")], lambda: x.gather(0, torch.full((1, 1), -9, device="cuda")),
                       lambda: F.embedding(torch.tensor([9], device="cuda"), x)]:
            with self.assertRaisesRegex(RuntimeError, "(?s)device-side assert triggered.*index out of bounds"):
                access().cpu()
            self.same(x, x.cpu())  # and the device goes on

    def test_embedding(self):
        self.check_gradient(lambda w, i: F.embedding(i, w, padding_idx=2), numbers(11, 6), torch.tensor([[0, 2, 10], [2, 1, 1]]))


@usable
class Copies(CudaTest):
    def test_there_and_back(self):
        for dtype in [*REAL, *INTEGER, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn]:
            x = numbers(5, 6).to(dtype)
            for view in [x, x.t(), x[:, ::2], x[1:], x[0, 0], x[:0]]:
                self.assertEqual(view.cuda().cpu().tolist(), view.tolist(), str(dtype))
                self.assertEqual(view.cuda().stride(), view.clone().stride())

    def test_conversions(self):
        x = numbers(200) * 40
        for dtype in [*REAL, *INTEGER, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]:
            wanted = x.to(dtype)
            self.assertEqual(x.cuda().to(dtype).cpu().float().tolist(), wanted.float().tolist(), str(dtype))
            self.assertEqual(wanted.cuda().float().cpu().tolist(), wanted.float().tolist(), str(dtype))
        self.same(x.to("cuda", torch.float16), x.half())

    @unittest.skipIf((AVAILABLE or ON_GPU) and torch.cuda.device_count() < 2, "takes two devices")
    def test_between_devices(self):
        x = numbers(3, 4)
        there = x.to("cuda:1")
        self.assertEqual((there.device, there.to("cuda:0").device), (torch.device("cuda:1"), torch.device("cuda:0")))
        self.same(there.t().to("cuda:0"), x.t())
        self.same((there * 2).sum(0), (x * 2).sum(0))
        with self.assertRaisesRegex(RuntimeError, "same device"):
            there + x.to("cuda:0")

    def test_views_and_storages(self):
        x = numbers(4, 6).cuda()
        self.assertEqual(x.view(6, 4)[1:].storage_offset(), 4)
        x[1].fill_(7)
        self.assertEqual(x.cpu()[1].tolist(), [7.0] * 6)
        self.same(torch.cat([x.cpu(), x.cpu()]).cuda(), torch.cat([x.cpu(), x.cpu()]))
        self.assertEqual(x.clone().data_ptr() == x.data_ptr(), False)


if __name__ == "__main__":
    unittest.main()
