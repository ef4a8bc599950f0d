"""Reductions and normalisations under a mask."""

import math
import unittest

from module_under_test import torch

masked = torch.masked


class Masked(unittest.TestCase):
    def setUp(self):
        self.x = torch.tensor([[-3.0, -2, -1], [0, 1, 2]])
        self.mask = torch.tensor([[True, False, True], [False, False, False]])

    def test_reductions(self):
        options = {"mask": self.mask}
        for name, expected in (
            ("sum", [-4, 0]), ("prod", [3, 1]), ("amax", [-1, -math.inf]), ("amin", [-3, math.inf]),
            ("argmax", [2, 0]), ("argmin", [0, 0]), ("norm", [10 ** 0.5, 0]),
        ):
            found = getattr(masked, name)(self.x, dim=1, **options)
            self.assertTrue(torch.allclose(found.float(), torch.tensor(expected).float()), name)
        for name, expected in (("mean", -2), ("var", 2), ("std", 2 ** 0.5), ("median", -3)):
            found = getattr(masked, name)(self.x, dim=1, **options)
            self.assertAlmostEqual(found[0].item(), expected, 5)
            self.assertTrue(math.isnan(found[1].item()))
        self.assertEqual(masked.sum(self.x, keepdim=True, mask=self.mask).shape, (1, 1))

    def test_lines(self):
        self.assertEqual(masked.cumsum(self.x, 1, mask=self.mask).tolist(), [[-3, -3, -4], [0, 0, 0]])
        soft = masked.softmax(self.x, 1, mask=self.mask)
        pair = torch.softmax(torch.tensor([-3.0, -1]), 0)
        self.assertTrue(torch.allclose(soft[0, [0, 2]], pair))
        self.assertEqual(soft[0, 1].item(), 0)
        self.assertTrue(soft[1].isnan().all())
        unit = masked.normalize(self.x, 2.0, 1, mask=self.mask)
        self.assertTrue(torch.allclose(unit[0], torch.tensor([-3.0, 0, -1]) / 10 ** 0.5))

    def test_dtypes_and_broadcasting(self):
        numbers = torch.arange(6, dtype=torch.int8).reshape(2, 3)
        column = torch.tensor([[True], [False]])
        found = masked.sum(numbers, 1, mask=column)
        self.assertEqual((found.tolist(), found.dtype), ([3, 0], torch.int64))
        found = masked.amax(numbers, 1, mask=column)
        self.assertEqual((found.tolist(), found.dtype), ([2, -128], torch.int8))
        other = masked.logaddexp(self.x, self.x, other_mask=torch.tensor([True, False, True]))
        self.assertEqual(other[0, 1].item(), -2)

    def test_gradient(self):
        x = self.x.requires_grad_()
        (grad,) = torch.autograd.grad(masked.mean(x, 1, mask=self.mask)[0], x)
        self.assertEqual(grad.tolist(), [[0.5, 0, 0.5], [0, 0, 0]])

    def test_refusals(self):
        with self.assertRaises(NotImplementedError):
            masked.amax(self.mask, mask=self.mask)
        with self.assertRaises(ValueError):
            masked.mean(self.x.long(), mask=self.mask)
        with self.assertRaises(IndexError):
            masked.sum(self.x, mask=self.mask[None])
        with self.assertRaises(RuntimeError):
            masked.sum(self.x, (0, 0), mask=self.mask)


if __name__ == "__main__":
    unittest.main()
