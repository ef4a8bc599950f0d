"""Type promotion, casts and arithmetic of every category."""

import unittest

from module_under_test import torch

NAN, INF = float("nan"), float("inf")


class Promotion(unittest.TestCase):
    def test_only_a_higher_category_changes_the_dtype(self):
        i32, f16, boolean = (torch.ones(1, dtype=d) for d in (torch.int32, torch.float16, torch.bool))
        f64_scalar, i64_scalar = torch.tensor(1.0, dtype=torch.float64), torch.tensor(1)
        for value, dtype in [
            (i32 + 1.0, torch.float32),
            (f16 + 1.0, torch.float16),
            (f64_scalar + torch.ones(1), torch.float32),
            (i64_scalar + torch.ones(1, dtype=torch.int8), torch.int8),
            (boolean + 1, torch.int64),
            (torch.ones(1, dtype=torch.int64) + 1j, torch.complex64),
            (f64_scalar + 1j, torch.complex128),
            (i32 / i32, torch.float32),
            (boolean.sum(), torch.int64),
            (torch.tensor([1, 2.5]), torch.float32),
            (torch.full((1,), True), torch.bool),
        ]:
            with self.subTest(dtype):
                self.assertEqual(value.dtype, dtype)

    def test_in_place_keeps_the_dtype(self):
        with self.assertRaisesRegex(
            RuntimeError, "result type Float can't be cast to the desired output type Int"
        ):
            torch.ones(1, dtype=torch.int32).add_(1.5)


class Casts(unittest.TestCase):
    def test_out_of_range_floats(self):
        x = torch.tensor([300.7, -1.5, NAN, 1e20])
        self.assertEqual(x.to(torch.uint8).tolist(), [44, 255, 0, 0])
        low = -(2**31)
        self.assertEqual(x.to(torch.int32).tolist(), [300, -1, low, low])

    def test_truth(self):
        self.assertEqual(torch.tensor([0.0, NAN, -2.0]).bool().tolist(), [False, True, True])

    def test_values_that_do_not_fit(self):
        with self.assertRaises(RuntimeError):
            torch.full((1,), 300, dtype=torch.uint8)


class Integers(unittest.TestCase):
    def test_division(self):
        a, b = torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])
        self.assertEqual((a // b).tolist(), [3, -4, -4, 3])
        self.assertEqual(torch.div(a, b, rounding_mode="trunc").tolist(), [3, -3, -3, 3])
        self.assertEqual((a % b).tolist(), [1, 1, -1, -1])
        self.assertEqual(torch.fmod(a, b).tolist(), [1, -1, 1, -1])

    def test_by_zero(self):
        for action in (lambda x: x // 0, lambda x: x % 0):
            with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
                action(torch.tensor([1]))

    def test_wrap_around(self):
        self.assertEqual((torch.tensor([1], dtype=torch.uint8) - 2).tolist(), [255])
        self.assertEqual(torch.tensor([2**62]).mul(4).tolist(), [0])

    def test_truth_values(self):
        t = torch.tensor([True, False])
        self.assertEqual((t + t).tolist(), [True, False])
        with self.assertRaises(RuntimeError):
            t - t
        with self.assertRaises(RuntimeError):
            -t


class Reductions(unittest.TestCase):
    def test_empty(self):
        e = torch.empty(0)
        self.assertEqual(e.sum().item(), 0)
        self.assertTrue(e.mean().isnan().item())
        with self.assertRaises(RuntimeError):
            e.max()
        self.assertEqual(tuple(torch.empty(0, 3).sum(0).shape), (3,))

    def test_half_precision_accumulates_in_f32(self):
        self.assertEqual(torch.full((4096,), 0.1, dtype=torch.float16).sum().item(), 409.5)
        self.assertEqual(torch.ones(1000, dtype=torch.bfloat16).sum().item(), 1000)

    def test_nan_is_the_largest(self):
        x = torch.tensor([1.0, NAN, 2.0])
        self.assertTrue(x.max().isnan().item())
        self.assertEqual(x.argmax().item(), 1)

    def test_mean_of_integers(self):
        with self.assertRaisesRegex(RuntimeError, "mean"):
            torch.ones(2, dtype=torch.int64).mean()


class Losses(unittest.TestCase):
    def test_cross_entropy(self):
        F = torch.nn.functional
        x, y = torch.tensor([[1.0, 2.0, 3.0]] * 2), torch.tensor([0, 2])
        w = torch.tensor([1.0, 2.0, 3.0])
        for kwargs, expected in [
            ({"label_smoothing": 0.1}, 1.4076),
            ({"weight": w}, 0.9076),
            ({"weight": w, "label_smoothing": 0.1}, 0.9243),
        ]:
            self.assertAlmostEqual(F.cross_entropy(x, y, **kwargs).item(), expected, places=4)
        self.assertTrue(F.cross_entropy(x, torch.tensor([-100, -100])).isnan().item())

    def test_batch_norm_statistics(self):
        norm = torch.nn.BatchNorm1d(2)
        norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
        for got, expected in [(norm.running_mean, [0.2, 0.4]), (norm.running_var, [1.1, 1.7])]:
            for a, b in zip(got.tolist(), expected):
                self.assertAlmostEqual(a, b, places=6)


class Refusals(unittest.TestCase):
    """Bad input: an error of PyTorch's class, never a crash."""

    def test_classes(self):
        t = torch.ones(2, 3)
        for error, action in [
            (RuntimeError, lambda: torch.empty(10**15)),
            (RuntimeError, lambda: torch.empty(2**40, 2**40)),
            (RuntimeError, lambda: torch.empty(-1)),
            (RuntimeError, lambda: t.view(5)),
            (RuntimeError, lambda: t + torch.ones(4)),
            (RuntimeError, lambda: t @ t),
            (RuntimeError, lambda: torch.mm(t, torch.ones(3, 2, dtype=torch.float64))),
            (IndexError, lambda: t.sum(5)),
            (TypeError, lambda: torch.add(t, "a")),
            (TypeError, lambda: torch.zeros(2, dtype="float32")),
            (RuntimeError, lambda: torch.zeros(2, device="nowhere")),
            (RuntimeError, lambda: t.item()),
            (RuntimeError, lambda: bool(t)),
            (TypeError, lambda: len(torch.tensor(1))),
            (ValueError, lambda: torch.tensor([[1, 2], [3]])),
            (IndexError, lambda: torch.nn.functional.embedding(torch.tensor([9]), t)),
            (IndexError, lambda: torch.nn.functional.nll_loss(t, torch.tensor([0, 5]))),
            (RuntimeError, lambda: torch.ones(2, dtype=torch.int64).requires_grad_()),
        ]:
            with self.assertRaises(error):
                action()


if __name__ == "__main__":
    unittest.main()
