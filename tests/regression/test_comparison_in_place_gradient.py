"""Comparisons in place are constants: the gradient of what they were written over is zero, and was cut."""

import unittest

from module_under_test import torch


class Comparisons(unittest.TestCase):
    def test_gradients_are_zero(self):
        for name in ("eq_", "ne_", "lt_", "le_", "gt_", "ge_"):
            for other in (1.0, torch.tensor([1.0, 2.0, 3.0])):
                x = torch.tensor([0.5, 1.0, 4.0], requires_grad=True)
                y = x * 2
                getattr(y, name)(other)
                self.assertTrue(y.requires_grad, name)
                (y * 3).sum().backward()
                self.assertEqual(x.grad.tolist(), [0.0, 0.0, 0.0], name)

    def test_values(self):
        y = torch.tensor([0.5, 1.0, 4.0])
        self.assertEqual(y.clone().gt_(0.75).tolist(), [0.0, 1.0, 1.0])
        self.assertEqual(y.clone().eq_(y).tolist(), [1.0, 1.0, 1.0])


if __name__ == "__main__":
    unittest.main()
