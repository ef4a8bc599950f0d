"""grid_sample gave zeros at coordinates that are not finite, where PyTorch gives NaN by bilinear sampling."""

import unittest

from module_under_test import torch


class Coordinates(unittest.TestCase):
    def sample(self, x, mode):
        image = torch.arange(1.0, 5.0).view(1, 1, 2, 2)
        grid = torch.tensor([[[[x, 0.0]]]])
        return torch.nn.functional.grid_sample(image, grid, mode=mode, align_corners=True)

    def test_not_a_number(self):
        self.assertTrue(self.sample(float("nan"), "bilinear").isnan().all())

    def test_finite(self):
        self.assertEqual(self.sample(0.0, "bilinear").item(), 2.5)
        self.assertEqual(self.sample(1.0, "bilinear").item(), 3.0)


if __name__ == "__main__":
    unittest.main()
