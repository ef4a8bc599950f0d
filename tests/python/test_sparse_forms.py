"""Other forms of sparse tensors: copies, sizes, ranges, joining, diagonals, tensors like them, and
gradients checked by finite differences."""

import unittest
import warnings

from module_under_test import torch

COO = torch.sparse_coo
CORTEN = torch.__name__ == "corten"
#: Diagonals that lie outside of the matrix, in part or all: PyTorch writes past its memory.
OFFSETS = ([0, -1, 2], [0, 1, -2], [4, 0, -4]) if CORTEN else ([0, -1, 1],)
#: Masks of a matrix of 2 by 3 that keep all, some and no element.
MASKS = (
    torch.tensor([[True, True, True], [True, True, True]]),
    torch.tensor([[True, False, True], [True, False, False]]),
    torch.tensor([[False, False, False], [False, False, False]]),
)


def setUpModule():
    warnings.simplefilter("ignore")


def matrix():
    return torch.sparse_coo_tensor([[0, 1, 1], [1, 0, 2]], [1.0, 2, 3], (2, 3)).coalesce()


def hybrid():
    return torch.sparse_coo_tensor([[0, 2]], torch.arange(6.0).view(2, 3), (4, 3)).coalesce()


class Factories(unittest.TestCase):
    def test_tensors_without_entries(self):
        for made in (torch.sparse_coo_tensor(size=(2, 3)), torch.sparse_coo_tensor((2, 3)),
                     torch.empty_like(matrix()), matrix().new_zeros((2, 3)), matrix().new(2, 3),
                     torch.zeros(2, 3, out=hybrid()), torch.empty(2, 3, out=matrix())):
            self.assertEqual((tuple(made.shape), made._nnz(), made.layout), ((2, 3), 0, COO))
        self.assertEqual(torch.empty_like(hybrid()).dense_dim(), 1)
        self.assertIs(torch.empty_like(matrix(), layout=torch.strided).layout, torch.strided)
        with self.assertRaisesRegex(RuntimeError, "only supported by strided tensors"):
            torch.zeros_like(matrix(), memory_format=torch.contiguous_format)
        with self.assertRaisesRegex(RuntimeError, "full.* is not implemented for sparse layout"):
            torch.full((2, 3), 1.0, out=matrix())

    def test_one_entry_is_coalesced(self):
        self.assertTrue(torch.sparse_coo_tensor([[1]], [3.0], (2,)).is_coalesced())
        self.assertFalse(torch.sparse_coo_tensor([[0, 1]], [3.0, 4], (2,)).is_coalesced())
        self.assertFalse(torch.sparse_coo_tensor([[1]], [3.0], (2,), is_coalesced=False).is_coalesced())

    def test_parts_are_objects_of_their_own(self):
        values = torch.tensor([1.0, 2])
        x = torch.sparse_coo_tensor([[0, 1]], values, (3,))
        values.resize_(4, 5)
        self.assertEqual(tuple(x._values().shape), (2,))

    def test_checks(self):
        make = torch.sparse_coo_tensor
        for args, text in (
            (([[0, 1]], 1.0), "same nnz"), (([[0, 1]], [1.0, 2], (2, 2)), "sparse_dim.*dense_dim"),
            (([[1, 2]], torch.ones(2, 3), (3, 2)), "values has incorrect size"),
        ):
            with self.assertRaisesRegex(RuntimeError, text):
                make(*args)
        for indices, text in (([[0, 2]], "for dim 0, size is 2 but found index 2"),
                              ([[0, -1]], "found negative index -1 for dim 0")):
            with self.assertRaisesRegex(RuntimeError, text):
                make(indices, [1.0, 2], (2,), check_invariants=True)
        with self.assertRaisesRegex(RuntimeError, "cannot set is_coalesced to true"):
            make([[1, 1]], [1.0, 2], (2,), is_coalesced=True, check_invariants=True)

    def test_old_constructors_warn(self):
        for args in ((), (2, 3), (torch.tensor([[0]]), torch.tensor([1.0]), torch.Size((2,)))):
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                torch.sparse.FloatTensor(*args)
            if CORTEN:  # PyTorch warns once
                self.assertIn("is deprecated", str(given[-1].message))


