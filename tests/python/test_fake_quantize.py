"""Numbers rounded as quantisation rounds them."""

import unittest

from module_under_test import torch

T = torch.tensor
X = T([-3.0, -1.25, 0.05, 0.15, 1.0, 12.7, float("nan"), float("inf")])


def rounded(values):
    return [round(value, 4) for value in values.tolist()]


class FakeQuantization(unittest.TestCase):
    def test_one_scale(self):
        quantise = torch.fake_quantize_per_tensor_affine
        self.assertEqual(rounded(quantise(X, 0.1, 0, 0, 255)), [0, 0, 0, 0.2, 1, 12.7, 0, 25.5])
        self.assertEqual(rounded(quantise(X, 0.1, 10, -128, 127)), [-3, -1.2, 0, 0.2, 1, 11.7, -13.8, 11.7])
        for kind in (torch.int32, torch.int64, torch.float32):
            got = quantise(X, T(0.1), T(3, dtype=kind), 0, 255)
            self.assertEqual(rounded(got), [-0.3, -0.3, 0, 0.2, 1, 12.7, -0.3, 25.2])
        for dtype in (torch.float64, torch.float16, torch.bfloat16):
            self.assertEqual(quantise(X.to(dtype), 0.5, 0, 0, 255).dtype, dtype)

    def test_channels(self):
        quantise = torch.fake_quantize_per_channel_affine
        x, zeros = torch.arange(6.0).view(2, 3) * 0.37 - 1, T([0, 5], dtype=torch.int32)
        got = quantise(x, T([0.1, 0.2]), zeros, 0, 0, 15)
        self.assertEqual([rounded(row) for row in got], [[0, 0, 0], [0.2, 0.4, 0.8]])
        got = quantise(x, T([0.1, 0.2, 0.3]), T([0.0, 1.5, 2]), 1, 0, 15)
        self.assertEqual([rounded(row) for row in got], [[0, -0.3, -0.3], [0.1, 0.5, 0.9]])

    def test_gradients(self):
        x = X[:6].clone().requires_grad_()
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 100).sum().backward()
        self.assertEqual(x.grad.tolist(), [0, 0, 1, 1, 1, 0])
        x = (torch.arange(6.0).view(2, 3) * 0.37 - 1).requires_grad_()
        got = torch.fake_quantize_per_channel_affine(x, T([0.1, 0.2]), T([0, 5], dtype=torch.int32), 0, 0, 15)
        (got * torch.arange(6.0).view(2, 3)).sum().backward()
        self.assertEqual(x.grad.tolist(), [[0, 0, 0], [3, 4, 5]])

    def test_refusals(self):
        one, many = torch.fake_quantize_per_tensor_affine, torch.fake_quantize_per_channel_affine
        x, scale, zeros = torch.ones(2, 3), T([0.1, 0.2]), T([0, 5], dtype=torch.int32)
        for error, call in (
            (RuntimeError, lambda: one(x, 0.1, 300, 0, 255)), (RuntimeError, lambda: one(x, 0.1, 0, 5, 1)),
            (NotImplementedError, lambda: one(x.int(), 0.1, 0, 0, 255)),
            (RuntimeError, lambda: many(x, scale, zeros.long(), 0, 0, 15)),
            (RuntimeError, lambda: many(x, scale, zeros, 1, 0, 15)),
            (RuntimeError, lambda: many(x, scale.double(), zeros, 0, 0, 15)),
            (RuntimeError, lambda: many(x, scale, zeros + 100, 0, 0, 15)),
            (IndexError, lambda: many(x, scale, zeros, 2, 0, 15)), (RuntimeError, lambda: many(x, scale, zeros, -2, 0, 15)),
        ):
            with self.assertRaises(error):
                call()


if __name__ == "__main__":
    unittest.main()
