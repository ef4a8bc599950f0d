"""Names inside ``nn.functional`` that packages call, and products of matrices with scales."""

import unittest
import warnings

import numpy as np

from module_under_test import torch

F = torch.nn.functional


class Masks(unittest.TestCase):
    def test_canonical(self):
        mask = torch.tensor([True, False])
        given = dict(mask_name="m", other_type=None, other_name="", target_type=torch.float32)
        self.assertEqual(F._canonical_mask(mask=mask, **given).tolist(), [float("-inf"), 0.0])
        self.assertIsNone(F._canonical_mask(None, **given))
        numbers = torch.zeros(2, dtype=torch.float64)
        self.assertIs(F._canonical_mask(numbers, **given), numbers)
        with self.assertRaisesRegex(AssertionError, "only bool and floating types of m are supported"):
            F._canonical_mask(torch.zeros(2, dtype=torch.int64), **given)
        with self.assertWarnsRegex(UserWarning, "Support for mismatched m and o is deprecated"):
            F._canonical_mask(numbers, "m", torch.bool, "o", torch.float32)

    def test_dtypes(self):
        self.assertIsNone(F._none_or_dtype(None))
        self.assertEqual(F._none_or_dtype(torch.zeros(1)), torch.float32)
        self.assertRaises(RuntimeError, F._none_or_dtype, 3)

    def test_shapes(self):
        batch, single = torch.zeros(4, 2, 6), torch.zeros(4, 6)
        self.assertTrue(F._mha_shape_check(batch, batch, batch, torch.zeros(2, 4), None, 2))
        self.assertFalse(F._mha_shape_check(single, single, single, None, torch.zeros(2, 4, 4), 2))
        for arguments, message in (
            ((batch, single, batch, None, None, 2), "expected `key` and `value` to be 3-D"),
            ((batch, batch, batch, torch.zeros(4), None, 2), "`key_padding_mask` to be `None` or 2-D"),
            ((batch, batch, batch, None, torch.zeros(4), 2), r"For batched \(3-D\) `query`, expected `attn_mask`"),
            ((single, single, single, None, torch.zeros(3, 4, 4), 2), "Expected `attn_mask` shape to be"),
            ((torch.zeros(6),) * 3 + (None, None, 2), "received 1-D query tensor"),
        ):
            with self.assertRaisesRegex(AssertionError, message):
                F._mha_shape_check(*arguments)
        F._check_key_padding_mask(torch.zeros(2, 4), 4, 2)
        with self.assertRaisesRegex(AssertionError, r"key_padded_mask.shape\[1\] to be 5, but got 4"):
            F._check_key_padding_mask(torch.zeros(2, 4), 5, 2)


class Projections(unittest.TestCase):
    def test_packed(self):
        x, y, z = (torch.rand(3, 2, 4) for _ in range(3))
        weight, bias = torch.rand(12, 4), torch.rand(12)
        for q, k, v in ((x, x, x), (x, y, y), (x, y, z)):
            for b in (None, bias):
                parts = F._in_projection_packed(q, k, v, weight, b)
                for place, (part, one) in enumerate(zip(parts, (q, k, v))):
                    rows = slice(4 * place, 4 * place + 4)
                    expected = F.linear(one, weight[rows], None if b is None else b[rows])
                    self.assertLess((part - expected).abs().max().item(), 1e-5)

    def test_apart(self):
        q, k, v = torch.rand(3, 4), torch.rand(5, 6), torch.rand(5, 2)
        weights = torch.rand(4, 4), torch.rand(4, 6), torch.rand(4, 2)
        parts = F._in_projection(q, k, v, *weights)
        self.assertIs(type(parts), tuple)
        for part, one, weight in zip(parts, (q, k, v), weights):
            self.assertLess((part - one @ weight.T).abs().max().item(), 1e-5)
        with self.assertRaisesRegex(AssertionError, r"expecting key weights shape of \(4, 6\)"):
            F._in_projection(q, k, v, weights[0], weights[0], weights[2])
        with self.assertRaisesRegex(AssertionError, r"expecting value bias shape of \(4,\)"):
            F._in_projection(q, k, v, *weights, b_v=torch.rand(3))


