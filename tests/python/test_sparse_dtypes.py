"""Sparse tensors of different dtypes together, their adjoints, and decompositions of low rank."""

import unittest

from module_under_test import torch

INDICES = [[0, 0, 1], [1, 1, 0]]


def sparse(values, dtype):
    return torch.sparse_coo_tensor(torch.tensor(INDICES), torch.tensor(values, dtype=dtype), (2, 2))


class Dtypes(unittest.TestCase):
    def setUp(self):
        self.signed = sparse([100, 100, 3], torch.int8)
        self.unsigned = sparse([100, 100, 3], torch.uint8)

    def test_differences_are_of_the_common_dtype(self):
        for a, b in ((self.signed, self.unsigned), (self.signed.coalesce(), self.unsigned.coalesce())):
            found = a - b
            self.assertEqual(found.dtype, torch.int16)
        self.assertEqual((self.signed - self.unsigned).to_dense().tolist(), [[0, 0], [0, 0]])
        dense = torch.zeros(2, 2, dtype=torch.int16)
        expected = [[0, -200], [-3, 0]]
        self.assertEqual(torch.sub(dense, self.unsigned).tolist(), expected)
        self.assertEqual(dense.clone().sub_(self.unsigned).tolist(), expected)
        self.assertEqual(torch.sub(dense, self.unsigned, alpha=2).tolist(), [[0, -400], [-6, 0]])

    def test_sums_with_truth_values(self):
        flags = sparse([True, True, True], torch.bool)
        self.assertEqual((self.unsigned + flags).dtype, torch.uint8)
        for a, b in ((self.unsigned, flags), (flags, self.unsigned), (flags, flags)):
            with self.assertRaisesRegex(NotImplementedError, "Subtraction, the `-` operator"):
                a - b

    def test_entries_are_added_up_in_the_dtype_of_the_product(self):
        wide = sparse([100, 100, 3], torch.int64)
        for a, b in ((self.signed, wide), (wide, self.signed)):
            self.assertEqual((a * b).to_dense().tolist(), [[0, 40000], [9, 0]])


class Turned(unittest.TestCase):
    def test_adjoints(self):
        dense = torch.tensor([[0, 1 + 2j, 0], [2 - 1j, 0, 3]])
        x = dense.to_sparse()
        for name in ("T", "mT", "H", "mH"):
            with self.subTest(name):
                found = getattr(x, name)
                self.assertTrue(found.is_sparse)
                self.assertEqual(found.to_dense().tolist(), getattr(dense, name).tolist())
        self.assertEqual(x.adjoint().to_dense().tolist(), dense.mH.tolist())
        many = torch.arange(8.0).reshape(2, 2, 2).to_sparse()
        self.assertEqual(many.mT.to_dense().tolist(), many.to_dense().mT.tolist())
        self.assertRaises(RuntimeError, lambda: many.H)
        self.assertRaises(RuntimeError, lambda: torch.ones(2).to_sparse().mT)

    def test_gradients(self):
        x = torch.tensor([[0, 1.0], [2, 0]]).to_sparse().requires_grad_()
        (x.mT.to_dense() * torch.tensor([[1.0, 2], [3, 4]])).sum().backward()
        self.assertEqual(x.grad.to_dense()[0, 1].item(), 3)

    def test_decompositions_of_low_rank(self):
        dense = torch.diag(torch.tensor([5.0, 4, 3, 2, 1]))
        dense[0, 3] = 1
        for a in (dense, dense[:3], dense[:, :3]):
            expected = torch.linalg.svdvals(a)
            q = min(a.shape)
            found = torch.svd_lowrank(a.to_sparse(), q=q)[1]
            self.assertTrue(torch.allclose(found, expected, atol=1e-4))
            centred = torch.linalg.svdvals(a - a.mean(0))
            found = torch.pca_lowrank(a.to_sparse(), q=q)[1]
            self.assertTrue(torch.allclose(found, centred, atol=1e-4))


if __name__ == "__main__":
    unittest.main()
