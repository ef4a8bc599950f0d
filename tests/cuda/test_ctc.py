"""Connectionist temporal classification as on the CPU."""

import sys
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional


@usable
class Ctc(CudaTest):
    tolerance = {"torch.float32": 1e-4}

    def compare(self, logits, targets, lengths, label_lengths, **options):
        def loss(logits):
            given = targets.to(logits.device)
            return F.ctc_loss(logits.log_softmax(-1), given, lengths, label_lengths, **options)

        self.check_gradient(loss, logits)

    def test_losses(self):
        targets = torch.randint(1, 6, (3, 5))
        lengths, label_lengths = (12, 9, 7), (5, 2, 0)
        for dtype in (torch.float32, torch.float64):
            logits = torch.randn(12, 3, 6, dtype=dtype)
            for reduction in ("none", "mean", "sum"):
                self.compare(logits, targets, lengths, label_lengths, reduction=reduction)
            self.compare(logits, targets.int(), lengths, label_lengths, blank=0)
            self.compare(logits, targets[0, :3], (12,) * 3, (1, 2, 0))
            self.compare(logits, torch.randint(0, 5, (3, 5)), lengths, label_lengths, blank=5)
        # One label again and again, and one that is the blank.
        self.compare(torch.randn(12, 3, 6), torch.ones(3, 5, dtype=torch.int64), lengths, (5, 3, 2))
        self.compare(torch.randn(12, 3, 6), torch.tensor([[1, 0, 2, 1, 0]] * 3), lengths, (5, 3, 2))
        self.compare(torch.randn(12, 6), targets[0], (12,), (5,))

    def test_impossible(self):
        logits, targets = torch.randn(4, 2, 6), torch.randint(1, 6, (2, 5))
        self.compare(logits, targets, (3, 4), (5, 2), zero_infinity=True)
        self.check(lambda x: F.ctc_loss(x, targets.to(x.device), (3, 0), (5, 2), reduction="none"),
                   logits.log_softmax(-1))

    def test_many(self):
        logits, targets = torch.randn(5, 150, 4), torch.randint(1, 4, (300,))
        self.compare(logits, targets, (5,) * 150, (2,) * 150)
        self.compare(torch.randn(8, 2, 300), torch.randint(1, 300, (2, 4)), (8, 8), (4, 4))
        self.compare(torch.randn(300, 1, 4), torch.randint(1, 4, (1, 140)), (300,), (140,))

    def test_lengths_on_the_device(self):
        logits, targets = torch.randn(4, 2, 6), torch.randint(1, 6, (2, 2))
        self.check(lambda x, *lengths: F.ctc_loss(x, targets.to(x.device), *lengths), logits.log_softmax(-1),
                   torch.tensor([4, 3]), torch.tensor([2, 1]))

    def test_labels_out_of_range(self):
        logits = torch.randn(4, 1, 6, device="cuda").log_softmax(-1)
        with self.assertRaisesRegex(RuntimeError, "device-side assert"):
            F.ctc_loss(logits, torch.tensor([[1, 9]], device="cuda"), (4,), (2,))
            torch.cuda.synchronize()

    def test_nothing_is_computed_on_the_host(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            logits = torch.randn(4, 1, 6, device="cuda", requires_grad=True)
            F.ctc_loss(logits.log_softmax(-1), torch.tensor([[1, 2]], device="cuda"), (4,), (2,)).backward()


if __name__ == "__main__":
    unittest.main()
