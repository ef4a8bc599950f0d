"""Dropout in one launch: the mask follows from the generator's stream as in PyTorch."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional
WORD = 2**32 - 1


def philox(seed, thread, block):
    """Philox4x32-10 (Salmon et al. 2011)."""
    k0, k1, a, b, c, d = seed & WORD, seed >> 32, block & WORD, block >> 32, thread & WORD, thread >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ k0, second & WORD, (first >> 32) ^ d ^ k1, first & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return a, b, c, d


def keeps(word, kept):
    return word * 2.0**-32 + 2.0**-33 < kept


@usable
class Dropout(CudaTest):
    def test_mask(self):
        # Threads make four neighbours of a block; two or single ones where the number is no multiple.
        for count, wide in ((24, 4), (10, 2), (7, 1)):
            torch.manual_seed(3)
            out, mask = torch.native_dropout(torch.ones(count, device="cuda"), 0.3, True)
            grid = 256
            wanted = [keeps(philox(3, i // wide if wide > 1 else i % grid, 0)[i % wide if wide > 1 else i // grid], 0.7)
                      for i in range(count)]
            self.assertEqual(mask.cpu().tolist(), wanted)
            self.assertTrue(torch.allclose(out.cpu(), torch.tensor(wanted).float() / 0.7))

    def test_same_numbers_by_function_and_layout(self):
        x = torch.randn(8, 6, device="cuda")
        torch.manual_seed(1)
        wanted = F.dropout(x, 0.5)
        torch.manual_seed(1)
        turned = F.dropout(x.t().contiguous().t(), 0.5)
        self.assertEqual(turned.stride(), (1, 8))
        self.assertLess(abs((wanted == 0).float().mean().item() - 0.5), 0.25)
        expanded = F.dropout(torch.ones(1, 500, device="cuda").expand(4, 500), 0.5)
        self.assertLess(abs((expanded == 0).float().mean().item() - 0.5), 0.1)
        self.assertFalse(torch.equal(expanded[0], expanded[1]))

    def test_gradient(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            x = torch.randn(40, dtype=dtype, device="cuda", requires_grad=True)
            out = F.dropout(x, 0.25)
            out.sum().backward()
            kept = out.detach() != 0
            self.assertTrue(torch.allclose(x.grad, kept.to(dtype) / 0.75, 1e-2 if dtype.itemsize == 2 else 1e-6))
            self.assertTrue(torch.allclose(out, x * x.grad, 1e-2 if dtype.itemsize == 2 else 1e-6))

    def test_ends(self):
        x = torch.randn(5, device="cuda")
        self.assertTrue(torch.equal(F.dropout(x, 0.0), x))
        self.assertEqual(F.dropout(x, 1.0).abs().sum().item(), 0.0)
        self.assertTrue(torch.equal(torch.native_dropout(x, 0.5, False)[0], x))
        self.assertEqual(torch.native_dropout(x, 1.0, True)[1].sum().item(), 0)
        self.assertEqual(torch.native_dropout(x[:0], 0.5, True)[0].shape, (0,))
        self.assertEqual(torch.native_dropout(x.to("meta"), 0.5, True)[1].dtype, torch.bool)


if __name__ == "__main__":
    unittest.main()
