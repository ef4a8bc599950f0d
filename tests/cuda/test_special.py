"""Special functions against the CPU's, also at the borders of their domains."""

import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

special = torch.special
BORDERS = [0.0, -0.0, 1, -1, 2, -2, 0.5, 1e-8, 1e3, -1e3, 1e10, math.inf, -math.inf, math.nan, 8, 20, 109, 111, -9.1]


@usable
class SpecialTest(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float64": 1e-11}

    def setUp(self):
        torch.manual_seed(1)
        self.x = torch.cat([torch.tensor(BORDERS, dtype=torch.float64), torch.randn(81, dtype=torch.float64) * 8])

    def agree(self, function, *arguments, name=""):
        wanted = function(*arguments)
        found = function(*[x.cuda() for x in arguments])
        self.assertEqual(found.device.type, "cuda")
        self.assertTrue(torch.allclose(found.cpu(), wanted, 1e-10, 1e-11, equal_nan=True), f"{name} {found} {wanted}")

    def test_gamma_and_zeta(self):
        x, y = self.x, self.x.flip(0)
        self.agree(special.digamma, x)
        for n in (1, 4):
            self.agree(lambda v: torch.polygamma(n, v), x, name=n)
        self.agree(special.zeta, y.abs() + 1.5, x.abs())
        self.agree(special.gammainc, x.abs(), y.abs())
        self.agree(special.gammaincc, x.abs() * 9, y.abs() * 9)

    def test_bessel(self):
        names = ["i0", "i1e", "modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "airy_ai"]
        for name in names:
            self.agree(getattr(special, name), self.x, name=name)

    def test_polynomials(self):
        x = torch.cat([torch.tensor(BORDERS), torch.rand(81) * 2.4 - 1.2]).double()
        n = torch.cat([torch.arange(20.0), torch.randint(0, 40, (80,)).float()]).double()
        for name in ("chebyshev_polynomial_t", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
                     "legendre_polynomial_p"):
            self.agree(getattr(special, name), x, n, name=name)

    def test_gradients_in_single_precision(self):
        x = torch.rand(20) * 5 + 0.1
        self.check_gradient(torch.lgamma, x)
        self.check_gradient(special.i0, x)

    def test_bits(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            x = torch.tensor([0.0, 1, -1, 2, 1e-7, -3e-5, math.inf, 65504]).to(dtype)
            self.check(lambda a, b: torch.nextafter(a, b), x, x.flip(0), name=dtype)
            self.check(lambda a: tuple(torch.frexp(a)), x, name=dtype)


if __name__ == "__main__":
    unittest.main()
