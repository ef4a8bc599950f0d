"""Decompositions and solutions of matrices near the borders of their dtype's range."""

import unittest

from module_under_test import torch

SCALES = {
    torch.float32: (1e-25, 1e25), torch.complex64: (1e-25, 1e25),
    torch.float64: (1e-200, 1e200), torch.complex128: (1e-200, 1e200),
}


class Scaled(unittest.TestCase):
    def each(self):
        torch.manual_seed(0)
        for dtype, scales in SCALES.items():
            for scale in scales:
                a = torch.randn(7, 7, dtype=dtype) + 3 * torch.eye(7, dtype=dtype)
                yield a, scale

    def near(self, result, expected):
        limit = 2e-4 if result.dtype in (torch.float32, torch.complex64) else 1e-11
        self.assertTrue(torch.allclose(result, expected, rtol=limit, atol=limit), (result, expected))

    def test_qr(self):
        for a, scale in self.each():
            q, r = torch.linalg.qr(a * scale)
            self.near(q @ (r / scale), a)
            self.near(q.mH @ q, torch.eye(7, dtype=a.dtype))

    def test_lu_and_solve(self):
        for a, scale in self.each():
            p, l, u = torch.linalg.lu(a * scale)
            self.near(p @ l @ (u / scale), a)
            b = torch.randn(7, 2, dtype=a.dtype)
            self.near(torch.linalg.solve(a * scale, b * scale), torch.linalg.solve(a, b))
            self.near(torch.linalg.inv(a * scale) * scale, torch.linalg.inv(a))

    def test_triangles(self):
        for a, scale in self.each():
            b = torch.randn(7, 2, dtype=a.dtype)
            for upper in (True, False):
                t = a.triu() if upper else a.tril()
                result = torch.linalg.solve_triangular(t * scale, b * scale, upper=upper)
                self.near(result, torch.linalg.solve_triangular(t, b, upper=upper))

    def test_symmetric(self):
        for a, scale in self.each():
            h = a @ a.mH + torch.eye(7, dtype=a.dtype)
            self.near(torch.linalg.cholesky(h * scale) / scale**0.5, torch.linalg.cholesky(h))
            ld, pivots = torch.linalg.ldl_factor(h * scale, hermitian=True)
            b = torch.randn(7, 2, dtype=a.dtype)
            solved = torch.linalg.ldl_solve(ld, pivots, b * scale, hermitian=True)
            self.near(solved, torch.linalg.solve(h, b))

    def test_qr_of_matrices_without_full_rank(self):
        for dtype in SCALES:
            for seed in range(300):
                torch.manual_seed(seed)
                a = torch.randn(5, 5, dtype=dtype) * (torch.rand(5, 5) < 0.3)
                with self.subTest(dtype=dtype, seed=seed):
                    q, r = torch.linalg.qr(a)
                    self.near(q @ r, a)
                    self.near(q.mH @ q, torch.eye(5, dtype=dtype))


if __name__ == "__main__":
    unittest.main()
