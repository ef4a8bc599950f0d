"""Rules of operators on sparse tensors: dtypes, sizes, order of entries, and words of errors."""

import unittest

from module_under_test import torch

DENSE = torch.tensor([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0]])


class Coordinates(unittest.TestCase):
    def test_norms_are_of_all_elements(self):
        x = DENSE.to_sparse()
        for norm in (x.norm, lambda *a, **k: torch.norm(x, *a, **k)):
            for p, expected in ((1, 10.0), (0, 4.0), (float("inf"), 4.0)):
                self.assertEqual(norm(p), expected)
            self.assertAlmostEqual(float(norm("fro", dim=(0, 1))), 30 ** 0.5, 5)
            for options, kind, words in (
                ({"keepdim": True}, RuntimeError, "does not support keepdim=True"),
                ({"dim": 0}, RuntimeError, "only supports full reductions"),
                ({"dtype": torch.double}, ValueError, "dtype argument is not supported"),
                ({"dtype": torch.double, "p": 0}, RuntimeError, "does not support 'dtype' argument"),
            ):
                with self.assertRaisesRegex(kind, words):
                    norm(**options)

    def test_permuted_entries_are_coalesced_only_in_order(self):
        x = torch.rand(2, 3, 4, 5).to_sparse(3)
        for dims in ((0, 2, 1, 3), (0, 1, 2, 3), (2, 0, 1, 3), (-4, -3, -2, -1)):
            made = x.permute(dims)
            self.assertEqual(made.is_coalesced(), dims[0] == 0, dims)
            self.assertTrue(torch.equal(made.to_dense(), x.to_dense().permute(dims)))

    def test_products_with_numbers(self):
        number = torch.tensor(2).to_sparse()
        for x in (torch.ones(3, dtype=torch.int16), torch.tensor(1, dtype=torch.int16)):
            expected = (x * torch.tensor(2)).dtype
            for made in (x.to_sparse() * number, number * x.to_sparse()):
                self.assertEqual(made.dtype, expected)
        empty = torch.zeros(3, dtype=torch.bool).to_sparse()
        self.assertEqual((torch.ones(3, dtype=torch.bool).to_sparse() * empty).dtype, torch.bool)
        for made in (number * torch.ones(2, 3), torch.ones(2, 3) * number):
            self.assertEqual((made.is_sparse, made.to_dense().tolist()), (True, [[2.0] * 3] * 2))

    def test_sums_with_nothing_keep_the_entries(self):
        x = torch.sparse_coo_tensor(torch.zeros(1, 5, dtype=torch.int64), torch.arange(5.0), (1,))
        nothing = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0), (1,))
        for made in (x + nothing, nothing + x):
            self.assertEqual((made._nnz(), made.to_dense().item()), (5, 10.0))

    def test_masks(self):
        coalesced, apart = DENSE.to_sparse(), DENSE.to_sparse()._coalesced_(False)
        self.assertFalse(coalesced.sparse_mask(apart).is_coalesced())
        self.assertTrue(apart.sparse_mask(coalesced).is_coalesced())

    def test_words(self):
        x = DENSE.to_sparse()
        number = torch.tensor(1.0).to_sparse()
        for function, words in (
            (lambda: x.mv(torch.ones(4)), r"mv: expected self.size\(-1\) == vec.size\(-1\)"),
            (lambda: x.mv(torch.ones(3, 1)), "mv: two tensor dim should be 2 and 1"),
            (lambda: number // number, "Sparse floor division requires"),
            (lambda: torch.empty(0).to_sparse().is_nonzero(), "Boolean value of Tensor with no values"),
            (lambda: x.is_nonzero(), "Boolean value of Tensor with more than one value"),
            (lambda: x.to_sparse_csr().is_nonzero(), "Boolean value of Tensor with more than one value"),
            (lambda: torch._sparse_broadcast_to(x, (2, 1)), "does not broadcast over"),
            (lambda: torch._sparse_broadcast_to(x, (3,)), "fewer dimensions than the input"),
            (lambda: x.new(device="cuda"), "legacy constructor expects device type: cpu"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                function()

    def test_products_with_sparse_vectors(self):
        vector = torch.tensor([1.0, 0.0, 2.0])
        self.assertEqual(torch.mv(DENSE, vector.to_sparse()).tolist(), [1.0, 8.0])

    def test_resized_values_stay_where_they_are_in_memory(self):
        x = torch.sparse_coo_tensor([[0]], torch.arange(6.0).reshape(1, 2, 3), (2, 2, 3))
        x.sparse_resize_((2, 2, 4), 1, 2)
        self.assertEqual(x._values().reshape(-1)[:6].tolist(), [0, 1, 2, 3, 4, 5])


class Compressed(unittest.TestCase):
    def test_the_factor_of_a_sum_is_that_of_the_sparse_operand(self):
        x, y = DENSE.to_sparse_csr(), torch.ones(2, 3)
        for made in (torch.add(x, y, alpha=3), torch.add(y, x, alpha=3)):
            self.assertEqual(made.tolist(), (y + 3 * DENSE).tolist())

    def test_sums_of_rows_have_dense_gradients(self):
        for dim in (0, 1, (0, 1)):
            x = DENSE.to_sparse_csr().requires_grad_()
            x.sum(dim, keepdim=True).sum().backward()
            self.assertEqual(x.grad.to_dense().tolist(), [[1.0] * 3] * 2)

    def test_sums_of_half_precision(self):
        """Many small numbers add up, which they would not in half precision."""
        count = 5000
        for dtype in (torch.float16, torch.bfloat16):
            ones = torch.ones(1, count, dtype=dtype)
            self.assertEqual(ones.to_sparse_csr().sum((0, 1), keepdim=True).to_dense().item(),
                             torch.tensor(float(count)).to(dtype).item())
            for x in (ones.to_sparse(), ones.to_sparse_csr()) if torch.__name__ == "corten" else ():
                self.assertEqual((x @ ones.t()).item(), torch.tensor(float(count)).to(dtype).item())

    def test_gradients_of_products_reach_beyond_the_entries_of_a_factor(self):
        x = DENSE.to_sparse_csr().requires_grad_()
        y = torch.tensor([[1.0, 0, 5], [0, 3, 4]]).to_sparse_csr().requires_grad_()
        weights = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
        (x * y).backward(weights.to_sparse_csr())
        self.assertEqual(x.grad.layout, torch.sparse_csr)
        self.assertEqual(x.grad.to_dense().tolist(), (weights * y.detach().to_dense()).tolist())
        self.assertEqual(y.grad.to_dense().tolist(), (weights * DENSE).tolist())

    def test_products_sampled_for_a_batch(self):
        pattern = DENSE.to_sparse_csr()
        a, b = torch.rand(2, 3, 2, 4), torch.rand(2, 3, 4, 3)
        made = torch.sparse.sampled_addmm(pattern, a, b, alpha=2, beta=3)
        self.assertEqual(made.shape, (2, 3, 2, 3))
        expected = 2 * (a @ b) * (DENSE != 0) + 3 * DENSE
        self.assertTrue(torch.allclose(made.to_dense(), expected))

    def test_sums_with_products_take_the_layout_of_the_first_operand(self):
        a, b, start = DENSE, DENSE.t().contiguous(), torch.ones(2, 2)
        expected = (2 * start + 3 * a @ b).tolist()
        for layout in (torch.sparse_csr, torch.sparse_csc):
            x, y = (t.to_sparse(layout=layout) for t in (a, b))
            self.assertEqual(torch.addmm(start, x, y, beta=2, alpha=3).tolist(), expected)
            made = torch.addmm(start.to_sparse(layout=layout), x, y, beta=2, alpha=3)
            self.assertEqual((made.layout, made.to_dense().tolist()), (layout, expected))
            self.assertEqual(torch.mm(x, y, out=torch.empty(2, 2)).tolist(), (a @ b).tolist())
        x = a.to_sparse_csr()
        for function, words in (
            (lambda: torch.mm(x, torch.ones(2, 3, 2)), "mat2 must be a matrix, got 3-D tensor"),
            (lambda: torch.addmm(start, torch.ones(2), x), "self must be a matrix, got 1-D tensor"),
            (lambda: torch.addmm(start.to_sparse_csr(), a, b), r"SparseCsr \+ Strided @ Strided"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                function()

    def test_triangular_solutions(self):
        matrix, b = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([[1.0], [8.0]])
        for x in (matrix.to_sparse_csr(), matrix.to_sparse_bsr((1, 1))):
            for options, expected in (
                ({}, [[-3.0], [2.0]]), ({"upper": False}, [[1.0], [2.0]]),
                ({"transpose": True}, [[1.0], [1.5]]), ({"unitriangular": True}, [[-15.0], [8.0]]),
            ):
                if options.get("unitriangular") and x.layout == torch.sparse_bsr:
                    continue
                found = torch.triangular_solve(b, x, **options)
                self.assertEqual(found.solution.tolist(), expected)
                self.assertEqual(found.cloned_coefficient.numel(), 0)
        out = torch.empty(2, 1)
        torch.triangular_solve(b, matrix.to_sparse_csr(), out=(out, torch.empty(0)))
        self.assertEqual(out.tolist(), [[-3.0], [2.0]])
        nothing = torch.zeros(2, 2).to_sparse_csr()
        self.assertTrue(torch.triangular_solve(b, nothing).solution.isnan().all())
        with self.assertRaisesRegex(ValueError, "unsupported sparse layout"):
            torch.triangular_solve(b, matrix.to_sparse_csc())

    def test_dense_operands_of_sparse_functions(self):
        a, b = torch.ones(2, 3), torch.ones(3, 2)
        self.assertEqual(torch.sparse.addmm(torch.ones(2), a, b).tolist(), [[4.0, 4.0]] * 2)
        with self.assertRaisesRegex(RuntimeError, "coalesce expected sparse coordinate"):
            torch.sparse.sum(a)


if __name__ == "__main__":
    unittest.main()
