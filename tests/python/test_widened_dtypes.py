"""Eight-bit floats and unsigned integers of 16, 32 and 64 bits, where PyTorch has no kernels."""

import unittest

import numpy as np

from module_under_test import torch

FLOATS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
          torch.float8_e8m0fnu]
F = torch.nn.functional
TOP = 2**63


@unittest.skipIf(torch.__name__ == "torch", "a superset of PyTorch")
class Floats(unittest.TestCase):
    def setUp(self):
        self.x = torch.tensor([[1.0, 2, 4, 0.5], [8, 1, 2, 16], [0.25, 4, 1, 1]])
        self.y = torch.tensor([[2.0, 1, 4, 8], [1, 1, 8, 0.5], [2, 0.5, 0.25, 4]])

    def check(self, function, dtypes=FLOATS):
        """What ``function`` gives is what it gives in single precision, rounded once."""
        for dtype in dtypes:
            x, y = self.x.to(dtype), self.y.to(dtype)
            found, expected = function(x, y), function(x.float(), y.float())
            if isinstance(expected, torch.Tensor):
                found, expected = (found,), (expected,)
            for one, other in zip(found, expected):
                if other.dtype == torch.float32:
                    self.assertEqual(one.dtype, dtype)
                    other = other.to(dtype)
                self.assertEqual(one.dtype, other.dtype)
                self.assertEqual(str(one.float().tolist()), str(other.float().tolist()))

    def test_arithmetic(self):
        for function in (
            lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x // y,
            lambda x, y: x % y, lambda x, y: x + 1, lambda x, y: 8 - x, lambda x, y: 2 / x, lambda x, y: x**2,
            lambda x, y: -x, lambda x, y: abs(x), lambda x, y: torch.addcmul(x, x, y),
            lambda x, y: torch.lerp(x, y, 0.5), lambda x, y: torch.fmod(x, y), lambda x, y: x.clamp(1, 2),
            lambda x, y: torch.maximum(x, y), lambda x, y: torch.copysign(x, y), lambda x, y: torch.hypot(x, y),
            lambda x, y: torch.where(x > y, x, y),
        ):
            self.check(function)

    def test_comparisons(self):
        for function in (
            lambda x, y: x < y, lambda x, y: x >= 1, lambda x, y: x == y, lambda x, y: x != 2, lambda x, y: torch.isnan(x),
            lambda x, y: torch.isfinite(x), lambda x, y: torch.logical_and(x, y), lambda x, y: torch.isin(x, y),
        ):
            self.check(function)
        self.assertTrue(all(torch.allclose(self.x.to(dtype), self.x.to(dtype)) for dtype in FLOATS))

    def test_reductions_and_order(self):
        for function in (
            lambda x, y: x.sum(), lambda x, y: x.sum(1), lambda x, y: x.mean(0), lambda x, y: x.max(), lambda x, y: x.max(1),
            lambda x, y: x.min(0), lambda x, y: x.amax(1), lambda x, y: x.argmax(), lambda x, y: x.aminmax(),
            lambda x, y: x.cumsum(0), lambda x, y: x.cumprod(1), lambda x, y: x.logsumexp(1), lambda x, y: x.norm(),
            lambda x, y: x.std(), lambda x, y: x.median(), lambda x, y: x.sort(), lambda x, y: x.sort(0, descending=True, stable=True),
            lambda x, y: x.argsort(stable=True), lambda x, y: x.topk(2), lambda x, y: x.kthvalue(2), lambda x, y: x.unique(),
            lambda x, y: torch.searchsorted(x.sort()[0], y), lambda x, y: x.cummax(1), lambda x, y: x.nansum(),
        ):
            self.check(function)
        for dtype in FLOATS:
            self.assertEqual(self.x.to(dtype).sum(dtype=torch.float32).dtype, torch.float32)

    def test_products(self):
        for function in (
            lambda x, y: x @ y.t(), lambda x, y: x @ y[0], lambda x, y: x[None] @ y.t()[None], lambda x, y: x[0] @ y[0],
            lambda x, y: torch.addmm(x[:, :3], x, y.t()), lambda x, y: F.linear(x, y), lambda x, y: torch.outer(x[0], y[0]),
            lambda x, y: torch.einsum("ij,kj->ik", x, y), lambda x, y: F.conv1d(x[None], y[None, :, :2]),
        ):
            self.check(function)

    def test_activations(self):
        for function in (
            lambda x, y: x.relu(), lambda x, y: x.sigmoid(), lambda x, y: x.tanh(), lambda x, y: F.gelu(x), lambda x, y: F.silu(x),
            lambda x, y: x.softmax(-1), lambda x, y: x.log_softmax(-1), lambda x, y: x.exp(), lambda x, y: x.log(),
            lambda x, y: x.sqrt(), lambda x, y: x.round(), lambda x, y: x.sin(), lambda x, y: x.sign(), lambda x, y: F.elu(x),
            lambda x, y: F.leaky_relu(x), lambda x, y: F.hardswish(x), lambda x, y: F.layer_norm(x, (4,)), lambda x, y: F.mse_loss(x, y),
            lambda x, y: F.max_pool1d(x, 2), lambda x, y: F.avg_pool1d(x, 2), lambda x, y: F.interpolate(x[None, None], scale_factor=2),
        ):
            self.check(function)

    def test_in_place_and_out(self):
        for dtype in FLOATS:
            x, y = self.x.to(dtype), self.y.to(dtype)
            target, memory = x.clone(), None
            memory = target.data_ptr()
            target += y
            target.mul_(2).sub_(y)
            expected = (((self.x + self.y).to(dtype).float() * 2).to(dtype).float() - self.y).to(dtype)
            self.assertEqual(str(target.float().tolist()), str(expected.float().tolist()))
            self.assertEqual((target.data_ptr(), target.dtype), (memory, dtype))
            out = torch.empty(0, dtype=dtype)
            self.assertIs(torch.add(x, y, out=out), out)
            self.assertEqual(str(out.float().tolist()), str((self.x + self.y).to(dtype).float().tolist()))

    def test_indexing(self):
        for dtype in FLOATS:
            x, y = self.x.to(dtype), self.y.to(dtype)
            rows = torch.tensor([0, 0])
            found = x.clone().index_add_(0, rows, y[:2])
            expected = self.x.clone().index_add_(0, rows, self.y[:2]).to(dtype)
            self.assertEqual(str(found.float().tolist()), str(expected.float().tolist()))

    def test_gradients(self):
        x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
        eight = x.to(torch.float8_e5m2)
        (eight * eight + eight).float().sum().backward()
        self.assertEqual(x.grad.tolist(), [3.0, 5.0, 8.0])  # 9 is rounded to 8

    def test_promotion_is_refused(self):
        one, other = self.x.to(torch.float8_e4m3fn), self.x.to(torch.float8_e5m2)
        for call in (lambda: one + other, lambda: one + self.x, lambda: one * self.x.int()):
            with self.assertRaisesRegex(RuntimeError, "Promotion for Float8 Types is not supported"):
                call()


