"""Samplers whose parameters are tensors: moments of their numbers, and slopes against the CPU's."""

import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

COUNT = 8000


@usable
class SamplingTest(CudaTest):
    def setUp(self):
        torch.manual_seed(7)

    def moments(self, sample, mean, variance, name):
        self.assertEqual(sample.device.type, "cuda")
        x = sample.double().cpu()
        self.assertLess(abs(x.mean().item() - mean), 6 * math.sqrt(variance / COUNT), name)
        self.assertLess(abs(x.var().item() / variance - 1), 0.2, name)

    def filled(self, value):
        return torch.full((COUNT,), float(value), device="cuda")

    def test_poisson(self):
        for rate in (0.4, 4, 12, 300):
            self.moments(torch.poisson(self.filled(rate)), rate, rate, rate)
        torch.poisson(torch.tensor([-1.0], device="cuda"))
        with self.assertRaisesRegex(RuntimeError, "invalid Poisson rate"):
            torch.cuda.synchronize()

    def test_binomial(self):
        for n, p in ((10, 0.3), (1000, 0.02), (50, 0.9)):
            sample = torch.binomial(self.filled(n), self.filled(p))
            self.moments(sample, n * p, n * p * (1 - p), (n, p))

    def test_gamma(self):
        for concentration in (0.3, 1, 20):
            sample = torch._standard_gamma(self.filled(concentration))
            self.moments(sample, concentration, concentration, concentration)

    def test_dirichlet(self):
        sample = torch._sample_dirichlet(torch.tensor([1.0, 2, 3], device="cuda").repeat(COUNT, 1))
        self.moments(sample[:, 1], 1 / 3, 2 / 9 / 7, "dirichlet")
        self.assertLess((sample.sum(1) - 1).abs().max().item(), 1e-5)

    def test_a_seed_gives_the_same_numbers(self):
        generator = torch.Generator("cuda")
        rates = self.filled(3)
        samples = [torch.poisson(rates, generator=generator.manual_seed(5)) for _ in range(2)]
        self.assertTrue(torch.equal(*samples))
        self.assertFalse(torch.equal(samples[0], torch.poisson(rates, generator=generator)))

    def test_slopes(self):
        concentration = torch.rand(100, dtype=torch.float64) * 8 + 0.05
        self.check(lambda a, x: torch._standard_gamma_grad(a, x), concentration, torch._standard_gamma(concentration))
        alpha = torch.rand(30, 3, dtype=torch.float64) * 4 + 0.1
        self.check(lambda x, a: torch._dirichlet_grad(x, a, a.sum(1, keepdim=True)), torch._sample_dirichlet(alpha),
                   alpha)


if __name__ == "__main__":
    unittest.main()
