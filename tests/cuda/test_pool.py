"""Inverses of maximum pooling, and distances between rows, on the device, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

F = torch.nn.functional


@usable
class Unpool(CudaTest):
    def test_unpool(self):
        x, places = F.max_pool2d(torch.randn(2, 3, 6, 8), 2, return_indices=True)
        self.check(lambda x, p: F.max_unpool2d(x, p, 2), x, places)
        x, places = F.max_pool3d(torch.randn(2, 3, 4, 6, 2), 2, return_indices=True)
        self.check(lambda x, p: F.max_unpool3d(x, p, 2), x, places)


@usable
class Distance(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 1e-4}

    def test_distances_between_rows(self):
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf")):
            x, y = torch.randn(2, 5, 4), torch.randn(2, 6, 4)
            self.check_gradient(lambda x, y: torch.cdist(x, y, p), x, y, name=p)
            self.check_gradient(lambda x: torch.pdist(x, p), torch.randn(6, 3), name=p)
        self.check(lambda x, y: torch.cdist(x, y), torch.randn(30, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64))
        self.check(lambda x, y: torch.cdist(x, y), torch.randn(0, 4), torch.randn(5, 4))


if __name__ == "__main__":
    unittest.main()
