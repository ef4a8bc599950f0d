"""What was taken and is refused by PyTorch, in its classes: polar and nanmean of integers, sizes below zero."""

import unittest

from module_under_test import torch


class Refused(unittest.TestCase):
    def test_polar_of_integers(self):
        with self.assertRaises(RuntimeError):
            torch.polar(torch.tensor([1]), torch.tensor([1]))
        with self.assertRaises(RuntimeError):
            torch.polar(torch.tensor([1.0]), torch.tensor([1.0]), out=torch.zeros(1))
        found = torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
        self.assertEqual(found.tolist(), [2 + 0j])

    def test_nanmean_of_integers(self):
        with self.assertRaises(RuntimeError):
            torch.nanmean(torch.tensor([1, 2]))
        self.assertEqual(torch.nanmean(torch.tensor([1.0, float("nan"), 3.0])).item(), 2.0)

    def test_expand_to_negative_sizes(self):
        with self.assertRaises(RuntimeError):
            torch.zeros(1, 2).expand(-3, 2)
        self.assertEqual(list(torch.zeros(1, 2).expand(-1, 2).shape), [1, 2])


if __name__ == "__main__":
    unittest.main()
