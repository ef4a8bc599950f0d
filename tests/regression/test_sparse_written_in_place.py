"""mul_ of a dense tensor with a sparse one changed nothing, and sums of sparse tensors of half precision stopped
growing."""

import unittest

from module_under_test import torch


class Sparse(unittest.TestCase):
    def test_dense_times_sparse(self):
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        other = torch.tensor([[0.0, 5.0], [0.0, 0.0]]).to_sparse()
        self.assertEqual((x * other).to_dense().tolist(), [[0.0, 10.0], [0.0, 0.0]])

    def test_sums_of_half_precision(self):
        x = torch.ones(5000, dtype=torch.float16).to_sparse()
        self.assertEqual(torch.sparse.sum(x).item(), 5000.0)


if __name__ == "__main__":
    unittest.main()
