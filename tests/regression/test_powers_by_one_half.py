"""Powers of negative infinities and zeros by a tensor with the one element 0.5 or -0.5 were those of square roots."""

import math
import unittest

from module_under_test import torch


class Halves(unittest.TestCase):
    def test_of_infinities_and_zeros(self):
        x = torch.tensor([-math.inf, math.inf, -0.0, 0.0, 4.0])
        for half in (torch.tensor(0.5), torch.tensor([0.5])):
            self.assertEqual((x**half).tolist(), [math.inf, math.inf, 0.0, 0.0, 2.0])
            self.assertFalse(torch.signbit((x**half)[2]).item())
            self.assertEqual((x**-half).tolist(), [0.0, 0.0, math.inf, math.inf, 0.5])

    def test_of_negative_numbers(self):
        self.assertTrue((torch.tensor([-4.0]) ** torch.tensor([0.5])).isnan().all())


if __name__ == "__main__":
    unittest.main()
