"""What operators do at the edges of their domains: empty samples, bags that end early, singular
matrices, tolerances that are none, bounds of unsigned integers."""

import math
import unittest
import warnings

from module_under_test import torch

F = torch.nn.functional
linalg = torch.linalg


class EmptySamples(unittest.TestCase):
    def test_every_dtype_takes_no_samples(self):
        fills = {
            "normal_": (), "exponential_": (), "log_normal_": (), "geometric_": (0.5,),
            "bernoulli_": (), "random_": (),
        }
        for dtype in (torch.bool, torch.uint8, torch.int64, torch.complex64, torch.float16):
            for name, arguments in fills.items():
                with self.subTest(f"{name} {dtype}"):
                    x = torch.empty(0, 3, dtype=dtype)
                    self.assertIs(getattr(x, name)(*arguments), x)
        self.assertEqual(torch.randn(0, dtype=torch.int16).dtype, torch.int16)
        self.assertEqual(torch.bernoulli(torch.empty(0, dtype=torch.int64)).numel(), 0)
        self.assertEqual(torch.normal(torch.empty(0, dtype=torch.int32), 1.0).numel(), 0)

    def test_parameters_are_checked_all_the_same(self):
        x = torch.empty(0)
        for call in (
            lambda: x.normal_(0, -1), lambda: x.exponential_(-1), lambda: x.geometric_(2),
            lambda: x.bernoulli_(2.0), lambda: x.log_normal_(0, -1),
            lambda: torch.empty(0, dtype=torch.int32).cauchy_(),
        ):
            self.assertRaises(RuntimeError, call)

    def test_samples_of_other_dtypes(self):
        with self.assertRaisesRegex(RuntimeError, "Exponential distribution is a continuous"):
            torch.zeros(2, dtype=torch.int64).exponential_()
        with self.assertRaisesRegex(RuntimeError, "you specified unsigned char"):
            torch.zeros(2, dtype=torch.uint8).cauchy_()
        with self.assertRaisesRegex(NotImplementedError, "geometric_cpu"):
            torch.zeros(2, dtype=torch.bool).geometric_(0.5)

    def test_probabilities_that_are_replaced(self):
        for dtype in (torch.float32, torch.float64):
            for k in (0.0, 1.0):
                x = torch.full((50,), k, dtype=dtype)
                self.assertEqual(x.bernoulli_(x).tolist(), [k] * 50)
                self.assertEqual(torch.bernoulli(x, out=x).tolist(), [k] * 50)


def bags(offsets, dtype, mode, padding, weights=False):
    table = torch.arange(30.0).reshape(10, 3).to(dtype).requires_grad_()
    factors = torch.tensor([1.0, 2, 3, 4], dtype=dtype, requires_grad=True) if weights else None
    found = F.embedding_bag(
        torch.tensor([0, 1, 2, 3]), table, torch.tensor(offsets), mode=mode, padding_idx=padding,
        include_last_offset=True, per_sample_weights=factors,
    )
    found.sum().backward()
    grads = table.grad[:4, 0].tolist()
    return found[:, 0].tolist(), grads, factors.grad.tolist() if weights else None


class LastOffset(unittest.TestCase):
    """The last bag goes on to the end of the indices, but for sums and means of the dense kernel."""

    def test_bags_to_the_end(self):
        for dtype, padding in ((torch.float32, 6), (torch.float64, None), (torch.float64, 6)):
            self.assertEqual(bags([0, 3, 3], dtype, "sum", padding), ([9, 9], [1, 1, 1, 1], None))
            self.assertEqual(bags([0, 2, 2], dtype, "mean", padding)[0], [1.5, 7.5])
            self.assertEqual(bags([0, 0], dtype, "sum", padding), ([18], [1, 1, 1, 1], None))
            found = bags([0, 2, 2], dtype, "sum", padding, True)
            self.assertEqual(found, ([6, 54], [1, 2, 3, 4], [3, 12, 21, 30]))
        self.assertEqual(bags([0, 2, 2], torch.float32, "max", None), ([3, 9], [0, 1, 0, 1], None))

    def test_indices_behind_the_last_bag_have_no_gradient(self):
        if torch.__name__ == "torch":
            self.skipTest("PyTorch reads memory that it has not written")
        self.assertEqual(bags([0, 3, 3], torch.float32, "sum", None), ([9, 0], [1, 1, 1, 0], None))
        self.assertEqual(bags([0, 0], torch.float32, "mean", None), ([0], [0, 0, 0, 0], None))
        found = bags([0, 2, 2], torch.float32, "sum", None, True)
        self.assertEqual(found, ([6, 0], [1, 2, 0, 0], [3, 12, 0, 0]))
        self.assertEqual(bags([0], torch.float32, "sum", None), ([], [0, 0, 0, 0], None))


