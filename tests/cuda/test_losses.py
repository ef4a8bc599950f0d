"""Losses and their gradients on the device beside the CPU."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional


def numbers(*sizes, seed=0, dtype=torch.float32):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


@usable
class Losses(CudaTest):
    def test_class_indices(self):
        target = torch.tensor([1, 0, 4, -100, 2, 2])
        weight = torch.rand(5, generator=torch.Generator().manual_seed(2))
        for reduction in ("none", "mean", "sum"):
            for own in (None, weight):
                for dtype in (torch.float32, torch.float64):
                    def loss(x, t, *w):
                        return F.nll_loss(x, t, w[0] if w else None, reduction=reduction)
                    weights = [] if own is None else [own.to(dtype)]
                    wanted = [numbers(6, 5, dtype=dtype), target, *weights]
                    self.check(loss, *wanted, name=f"{reduction} {dtype}")
                self.check(lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1),
                           numbers(6, 5), target.abs() % 5)
            self.check_gradient(lambda x: F.cross_entropy(x, target.abs().to(x.device) % 5, reduction=reduction),
                                numbers(6, 5))
        self.check(lambda x, t: F.nll_loss(x, t), numbers(5), torch.tensor(3))

    def test_images(self):
        target = torch.randint(0, 3, (2, 7, 40), generator=torch.Generator().manual_seed(1))
        for reduction in ("none", "mean", "sum"):
            self.check(lambda x, t: F.nll_loss(x, t, reduction=reduction, ignore_index=1), numbers(2, 3, 7, 40), target)
            self.check_gradient(lambda x: F.nll_loss(x, target.to(x.device), reduction=reduction), numbers(2, 3, 7, 40))

    def test_many_samples(self):
        x, target = numbers(70000, 2, dtype=torch.float64), torch.arange(70000) % 2
        self.check(lambda x, t: (F.nll_loss(x, t), F.nll_loss(x, t, reduction="sum")), x, target)

    def test_no_class(self):
        torch.cuda.synchronize()
        F.nll_loss(torch.zeros(2, 3, device="cuda"), torch.tensor([0, 3], device="cuda"))
        with self.assertRaisesRegex(RuntimeError, "device-side assert"):
            torch.cuda.synchronize()

    def test_probabilities(self):
        x, t = torch.rand(5, 6, generator=torch.Generator().manual_seed(1)), numbers(5, 6).sigmoid()
        for reduction in ("none", "mean", "sum"):
            self.check_gradient(lambda x: F.binary_cross_entropy(x, t.to(x.device), reduction=reduction), x.clone())
        ends = torch.tensor([0.0, 1, 1, 0])
        self.check(lambda x, t: F.binary_cross_entropy(x, t), ends, ends.flip(0))
        self.check(lambda x, t, w: F.binary_cross_entropy(x, t, w), x, t, torch.rand(6))
        F.binary_cross_entropy(torch.tensor([1.5], device="cuda"), torch.tensor([1.0], device="cuda"))
        with self.assertRaisesRegex(RuntimeError, "device-side assert"):
            torch.cuda.synchronize()

    def test_differences(self):
        t = numbers(4, 5, seed=1)
        for reduction in ("none", "mean", "sum"):
            for loss in (F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.l1_loss,
                         lambda x, t, reduction: F.smooth_l1_loss(x, t, reduction=reduction, beta=0.0),
                         lambda x, t, reduction: F.huber_loss(x, t, reduction=reduction, delta=0.3)):
                self.check_gradient(lambda x, t: loss(x, t, reduction=reduction), numbers(4, 5), t.clone())
        self.check(lambda x, t: F.mse_loss(x.half(), t.half()), numbers(4, 5), t)
        with self.assertRaises(RuntimeError):
            F.huber_loss(torch.ones(2, device="cuda"), torch.ones(2, device="cuda"), delta=0)


if __name__ == "__main__":
    unittest.main()
