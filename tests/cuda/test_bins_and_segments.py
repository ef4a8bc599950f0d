"""Histograms, segments, unique slices, margins and hashes, against the CPU's results."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional


@usable
class BinsAndSegmentsTest(CudaTest):
    def test_histograms(self):
        x, points, weight = torch.randn(3000), torch.randn(500, 2), torch.rand(500)
        self.check(lambda v: torch.histc(v, 7), x)
        self.check(lambda v: torch.histc(v, 3000, -1, 1), x)
        self.check(lambda v: torch.histogram(v, 9, range=(-1.0, 2.0)), x)
        self.check(lambda v, edges: torch.histogram(v, edges, density=True), x, torch.tensor([-2.0, -1, 0.5, 3]))
        hist = torch.histogramdd(points.cuda(), [3, 4], weight=weight.cuda()).hist
        self.same(hist, torch.histogramdd(points, [3, 4], weight=weight).hist)

    def test_segments(self):
        data, lengths = torch.randn(7, 3), torch.tensor([2, 0, 4, 1])
        for reduce in ("sum", "mean", "max", "min", "prod"):
            self.check_gradient(lambda d, n: torch.segment_reduce(d, reduce, lengths=n, axis=0, initial=1.0), data,
                                lengths, name=reduce)
        self.check(lambda d, o: torch.segment_reduce(d, "sum", offsets=o), data, torch.tensor([0, 1, 7]))
        with self.assertRaisesRegex(RuntimeError, "sum to"):
            torch.segment_reduce(data.cuda(), "sum", lengths=torch.tensor([2, 2], device="cuda"))

    def test_unique_slices(self):
        rows = torch.randint(0, 2, (50, 3))
        for dim in (0, 1):
            self.check(lambda v: torch.unique(v, dim=dim, return_inverse=True, return_counts=True), rows)
            self.check(lambda v: torch.unique_consecutive(v, dim=dim, return_inverse=True, return_counts=True), rows)
        self.check(lambda v: torch.unique_consecutive(v, return_inverse=True, return_counts=True), rows)

    def test_margin_of_several_labels(self):
        x, labels = torch.randn(3, 6), torch.tensor([[1, 3, -1, 0, 0, 0], [-1, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]])
        for reduction in ("none", "mean", "sum"):
            self.check_gradient(lambda v, t: F.multilabel_margin_loss(v, t, reduction=reduction), x, labels)

    def test_hash(self):
        for x in (torch.randn(3, 400), torch.arange(12).view(3, 4)):
            self.check(lambda v: torch.hash_tensor(v, 1).long(), x)


if __name__ == "__main__":
    unittest.main()
