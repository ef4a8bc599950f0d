"""Comparing a tensor with an array was False, and not a comparison of elements."""

import numpy as np
import unittest

from module_under_test import torch


class Arrays(unittest.TestCase):
    def test_elements_are_compared(self):
        x, array = torch.tensor([1, 2, 3]), np.array([1, 0, 3])
        self.assertEqual((x == array).tolist(), [True, False, True])


if __name__ == "__main__":
    unittest.main()
