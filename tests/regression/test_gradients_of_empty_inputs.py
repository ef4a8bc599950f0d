"""Gradients of operators whose input has no elements."""

import unittest

from module_under_test import torch

F = torch.nn.functional


class Convolutions(unittest.TestCase):
    def test_every_parameter_has_a_gradient_of_its_own_size(self):
        cases = [
            ((0, 2, 5), (3, 2, 3)), ((2, 0, 5), (3, 0, 3)), ((0, 2, 5, 5), (3, 2, 3, 3)),
            ((2, 0, 5, 5), (4, 0, 1, 1)), ((0, 1, 3, 3, 3), (2, 1, 2, 2, 2)),
        ]
        for input_size, weight_size in cases:
            with self.subTest(input=input_size):
                x, w = (torch.randn(*s, requires_grad=True) for s in (input_size, weight_size))
                b = torch.randn(weight_size[0], requires_grad=True)
                convolve = getattr(F, f"conv{len(input_size) - 2}d")
                convolve(x, w, b).sum().backward()
                for tensor in (x, w, b):
                    self.assertEqual(tensor.grad.shape, tensor.shape)
                    self.assertEqual(tensor.grad.abs().sum().item(), 0)


class Losses(unittest.TestCase):
    def check(self, loss, size, target):
        for reduction in ("none", "sum", "mean"):
            with self.subTest(loss.__name__, reduction=reduction):
                x = torch.randn(*size, requires_grad=True)
                value = loss(x, target, reduction=reduction)
                self.assertTrue(value.requires_grad)
                value.sum().backward()
                self.assertEqual(x.grad.shape, x.shape)

    def test_losses_of_pairs(self):
        for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div,
                     F.binary_cross_entropy_with_logits, F.soft_margin_loss, F.poisson_nll_loss):
            self.check(loss, (0,), torch.zeros(0))

    def test_losses_of_classes(self):
        target = torch.zeros(0, dtype=torch.long)
        for loss in (F.cross_entropy, F.multi_margin_loss):
            self.check(loss, (0, 3), target)
        self.check(F.multilabel_margin_loss, (0, 3), torch.zeros(0, 3, dtype=torch.long))
        self.check(F.multilabel_soft_margin_loss, (0, 3), torch.zeros(0, 3))


if __name__ == "__main__":
    unittest.main()
