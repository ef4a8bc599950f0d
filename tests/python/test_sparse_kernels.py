"""Kernels of programs for sparse tensors, and what the package's sparse tensors are to the dispatcher."""

import unittest

from module_under_test import torch


def coordinates():
    return torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).coalesce()


class Kernels(unittest.TestCase):
    def test_of_an_operator_of_the_program(self):
        library = torch.library.Library("sparse_kernels", "DEF")
        library.define("entries(Tensor x) -> int")
        library.impl("entries", lambda x: x._nnz(), "SparseCPU")
        library.impl("entries", lambda x: -x._nnz(), "SparseCsrCPU")
        library.impl("entries", lambda x: x.numel(), "CPU")
        entries = torch.ops.sparse_kernels.entries
        self.assertEqual(entries(coordinates()), 3)
        self.assertEqual(entries(coordinates().to_sparse_csr()), -3)
        self.assertEqual(entries(torch.ones(2, 3)), 6)

    def test_of_an_operator_of_the_library(self):
        library = torch.library.Library("aten", "IMPL")
        called = []

        def cosine(x):
            called.append(x.layout)
            return x.to_dense().cos()

        with self.assertRaises(NotImplementedError):
            torch.cos(coordinates())
        library.impl("cos", cosine, "SparseCPU")
        try:
            self.assertEqual(torch.cos(coordinates()).tolist()[0][:2], [1.0, 1.0])
            self.assertEqual(called, [torch.sparse_coo])
        finally:
            library._destroy()
        with self.assertRaises(NotImplementedError):
            torch.cos(coordinates())

    def test_results_are_sparse_tensors(self):
        library = torch.library.Library("sparse_results", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: torch.sparse_coo_tensor(x.indices(), 2 * x.values(), x.shape), "SparseCPU")
        made = torch.ops.sparse_results.twice(coordinates())
        self.assertEqual((made.layout, made.to_dense().tolist()), (torch.sparse_coo, [[0, 0, 6], [8, 0, 10]]))

    def test_gradients_made_by_the_library(self):
        weight = torch.ones(4, 2, requires_grad=True)
        for _ in range(2):
            torch.nn.functional.embedding(torch.tensor([1, 3]), weight, sparse=True).sum().backward()
        grad = weight.grad
        self.assertEqual((grad.layout, grad.coalesce().values().tolist()), (torch.sparse_coo, [[2, 2], [2, 2]]))
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        index = torch.tensor([[0, 2], [1, 1]])
        torch.gather(x, 1, index, sparse_grad=True).sum().backward()
        self.assertEqual((x.grad.layout, x.grad._nnz()), (torch.sparse_coo, 4))
        self.assertEqual(x.grad.to_dense().tolist(), [[1, 0, 1], [0, 2, 0]])


if __name__ == "__main__":
    unittest.main()
