"""Products of 16-bit matrices by the tensor cores of this package's own kernels, in every order of memory."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

from corten import _C  # noqa: E402


@usable
class TensorCores(CudaTest):
    def setUp(self):
        _C._cuda_useCublasLt(False)
        self.addCleanup(_C._cuda_useCublasLt, True)

    def near(self, found, wanted, dtype):
        error = (found.cpu().double() - wanted).abs().max() / wanted.abs().max()
        self.assertLess(error.item(), 2e-3 if dtype is torch.float16 else 1e-2)

    def test_layouts(self):
        for dtype in (torch.float16, torch.bfloat16):
            for m, n, k in ((70, 66, 40), (5, 130, 33), (64, 64, 64), (3, 2, 1)):
                for turned in range(4):
                    a = torch.randn(k, m).t() if turned & 1 else torch.randn(m, k)
                    b = torch.randn(n, k).t() if turned & 2 else torch.randn(k, n)
                    a, b = a.to(dtype), b.to(dtype)
                    with self.subTest(f"{dtype} {m} {n} {k} {turned}"):
                        self.near(a.to("cuda") @ b.to("cuda"), a.double() @ b.double(), dtype)

    def test_batches_and_sums(self):
        a, b, c = torch.randn(3, 20, 34).half(), torch.randn(3, 34, 18).half(), torch.randn(3, 20, 18).half()
        wanted = 0.5 * c.double() + 2 * (a.double() @ b.double())
        self.near(torch.baddbmm(c.cuda(), a.cuda(), b.cuda(), beta=0.5, alpha=2), wanted, torch.float16)
        # Views whose rows do not begin at 16 bytes, and a long sum that is split.
        a, b = torch.randn(20, 2100).half(), torch.randn(2100, 11).half()
        self.near(a.cuda()[1:, 3:] @ b.cuda()[3:, 1:], a[1:, 3:].double() @ b[3:, 1:].double(), torch.float16)

    def test_large_tiles(self):
        a, b = torch.randn(1536, 16).half(), torch.randn(16, 1500).half()
        self.near(a.cuda() @ b.cuda(), a.double() @ b.double(), torch.float16)


if __name__ == "__main__":
    unittest.main()
