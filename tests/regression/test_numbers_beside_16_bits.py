"""Numbers lost their precision beside tensors of 16 bits, means of these overflowed, and assigned numbers beyond
their range did not become infinite."""

import math
import unittest

from module_under_test import torch


class SixteenBits(unittest.TestCase):
    def test_numbers_keep_their_precision(self):
        self.assertEqual((torch.ones(1, dtype=torch.float16) * 1e5 * 1e-5).item(), math.inf)
        self.assertEqual(torch.mul(torch.full((1,), 1e-3, dtype=torch.float16), 1e5).item(), 100.0625)

    def test_means_do_not_overflow(self):
        x = torch.full((1000,), 60000.0, dtype=torch.float16)
        self.assertEqual(x.mean().item(), 60000.0)
        self.assertEqual(x.view(10, 100).mean(1).tolist(), [60000.0] * 10)

    def test_assigned_numbers(self):
        x = torch.zeros(2, dtype=torch.float16)
        x[0] = 1e6
        self.assertEqual(x.tolist(), [math.inf, 0.0])


if __name__ == "__main__":
    unittest.main()
