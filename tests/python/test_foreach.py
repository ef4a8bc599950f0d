"""One operation on every tensor of a list."""

import unittest

from module_under_test import torch

foreach = torch.foreach


def lists(tensors):
    return [tensor.tolist() for tensor in tensors]


class Foreach(unittest.TestCase):
    def setUp(self):
        self.x = [torch.tensor([1.0, 4]), torch.tensor([[9.0]])]

    def test_functions(self):
        x = self.x
        self.assertEqual(lists(foreach.sqrt(x)), [[1, 2], [[3]]])
        self.assertEqual(lists(foreach.add(x, 1)), [[2, 5], [[10]]])
        self.assertEqual(lists(foreach.add(x, x, alpha=2)), [[3, 12], [[27]]])
        self.assertEqual(lists(foreach.mul(x, [2, 3])), [[2, 8], [[27]]])
        self.assertEqual(lists(foreach.mul(x, torch.tensor(2.0))), [[2, 8], [[18]]])
        self.assertEqual(lists(foreach.maximum(x, 5)), [[5, 5], [[9]]])
        self.assertEqual(lists(foreach.pow(2, x)), [[2, 16], [[512]]])
        self.assertEqual(lists(foreach.max(x)), [4, 9])
        self.assertEqual(lists(foreach.norm(x, ord=1)), [5, 9])
        self.assertEqual(lists(foreach.lerp(x, foreach.neg(x), 0.5)), [[0, 0], [[0]]])
        self.assertEqual(lists(foreach.addcmul(x, x, x, value=[1, 0])), [[2, 20], [[9]]])
        self.assertIsInstance(foreach.exp(x), tuple)

    def test_in_place(self):
        for change, expected in (
            (lambda x: foreach.add_(x, 1), [[2, 5], [[10]]]),
            (lambda x: foreach.sqrt_(x), [[1, 2], [[3]]]),
            (lambda x: foreach.copy_(x, [torch.zeros(()), torch.ones(1)]), [[0, 0], [[1]]]),
            (lambda x: foreach.zero_(x), [[0, 0], [[0]]]),
        ):
            x = [tensor.clone() for tensor in self.x]
            self.assertIs(change(x), x)
            self.assertEqual(lists(x), expected)

    def test_gradient(self):
        x = [tensor.requires_grad_() for tensor in self.x]
        total = sum(y.sum() for y in foreach.mul(x, x))
        self.assertEqual(lists(torch.autograd.grad(total, x)), [[2, 8], [[18]]])

    def test_refusals(self):
        for function, words in (
            (lambda: foreach.exp([]), "must have at least one tensor"),
            (lambda: foreach.add(self.x, [1]), "same number of elements as scalar list"),
            (lambda: foreach.add(self.x, self.x[:1]), "got 2 and 1"),
            (lambda: foreach.add(self.x, self.x[0]), "scalar tensor expected to be 0 dim"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                function()


if __name__ == "__main__":
    unittest.main()