@unittest.skipIf(torch.__name__ == "torch", "a superset of PyTorch")
class Integers(unittest.TestCase):
    def arrays(self, dtype):
        limit = int(np.iinfo(dtype).max)
        a = np.array([0, 1, 7, limit, limit - 3, limit // 2, limit // 2 + 1, limit // 3, 12, 255], dtype=dtype)
        b = np.array([1, 3, 7, limit, 2, limit // 2 + 2, limit // 2, 5, limit - 1, limit // 7], dtype=dtype)
        return a, b

    def check(self, function, reference=None):
        for dtype in (np.uint16, np.uint32, np.uint64):
            a, b = self.arrays(dtype)
            with np.errstate(all="ignore"):
                expected = (reference or function)(a, b)
            found = function(torch.from_numpy(a), torch.from_numpy(b))
            if not isinstance(found, tuple):
                found, expected = (found,), (expected,)
            for one, other in zip(found, expected):
                self.assertEqual(one.numpy().tolist(), np.asarray(other).tolist(), (dtype, str(one.dtype)))
                if isinstance(other, np.ndarray) and other.dtype == dtype:
                    self.assertEqual(one.numpy().dtype, dtype)

    def test_arithmetic(self):
        for function in (
            lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a // b, lambda a, b: a % b,
            lambda a, b: a + 3, lambda a, b: a // 3, lambda a, b: a % 7, lambda a, b: a * a, lambda a, b: a ^ b,
            lambda a, b: ~a, lambda a, b: a >> 1, lambda a, b: a >> 3, lambda a, b: a << 2, lambda a, b: a & b,
        ):
            self.check(function)
        self.check(lambda a, b: -a)
        self.check(torch.fmod, np.fmod)
        self.check(lambda a, b: torch.div(a, b, rounding_mode="floor"), lambda a, b: a // b)
        self.check(lambda a, b: torch.div(a, b, rounding_mode="trunc"), lambda a, b: a // b)
        with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
            torch.tensor([TOP], dtype=torch.uint64) // torch.tensor([0], dtype=torch.uint64)

    def test_comparisons(self):
        for function in (
            lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a == b,
            lambda a, b: a != b, lambda a, b: a < 12, lambda a, b: a >= 12,
        ):
            self.check(function)
        x = torch.tensor([0, TOP - 1, TOP, TOP + 5, 2 * TOP - 1], dtype=torch.uint64)
        self.assertEqual((x > TOP).tolist(), [False, False, False, True, True])
        self.assertEqual((x <= TOP + 5).tolist(), [True, True, True, True, False])
        self.check(torch.maximum, np.maximum)
        self.check(torch.isin, np.isin)

    def test_reductions_and_order(self):
        self.check(lambda a, b: a.max(), lambda a, b: a.max())
        self.check(lambda a, b: a.min(), lambda a, b: a.min())
        self.check(lambda a, b: a.amax(), lambda a, b: a.max())
        self.check(lambda a, b: tuple(a.aminmax()), lambda a, b: (a.min(), a.max()))
        self.check(lambda a, b: a.argmax(), lambda a, b: a.argmax())
        self.check(lambda a, b: a.argmin(), lambda a, b: a.argmin())
        self.check(lambda a, b: tuple(a.max(0)), lambda a, b: (a.max(), a.argmax()))
        self.check(lambda a, b: tuple(a.sort(stable=True)), lambda a, b: (np.sort(a), np.argsort(a, kind="stable")))
        self.check(lambda a, b: tuple(a.topk(3)), lambda a, b: (np.sort(a)[::-1][:3], np.argsort(a)[::-1][:3]))
        self.check(lambda a, b: a.kthvalue(4)[0], lambda a, b: np.sort(a)[3])
        self.check(lambda a, b: a.median(), lambda a, b: np.sort(a)[(len(a) - 1) // 2])
        self.check(lambda a, b: a.cummax(0)[0], lambda a, b: np.maximum.accumulate(a))
        self.check(lambda a, b: a.unique(), lambda a, b: np.unique(a))
        self.check(lambda a, b: torch.searchsorted(a.sort()[0], b), lambda a, b: np.searchsorted(np.sort(a), b))
        self.check(lambda a, b: a.clamp(5, 300), lambda a, b: np.clip(a, 5, 300))

    def test_products(self):
        self.check(lambda a, b: a.reshape(5, 2) @ b.reshape(2, 5))
        self.check(lambda a, b: a @ b)
        self.check(lambda a, b: torch.outer(a, b), lambda a, b: np.outer(a, b))
        self.check(lambda a, b: torch.bmm(a.reshape(1, 5, 2), b.reshape(1, 2, 5)),
                   lambda a, b: a.reshape(1, 5, 2) @ b.reshape(1, 2, 5))

    def test_indexing(self):
        rows = [1, 1, 4]

        def added(a, b):
            made = a.copy()
            np.add.at(made, rows, b[:3])
            return made

        self.check(lambda a, b: a.clone().index_add_(0, torch.tensor(rows), b[:3]), added)
        self.check(lambda a, b: a.clone().index_put_((torch.tensor(rows),), b[:3], accumulate=True), added)
        self.check(lambda a, b: a.clone().scatter_add_(0, torch.tensor(rows), b[:3]), added)
        self.check(lambda a, b: a[torch.tensor(rows)], lambda a, b: a[rows])
        self.check(lambda a, b: a.diff(), lambda a, b: np.diff(a))

    def test_in_place_and_out(self):
        for dtype in (torch.uint16, torch.uint32, torch.uint64):
            x = torch.tensor([1, 2, 3]).to(dtype)
            memory = x.data_ptr()
            x += 5
            x //= 2
            self.assertEqual((x.tolist(), x.dtype, x.data_ptr()), ([3, 3, 4], dtype, memory))
            out = torch.empty(0, dtype=dtype)
            torch.sub(x, x, out=out)
            self.assertEqual((out.tolist(), out.dtype), ([0, 0, 0], dtype))

    def test_mixed(self):
        x = torch.tensor([TOP + 2048, 3], dtype=torch.uint64)
        self.assertEqual((x + 0.5).tolist(), [float(np.float32(TOP + 2048)), 3.5])
        self.assertEqual((x.double() * 2).tolist(), [2.0 * (TOP + 2048), 6.0])
        self.assertEqual((x * torch.tensor([0.5, 2.0], dtype=torch.float64)).tolist(), [(TOP + 2048) / 2, 6.0])
        self.assertEqual((x + (TOP - 1)).tolist(), [2047, TOP + 2])
        for call in (lambda: x + torch.tensor([1, 2]), lambda: x.to(torch.uint16) * torch.tensor([1, 2])):
            with self.assertRaisesRegex(RuntimeError, "Promotion for uint16, uint32, uint64 types is not supported"):
                call()

    def test_factories(self):
        for dtype in (torch.uint16, torch.uint32, torch.uint64, *FLOATS[:4]):
            self.assertEqual(torch.arange(5, dtype=dtype).float().tolist(), [0, 1, 2, 3, 4])


if __name__ == "__main__":
    unittest.main()