class Matrices(unittest.TestCase):
    def test_condition_of_singular_matrices(self):
        zeros = torch.zeros(2, 2)
        for p in (None, "fro", "nuc", 1, -1, math.inf, -math.inf):
            if p not in (None, "nuc"):
                with self.subTest(p):
                    self.assertEqual(linalg.cond(zeros, p).item(), math.inf)
                    both = linalg.cond(torch.stack([zeros, torch.eye(2)]), p)
                    self.assertEqual(both[0].item(), math.inf)
                    self.assertTrue(both[1].isfinite())

    def test_orders_are_real(self):
        for call in (linalg.norm, linalg.matrix_norm, linalg.vector_norm):
            with self.assertRaisesRegex(RuntimeError, "Expected a non-complex scalar"):
                call(torch.eye(2), 1j)

    def test_chains(self):
        a = torch.eye(2)
        self.assertEqual(torch.chain_matmul(a).tolist(), a.tolist())
        with self.assertRaisesRegex(RuntimeError, "Expected one or more matrices"):
            torch.chain_matmul()
        with self.assertRaisesRegex(RuntimeError, "tensor 0 is float and tensor 2 double"):
            linalg.multi_dot([a, a, a.double()])
        with self.assertRaisesRegex(ValueError, "at least one operand"):
            torch.einsum("", [])

    def test_tolerances_that_are_none(self):
        a = torch.tensor([[1.0, 2], [2, 4], [3, 6]], dtype=torch.float64)
        b = torch.ones(3, 1, dtype=torch.float64)
        for driver, rcond, rank in (
            ("gelsd", -1, 1), ("gelsd", 2.0, 1), ("gelsd", 0.5, 1), ("gelss", -1, 1),
            ("gelsy", 2.0, 1), ("gelsy", 0.5, 1),
        ):
            with self.subTest(f"{driver} {rcond}"):
                found = linalg.lstsq(a, b, rcond=rcond, driver=driver)
                self.assertEqual(found.rank.item(), rank)
                self.assertAlmostEqual(found.solution[0].item(), 6 / 70)
        with self.assertRaisesRegex(RuntimeError, r"should match other\.size\(-1\)"):
            linalg.lstsq(torch.ones(3, 2), torch.ones(2))

    def test_removed_functions_say_so(self):
        a = torch.eye(2)
        for name in ("cholesky", "qr", "eig", "symeig", "matrix_rank"):
            with self.assertRaisesRegex(RuntimeError, "is now removed"):
                getattr(torch, name)(a)
        for name in ("lstsq", "solve"):
            with self.assertRaisesRegex(RuntimeError, "is now removed"):
                getattr(torch, name)(a, a)


class Bounds(unittest.TestCase):
    def test_of_unsigned_integers(self):
        for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.uint8):
            x = torch.tensor([1, 0, 9], dtype=dtype)
            with self.subTest(dtype):
                self.assertEqual(x.clamp(0, None).tolist(), [1, 0, 9])
                self.assertEqual(x.clamp(max=5).tolist(), [1, 0, 5])
                self.assertEqual(x.clone().clamp_(min=1).tolist(), [1, 1, 9])
                self.assertEqual(x.clone().clamp_(min=-3, max=5).tolist(), [1, 0, 5])
                self.assertEqual(x.clamp(1, 5).dtype, dtype)

    def test_of_complex_numbers(self):
        c = torch.ones(2, dtype=torch.complex64)
        for call in (torch.clamp_min, torch.clamp_max):
            with self.assertRaisesRegex(NotImplementedError, "clamp is not supported for complex"):
                call(c, 1)
            self.assertRaises(NotImplementedError, call, c, c)
            with self.assertRaisesRegex(RuntimeError, "must match the size of tensor b"):
                call(c, torch.ones(3, dtype=torch.complex64))


class Masks(unittest.TestCase):
    def test_byte_masks_warn_where_they_are_used(self):
        mask, x = torch.zeros(4, dtype=torch.uint8), torch.ones(4, 4)
        for call, times in (
            (lambda: x[mask], 1), (lambda: x[mask, mask], 2), (lambda: x[mask.bool()], 0),
            (lambda: x.index_put_((mask,), torch.zeros(0, 4), accumulate=True), 1),
            (lambda: torch.ops.aten.index(x, [mask]), 1),
        ):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                call()
            self.assertEqual(len(said), times)


if __name__ == "__main__":
    unittest.main()
