"""Empty operands were refused for a dtype in which there is nothing to compute."""

import unittest

from module_under_test import torch


class Empty(unittest.TestCase):
    def test_products(self):
        for dtype in (torch.bool, torch.int32, torch.float32):
            found = torch.zeros(0, 3, dtype=dtype) @ torch.zeros(3, 4, dtype=dtype)
            self.assertEqual((list(found.shape), found.dtype), ([0, 4], dtype))

    def test_factors(self):
        factors, pivots = torch.linalg.lu_factor(torch.zeros(0, 3, 3, dtype=torch.bool))
        self.assertEqual((list(factors.shape), list(pivots.shape)), ([0, 3, 3], [0, 3]))
        self.assertEqual(torch.linalg.matrix_rank(torch.zeros(2, 0, 3, dtype=torch.bool), tol=0.5).tolist(), [0, 0])

    def test_images(self):
        found = torch.nn.functional.adaptive_avg_pool2d(torch.zeros(0, 2, 4, 4, dtype=torch.bool), 2)
        self.assertEqual((list(found.shape), found.dtype), ([0, 2, 2, 2], torch.bool))
        found = torch.grid_sampler(
            torch.zeros(0, 2, 3, 3, dtype=torch.int32), torch.zeros(0, 2, 2, 2, dtype=torch.int32), 0, 0, False)
        self.assertEqual(list(found.shape), [0, 2, 2, 2])
        self.assertEqual(list(torch.pixel_unshuffle(torch.zeros(0, 2, 4), 2).shape), [0, 2, 4])

    def test_what_is_computed_is_refused(self):
        with self.assertRaises(NotImplementedError):
            torch.linalg.lu_factor(torch.zeros(3, 3, dtype=torch.bool))


if __name__ == "__main__":
    unittest.main()
