"""Matrices of 2:4 sparsity."""

import unittest
import warnings

import corten as torch
from corten.sparse import (
    SparseSemiStructuredTensor, SparseSemiStructuredTensorCUSPARSELT, SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

KINDS = (
    (SparseSemiStructuredTensorCUTLASS, torch.float16), (SparseSemiStructuredTensorCUTLASS, torch.bfloat16),
    (SparseSemiStructuredTensorCUTLASS, torch.float32), (SparseSemiStructuredTensorCUTLASS, torch.int8),
    (SparseSemiStructuredTensorCUSPARSELT, torch.float16), (SparseSemiStructuredTensorCUSPARSELT, torch.int8),
)


def matrix(dtype, rows=32, columns=128):
    """Whole numbers with the sparsity that a dtype needs."""
    group = 2 if dtype == torch.float32 else 4
    numbers = torch.arange(rows * columns).view(rows, -1, group)
    kept = torch.arange(group) % 2 == (numbers[..., :1] // group) % 2
    return (numbers % 7 - 3).masked_fill(~kept, 0).view(rows, columns).to(dtype)


def other(sizes, dtype):
    count = 1
    for size in sizes:
        count *= size
    return (torch.arange(count) % 5 - 2).view(sizes).to(dtype)


class SemiStructured(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")

    def test_what_is_kept(self):
        for kind, dtype in KINDS:
            dense = matrix(dtype)
            sparse = kind.from_dense(dense)
            self.assertEqual((sparse.shape, sparse.dtype), (dense.shape, dtype))
            self.assertEqual(sparse.to_dense().tolist(), dense.tolist())
            self.assertEqual(sparse.values().shape, (32, 64))
            self.assertEqual(sparse.values().to(torch.float32).sum(), dense.to(torch.float32).sum())
            self.assertEqual(repr(sparse), f"{kind.__name__}(shape={sparse.shape})")
            self.assertEqual(sparse.clone().to_dense().tolist(), dense.tolist())
            self.assertEqual(sparse.detach().to("cpu").tolist(), dense.tolist())

    def test_words_are_those_of_cutlass(self):
        dense = torch.tensor([0, 0, 1, 1]).tile((128, 32)).to(torch.float16)
        sparse = SparseSemiStructuredTensorCUTLASS.from_dense(dense)
        self.assertEqual(set(sparse.indices().flatten().tolist()), {-4370})
        self.assertEqual(set(sparse.values().flatten().tolist()), {1.0})

    def test_products(self):
        for kind, dtype in KINDS:
            dense, right = matrix(dtype), other((128, 5), dtype)
            sparse = kind.from_dense(dense)
            expected = dense.double() @ right.double()
            if dtype == torch.int8:
                expected = expected.clamp(-128, 127)
            found = torch.mm(sparse, right)
            self.assertEqual(found.dtype, dtype)
            torch.testing.assert_close(found.double(), expected, rtol=1e-2, atol=1e-2)
            torch.testing.assert_close((sparse @ right).double(), expected, rtol=1e-2, atol=1e-2)
            if dtype == torch.int8:
                continue
            rows, bias = other((2, 3, 128), dtype), other((32,), dtype)
            for given in (None, bias):
                found = torch.nn.functional.linear(rows, sparse, given)
                expected = torch.nn.functional.linear(rows.double(), dense.double(),
                                                      None if given is None else given.double())
                torch.testing.assert_close(found.double(), expected, rtol=1e-2, atol=1e-2)
            found = torch.addmm(bias, rows[0], sparse.t())
            torch.testing.assert_close(found.double(), expected[0], rtol=1e-2, atol=1e-2)

    def test_weights_of_modules(self):
        layer = torch.nn.Linear(128, 32).half()
        layer.weight = torch.nn.Parameter(matrix(torch.float16))
        rows = other((3, 128), torch.float16).requires_grad_()
        expected = layer(rows)
        expected.sum().backward()
        grad, rows.grad = rows.grad, None
        layer.weight = torch.nn.Parameter(to_sparse_semi_structured(layer.weight))
        found = layer(rows)
        found.sum().backward()
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(rows.grad, grad, rtol=1e-2, atol=1e-2)

    def test_pruned(self):
        numbers = ((torch.arange(64 * 64) * 37) % 101).view(64, 64).half()
        for kind in (SparseSemiStructuredTensorCUTLASS, SparseSemiStructuredTensorCUSPARSELT):
            sparse = kind.prune_dense_static_sort(numbers)
            dense = sparse.to_dense()
            self.assertLessEqual(int((dense.view(-1, 4) != 0).sum(1).max()), 2)
            self.assertLessEqual(int((dense.t().reshape(-1, 4) != 0).sum(1).max()), 2)
            self.assertEqual(sparse.t().to_dense().tolist(), dense.t().tolist())
            self.assertEqual(tuple(sparse.compressed_swizzled_bitmask.shape), (8, 8, 4, 2))

    def test_refused(self):
        make = SparseSemiStructuredTensorCUTLASS.from_dense
        for wrong, message in (
            (torch.zeros(32), "original_tensor.dim"), (torch.zeros(32, 64).t(), "not contiguous"),
            (torch.zeros(32, 64, dtype=torch.float64), "not a supported dtype"),
            (torch.zeros(30, 64), "multiple of"), (torch.ones(32, 64), "sparsity"),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                make(wrong)
        sparse = make(matrix(torch.float16))
        with self.assertRaises(NotImplementedError):
            torch.sin(sparse)
        with self.assertRaises(ValueError):
            torch.mm(sparse, sparse)
        self.assertIsInstance(sparse, SparseSemiStructuredTensor)


if __name__ == "__main__":
    unittest.main()
