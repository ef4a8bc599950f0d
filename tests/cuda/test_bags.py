"""Bags of embeddings against the CPU's results."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional


@usable
class BagsTest(CudaTest):
    def test_embedding_bag(self):
        torch.manual_seed(1)
        table, indices = torch.randn(10, 5), torch.randint(0, 10, (12,))
        offsets = torch.tensor([0, 3, 3, 7])
        factors = torch.rand(12)
        for mode in ("sum", "mean", "max"):
            self.check_gradient(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode), table, indices, offsets, name=mode)
            self.check_gradient(lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=3), table, indices,
                                offsets, name=mode)
        self.check_gradient(lambda w, i, o, f: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=f), table,
                            indices, offsets, factors)
        self.check(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum", include_last_offset=True), table, indices,
                   torch.tensor([0, 4, 12]))
        self.check_gradient(lambda w, i: F.embedding_bag(i, w, scale_grad_by_freq=True), table, indices.view(3, 4))

    def test_an_index_out_of_bounds(self):
        table = torch.randn(4, 3, device="cuda")
        F.embedding_bag(torch.tensor([[0, 9]], device="cuda"), table)
        with self.assertRaisesRegex(RuntimeError, "device-side assert"):
            torch.cuda.synchronize()

    def test_renorm(self):
        def run(table, indices):
            table = table.clone()
            return F.embedding(indices, table, max_norm=1.0), table

        self.check(run, torch.randn(6, 8) * 3, torch.tensor([[1, 1], [4, 0]]))

if __name__ == "__main__":
    unittest.main()