class Copies(unittest.TestCase):
    def test_copy_takes_over_entries_and_size(self):
        x = matrix()
        self.assertIs(x.copy_(torch.sparse_coo_tensor([[2], [0]], [9], (3, 3))), x)
        self.assertEqual((tuple(x.shape), x.dtype, x._nnz()), ((3, 3), torch.float32, 1))
        self.assertEqual(x.to_dense()[2, 0], 9)

    def test_layouts_are_not_mixed(self):
        for a, b in ((matrix(), torch.ones(2, 3)), (torch.ones(2, 3), matrix())):
            with self.assertRaisesRegex(RuntimeError, "between dense and sparse Tensors"):
                a.copy_(b)
        with self.assertRaisesRegex(RuntimeError, "changing the number of sparse dimensions"):
            matrix().copy_(torch.sparse_coo_tensor([[0]], [9.0], (3,)))

    def test_resize_as(self):
        x = matrix().resize_as_(torch.sparse_coo_tensor((4, 5)))
        self.assertEqual((tuple(x.shape), x._nnz()), ((4, 5), 3))

    def test_items_are_not_assigned(self):
        for x in (matrix(), matrix().to_sparse_csr()):
            with self.assertRaisesRegex(TypeError, "Cannot assign to a sparse tensor"):
                x[0] = 1


class Shapes(unittest.TestCase):
    def test_ranges(self):
        for x in (matrix(), hybrid()):
            for dim in (0, 1):
                found = x.narrow_copy(dim, 1, 1)
                torch.testing.assert_close(found.to_dense(), x.to_dense().narrow(dim, 1, 1))
        for dim in (-1, 2):
            with self.assertRaisesRegex(RuntimeError, "Dimension -?. out of range"):
                matrix().narrow_copy(dim, 0, 1)
        with self.assertRaisesRegex(RuntimeError, "Invalid range to narrow"):
            matrix().narrow_copy(0, 3, 1)

    def test_transposes(self):
        expected = matrix().to_dense().t()
        for turned in (matrix().t_(), matrix().transpose_(0, 1), matrix().permute(1, 0)):
            torch.testing.assert_close(turned.to_dense(), expected)
        with self.assertRaisesRegex(RuntimeError, "transposed dimensions must be sparse"):
            hybrid().transpose(0, 1)
        with self.assertRaisesRegex(RuntimeError, "duplicate dims"):
            matrix().permute(1, 1)
        with self.assertRaisesRegex(RuntimeError, "does not match the length"):
            matrix().permute(1, 0, 2)
        with self.assertRaisesRegex(RuntimeError, "between sparse and dense dimensions"):
            hybrid().permute(1, 0)

    def test_joining(self):
        for x in (matrix(), hybrid()):
            for dim in (0, 1):
                found = torch.cat([x, x, x], dim).to_dense()
                torch.testing.assert_close(found, torch.cat([x.to_dense()] * 3, dim))

    def test_joining_says_what_does_not_fit(self):
        for other, text in (
            (torch.sparse_coo_tensor((3, 3)), r"All tensors must have the same shape: \[2, 3\].*\[3, 3\]"),
            (torch.ones(2, 3), "a dense tensor was found at position 1"),
            (torch.sparse_coo_tensor([[0]], [[9.0, 1, 1]], (2, 3)), "same sparse_dim and dense_dim: 2, 0"),
        ):
            with self.assertRaisesRegex(RuntimeError, text):
                torch.cat([matrix(), other], 1)

    def test_views_are_refused(self):
        for call in (lambda x: x.expand(2, 2, 3), lambda x: x.reshape(3, 2), lambda x: x.flatten(),
                     lambda x: x.contiguous()):
            with self.assertRaises(RuntimeError):
                call(matrix())
        self.assertFalse(matrix().is_contiguous())

    def test_items(self):
        self.assertEqual(matrix()[1, 2], 3)
        self.assertEqual(tuple(matrix()[None].shape), (1, 2, 3))
        self.assertEqual([row.to_dense().tolist() for row in matrix()], [[0, 1, 0], [2, 0, 3]])
        self.assertEqual(torch.tensor(3.0).to_sparse().item(), 3)
        with self.assertRaises(IndexError):
            matrix().index_select(0, torch.tensor([5]))


