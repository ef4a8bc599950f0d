"""Householder reflectors of vectors of subnormal numbers were not orthogonal to rounding."""

import unittest

from module_under_test import torch


class Reflectors(unittest.TestCase):
    def test_orthogonal_factors(self):
        for unit in (1e300, 1e-300, 1e-310):
            a = torch.tensor([[3.0, 1.0], [4.0, 2.0]], dtype=torch.float64) * unit
            q, r = torch.linalg.qr(a)
            self.assertLess((q.T @ q - torch.eye(2, dtype=torch.float64)).abs().max().item(), 1e-15)
            self.assertAlmostEqual(abs(r[0, 0].item() / unit), 5.0, delta=1e-10)

    def test_ranks_that_are_exhausted(self):
        # What rounding leaves of these becomes subnormal on the way.
        for size in (30, 64):
            u, s, v = torch.linalg.svd(torch.ones(size, size, dtype=torch.float64))
            self.assertAlmostEqual(s[0].item(), size, delta=1e-12)
            self.assertLess(s[1].item(), 1e-12)
            for basis in (u, v):
                error = (basis.T @ basis - torch.eye(size, dtype=torch.float64)).abs().max().item()
                self.assertLess(error, 1e-13)


if __name__ == "__main__":
    unittest.main()
