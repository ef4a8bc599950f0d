"""Transposed convolutions with kernels of one element and an output padding failed an assertion."""

import unittest

from module_under_test import torch


class OutputPadding(unittest.TestCase):
    def test_kernels_of_one_element(self):
        x = torch.tensor([[[1.0, 2.0, 3.0]]])
        weight, bias = torch.tensor([[[2.0]]]), torch.tensor([0.5])
        y = torch.nn.functional.conv_transpose1d(x, weight, bias, stride=2, output_padding=1)
        self.assertEqual(y.tolist(), [[[2.5, 0.5, 4.5, 0.5, 6.5, 0.5]]])

    def test_gradients(self):
        x = torch.ones(1, 1, 2, 2, requires_grad=True)
        weight = torch.tensor([[[[3.0]]]], requires_grad=True)
        y = torch.nn.functional.conv_transpose2d(x, weight, stride=3, output_padding=2)
        self.assertEqual(list(y.shape), [1, 1, 6, 6])
        y.sum().backward()
        self.assertEqual(x.grad.flatten().tolist(), [3.0] * 4)
        self.assertEqual(weight.grad.item(), 4.0)


if __name__ == "__main__":
    unittest.main()