class Diagonals(unittest.TestCase):
    def test_values(self):
        lines = torch.arange(9.0).view(3, 3) + 1
        for shape in ((3, 3), (5, 3), (3, 5)) if CORTEN else ((3, 3),):
            for offsets in OFFSETS:
                expected = torch.zeros(shape)
                for line, offset in zip(lines, offsets):
                    for column in range(min(shape[1], 3)):
                        if 0 <= column - offset < shape[0]:
                            expected[column - offset, column] = line[column]
                made = torch.sparse.spdiags(lines, torch.tensor(offsets), shape)
                self.assertIs(made.layout, COO)
                torch.testing.assert_close(made.to_dense(), expected)

    def test_layouts(self):
        for layout in (torch.sparse_csr, torch.sparse_csc):
            made = torch.sparse.spdiags(torch.ones(3), torch.tensor(1), (3, 3), layout)
            self.assertIs(made.layout, layout)
            torch.testing.assert_close(made.to_dense(), torch.ones(2).diag(1))

    def test_errors(self):
        ones, offsets = torch.ones(2, 2), torch.tensor([0, 1])
        for args, text in (
            ((torch.ones(2, 2, 2), offsets, (3, 3)), "Diagonals must be vector or matrix"),
            ((ones, offsets[None], (3, 3)), "Offsets must be scalar or vector"),
            ((ones, offsets, (3,)), "Output shape must be 2d"),
            ((torch.ones(3, 2), offsets, (3, 3)), r"diagonals \(3\) does not match.*offsets \(2\)"),
            ((ones, torch.tensor([0, 0]), (3, 3)), "duplicate values"),
            ((ones, offsets, (3, 3), torch.strided), "Only output layouts"),
            ((ones, torch.tensor([0.0, 1]), (3, 3)), "dtype Long but got Float"),
        ):
            with self.assertRaisesRegex(RuntimeError, text):
                torch.sparse.spdiags(*args)


class MaskedReductions(unittest.TestCase):
    def test_values_where_the_mask_keeps_something(self):
        dense = torch.tensor([[0.0, 2, 3], [-4, 0, 0.5]])
        for name in ("sum", "prod", "amax", "amin"):
            for mask in MASKS:
                for dim in (0, 1, (0, 1), None):
                    for keepdim in (True, False):
                        with self.subTest(name, dim=dim, keepdim=keepdim, kept=int(mask.sum())):
                            options = {"dim": dim, "keepdim": keepdim, "mask": mask}
                            reduce = getattr(torch.masked, name)
                            found = reduce(dense.to_sparse(), **options)
                            self.assertIs(found.layout, COO)
                            dims = (0, 1) if dim is None else dim
                            there = mask.any(dims, keepdim=keepdim)
                            expected = reduce(dense, **options)
                            torch.testing.assert_close(found.to_dense()[there], expected[there])

    def test_compressed_tensors(self):
        dense = torch.tensor([[0.0, 2, 3], [-4, 0, 0.5]])
        for name in ("sum", "prod", "amax", "amin", "mean"):
            for dim in (0, 1):
                mask = MASKS[1]
                options = {"dim": dim, "keepdim": True, "mask": mask}
                found = getattr(torch.masked, name)(dense.to_sparse_csr(), **options)
                self.assertIs(found.layout, torch.sparse_csr)
                there = mask.any(dim, keepdim=True)
                expected = getattr(torch.masked, name)(dense, **options)
                torch.testing.assert_close(found.to_dense()[there], expected[there])
        with self.assertRaises(ValueError):
            torch.masked.prod(dense.to_sparse(), dim=0)

    def test_sums_without_a_mask(self):
        dense = torch.tensor([[0, 2, 3], [-4, 0, 5]], dtype=torch.int32)
        found = torch.masked.sum(dense.to_sparse(), dim=0)
        self.assertEqual((found.dtype, found.to_dense().tolist()), (torch.int64, [-4, 2, 8]))