class Sizes(unittest.TestCase):
    def test_defaults(self):
        self.assertEqual(F._list_with_default((None, 3), (2, 5, 7, 8)), [7, 3])
        self.assertEqual(F._list_with_default(4, (2, 5)), 4)
        with self.assertRaisesRegex(ValueError, "Input dimension should be at least 3"):
            F._list_with_default((1, 2), (3, 4))

    def test_tuples(self):
        self.assertEqual((F._single(1), F._pair(2), F._triple((3, 4, 5))), ((1,), (2, 2), (3, 4, 5)))

    def test_unpooled(self):
        x = torch.zeros(1, 1, 3, 3)
        self.assertEqual(list(F._unpool_output_size(x, [2, 2], [2, 2], [0, 0], None)), [6, 6])
        self.assertEqual(list(F._unpool_output_size(x, [2, 2], [2, 2], [0, 0], [1, 1, 7, 5])), [7, 5])
        with self.assertRaisesRegex(ValueError, "must be between 4 and 8"):
            F._unpool_output_size(x, [2, 2], [2, 2], [0, 0], [9, 6])
        with self.assertRaisesRegex(ValueError, "must contain non-negative spatial"):
            F._unpool_output_size(x, [1, 1], [1, 1], [5, 5], None)

    def test_enough_values(self):
        F._verify_batch_size([2, 3])
        F._verify_spatial_size([1, 3, 2])
        with self.assertRaisesRegex(ValueError, "more than 1 value per channel"):
            F._verify_batch_size([1, 3, 1])
        with self.assertRaisesRegex(ValueError, "more than 1 spatial element"):
            F._verify_spatial_size([4, 3, 1])

    def test_softmax_dimensions(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual([F._get_softmax_dim("softmax", n, 2) for n in range(5)], [0, 0, 1, 0, 1])
        self.assertEqual(len(caught), 5)


class Pooling(unittest.TestCase):
    def test_maxima_alone(self):
        for n in (1, 2, 3):
            x = torch.rand(1, 2, *[6] * n)
            plain = getattr(F, f"_max_pool{n}d")
            self.assertTrue(torch.equal(plain(x, 2), getattr(F, f"max_pool{n}d")(x, 2)))
            self.assertIsInstance(plain(x, 2, None, 0, 1, False, True), torch.Tensor)
            adaptive = getattr(F, f"_adaptive_max_pool{n}d")(x, 3, True)
            self.assertTrue(torch.equal(adaptive, getattr(F, f"adaptive_max_pool{n}d")(x, 3)))
            if n > 1:
                samples = torch.rand(1, 2, n)
                got = getattr(F, f"_fractional_max_pool{n}d")(x, 2, output_size=3, _random_samples=samples)
                expected = getattr(F, f"fractional_max_pool{n}d")(x, 2, output_size=3, _random_samples=samples)
                self.assertTrue(torch.equal(got, expected))


class Small(unittest.TestCase):
    def test_integers(self):
        for x in (3, True, np.int64(3), torch.tensor(3), torch.tensor(True)):
            self.assertTrue(F._is_integer(x), x)
        for x in (3.0, np.float32(3), torch.tensor(3.0), "3", None):
            self.assertFalse(F._is_integer(x), x)

    def test_lists(self):
        self.assertEqual([F._expand_single_value(v) for v in (None, 3, [3, 4])], [[], [3], [3, 4]])
        self.assertEqual([F._list_or_empty(v) for v in (None, [], [3])], [[], [], [3]])
        kinds = F.ScalingType
        self.assertEqual(F._enum_list_as_int_list(kinds.RowWise), [1])
        self.assertEqual(len(F._enum_list_as_int_list([kinds.TensorWise, kinds.RowWise])), 2)

    def test_rows_are_shortened(self):
        table = torch.tensor([[3.0, 4.0], [30.0, 40.0]], requires_grad=True)
        self.assertIsNone(F._no_grad_embedding_renorm_(table, torch.tensor([0]), 1.0, 2.0))
        self.assertTrue(np.allclose(table.detach().numpy(), [[0.6, 0.8], [30, 40]], atol=1e-4))

    def test_signatures(self):
        import inspect

        def parameters(function):
            return list(inspect.signature(function).parameters)

        self.assertEqual(parameters(F._max_pool2d)[-2:], ["ceil_mode", "return_indices"])
        self.assertEqual(parameters(F._adaptive_max_pool1d), ["input", "output_size", "return_indices"])
        self.assertEqual(parameters(F.scaled_addmm_), parameters(F.scaled_addmm))
        self.assertEqual(parameters(F._pair), ["x"])

    def test_names(self):
        for name in ("_VF", "_Reduction", "_sym_int", "_overload", "_jit_unused", "_add_docstr", "math",
                     "warnings", "importlib", "torch", "DType", "Callable"):
            self.assertTrue(hasattr(F, name), name)
        self.assertEqual(F._Reduction.get_enum("sum"), 2)
        self.assertEqual(F._VF.relu(torch.tensor(-1.0)).item(), 0.0)


@unittest.skipIf(torch.__name__ == "torch", "PyTorch has these for GPUs only")
class Scales(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.rows, self.whole = F.ScalingType.RowWise, F.ScalingType.TensorWise

    @staticmethod
    def eight(*shape):
        return torch.randn(*shape).to(torch.float8_e4m3fn)

    @staticmethod
    def product(a, b, p, q):
        return (a.float() @ b.float()) * p[:, None] * q[None]

    def check(self, got, expected, tolerance=0.02):
        scale = max(1.0, expected.abs().max().item())
        self.assertLess((got.float() - expected).abs().max().item(), tolerance * scale)

    def test_added_product(self):
        a, b = self.eight(16, 32), self.eight(24, 32).t()
        p, q = torch.rand(16), torch.rand(24)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            x = torch.randn(16, 24).to(dtype)
            expected = 2 * x.float() + 3 * self.product(a, b, p, q)
            got = F.scaled_addmm(x, a, b, p, self.rows, q, self.rows, beta=2, alpha=3)
            self.assertEqual(got.dtype, dtype)
            self.check(got, expected)
            self.assertIs(F.scaled_addmm_(x, a, b, p, self.rows, q, self.rows, beta=2, alpha=3), x)
            self.assertTrue(torch.equal(x, got))
        one = torch.tensor(0.5)
        got = F.scaled_addmm(torch.full((16, 24), float("nan")), a, b, one, self.whole, one, self.whole, beta=0)
        self.check(got, a.float() @ b.float() * 0.25, 1e-5)
        with self.assertRaisesRegex(ValueError, "input must have dtype BFloat16, Half, or Float, but got Double"):
            F.scaled_addmm(torch.zeros(16, 24).double(), a, b, p, self.rows, q, self.rows)
        with self.assertRaisesRegex(ValueError, "input must have shape"):
            F.scaled_addmm(torch.zeros(16, 1), a, b, p, self.rows, q, self.rows)

    def test_groups(self):
        r = self.rows
        a, b = self.eight(32, 64), self.eight(48, 64).t()
        stack_a, stack_b = self.eight(2, 32, 64), self.eight(2, 48, 64).transpose(1, 2)
        ends = torch.tensor([16, 32], dtype=torch.int32)
        p, q = torch.rand(32), torch.rand(2, 48)
        got = F.scaled_grouped_mm(a, stack_b, p, r, q, r, offs=ends)
        parts = [self.product(a[s], stack_b[g], p[s], q[g]) for g, s in enumerate((slice(16), slice(16, 32)))]
        self.check(got, torch.cat(parts))
        self.assertEqual(got.dtype, torch.bfloat16)
        p = torch.rand(2, 32)
        got = F.scaled_grouped_mm(stack_a, stack_b, p, r, q, r)
        self.check(got[1], self.product(stack_a[1], stack_b[1], p[1], q[1]))
        p, q = torch.rand(64), torch.rand(96)
        got = F.scaled_grouped_mm(a, b, p, r, q, r, offs=torch.tensor([16, 48], dtype=torch.int32))
        self.check(got[1], self.product(a[:, 16:48], b[16:48], p[32:], q[48:]))
        with self.assertRaisesRegex(ValueError, "Only bf16 high precision output types"):
            F.scaled_grouped_mm(stack_a, stack_b, p, r, q, r, output_dtype=torch.float32)
        with self.assertRaisesRegex(ValueError, "Expected both inputs to be fp8"):
            F.scaled_grouped_mm(stack_a.float(), stack_b, p, r, q, r)


if __name__ == "__main__":
    unittest.main()
