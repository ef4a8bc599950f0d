"""permute of more than 64 dimensions failed an assertion."""

import unittest

from module_under_test import torch


class Dimensions(unittest.TestCase):
    def test_of_64_and_more(self):
        for rank in (64, 65, 70):
            x = torch.arange(2.0).view([1] * (rank - 1) + [2])
            y = x.permute(list(range(rank - 1, -1, -1)))
            self.assertEqual(list(y.shape), [2] + [1] * (rank - 1))
            self.assertEqual([y[0].item(), y[1].item()], [0.0, 1.0])


if __name__ == "__main__":
    unittest.main()