class Compressed(unittest.TestCase):
    LAYOUTS = ((torch.sparse_csr, {}), (torch.sparse_csc, {}), (torch.sparse_bsr, {"blocksize": (1, 1)}),
               (torch.sparse_bsc, {"blocksize": (1, 1)}))

    def made(self, dense=None):
        dense = torch.tensor([[1.0, 0, 0], [0, 0, 2]]) if dense is None else dense
        return [dense.to_sparse(layout=layout, **options) for layout, options in self.LAYOUTS]

    def test_methods_reached_through_the_class(self):
        for x in self.made():
            rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
            ends = torch.Tensor.crow_indices if rows else torch.Tensor.ccol_indices
            self.assertEqual(ends(x).numel(), x.shape[0 if rows else 1] + 1)
            self.assertEqual(torch.Tensor.values(x).sum(), 3)
            self.assertIs(torch.Tensor.to_sparse(x).layout, COO)
        self.assertEqual(torch.Tensor.indices(matrix()).shape, (2, 3))
        self.assertIs(torch.Tensor.coalesce(matrix()).layout, COO)

    def test_copies(self):
        for x, turned, fuller in zip(self.made(), self.made(torch.tensor([[1.0, 0], [0, 0], [0, 2]])),
                                     self.made(torch.ones(2, 3))):
            with self.assertRaisesRegex(RuntimeError, "shapes of self and src to match along dimension"):
                x.copy_(turned)
            with self.assertRaisesRegex(RuntimeError, "same number of specified elements"):
                x.copy_(fuller)
            other = x * 3
            self.assertIs(x.copy_(other), x)
            torch.testing.assert_close(x.to_dense(), other.to_dense())
        dense = torch.zeros(4, 4)
        dense[0, 0] = dense[3, 3] = 1
        with self.assertRaisesRegex(RuntimeError, "different block sizes is not supported"):
            dense.to_sparse_bsr((1, 1)).copy_(dense.to_sparse_bsr((2, 2)))

    def test_tensors_like_them(self):
        for x in self.made():
            self.assertIs(torch.empty_like(x).layout, x.layout)
            for layout in (torch.strided, COO, torch.sparse_csr, torch.sparse_csc):
                if layout != x.layout:
                    with self.assertRaisesRegex(RuntimeError, "different sparse layout is not supported"):
                        torch.empty_like(x, layout=layout)
        torch.manual_seed(0)
        x = self.made()[0]
        self.assertTrue((torch.randn_like(x).to_dense()[x.to_dense() == 0] == 0).all())

    def test_sizes(self):
        csr, csc = self.made()[:2]
        self.assertEqual(csr.resize_(3, 4).crow_indices().tolist(), [0, 1, 2, 2])
        self.assertEqual(tuple(csr.shape), (3, 4))
        if CORTEN:  # PyTorch counts the new columns as rows
            self.assertEqual(csc.resize_(2, 5).ccol_indices().tolist(), [0, 1, 1, 2, 2, 2])
        with self.assertRaisesRegex(RuntimeError, "Resizing columns .* to a smaller value"):
            self.made()[0].resize_(2, 2)
        for x, larger in zip(self.made(), self.made(torch.eye(4))):
            self.assertEqual(tuple(x.resize_as_sparse_(larger).shape), (4, 4))

    def test_sums_and_products_say_what_does_not_fit(self):
        with self.assertRaisesRegex(RuntimeError, "Expected input tensors to have the same shape"):
            torch.eye(3).to_sparse_csr() + torch.eye(2).to_sparse_csr()
        double = torch.ones(3, 2, dtype=torch.float64)
        with self.assertRaisesRegex(RuntimeError, "expected scalar type Float but found Double"):
            torch.mm(matrix(), double)
        with self.assertRaisesRegex(RuntimeError, "mat1 dtype Float does not match mat2 dtype Double"):
            torch.mm(matrix(), double.to_sparse())


class Gradients(unittest.TestCase):
    def test_gradcheck_of_sparse_tensors(self):
        x = torch.tensor([[0.0, 2, 3], [4, 0, 0]], dtype=torch.float64)
        check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
        for layout in (COO, torch.sparse_csr, torch.sparse_csc):
            for masked in (True, False):
                leaf = x.to_sparse(layout=layout).requires_grad_()
                self.assertTrue(check(lambda a: a * 2, (leaf,), masked=masked))
        with self.assertRaises(RuntimeError):
            check(lambda a: (a * a.detach()), (x.to_sparse().requires_grad_(),), masked=True)

    def test_gradcheck_stays_a_function(self):
        import importlib

        importlib.import_module(torch.__name__ + ".autograd.gradcheck")
        self.assertTrue(callable(torch.autograd.gradcheck))
        empty = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda a: a.sum(0), (empty,)))

    def test_gradients_of_tables_do_not_share_the_indices(self):
        table = torch.nn.Embedding(10, 2, sparse=True)
        places = torch.tensor([7, 1, 3])
        table(places).sum().backward()
        places[0] = 8
        self.assertEqual(table.weight.grad._indices().tolist(), [[7, 1, 3]])
        for shape in ((0, 0), (10, 0)):
            table = torch.nn.Embedding(*shape, sparse=True)
            table(torch.zeros(0, dtype=torch.int64)).sum().backward()
            self.assertEqual(tuple(table.weight.grad.shape), shape)


if __name__ == "__main__":
    unittest.main()
