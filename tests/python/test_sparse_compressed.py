"""Sparse tensors of compressed rows and columns, of numbers and of blocks."""

import copy
import io
import pathlib
import pickle
import unittest

from module_under_test import torch

T = torch.tensor
SAVED = pathlib.Path(__file__).parent.parent / "goldens" / "compressed_saved_by_torch.pt"
DENSE = [[0.0, 2, 0, 1], [1, 0, 3, 0], [0, 0, 0, 0], [0, 4, 0, 5]]


def parts(x):
    """The three parts as lists."""
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        return x.crow_indices().tolist(), x.col_indices().tolist(), x.values().tolist()
    return x.ccol_indices().tolist(), x.row_indices().tolist(), x.values().tolist()


class Cases(unittest.TestCase):
    def setUp(self):
        self.dense = T(DENSE)
        self.csr, self.csc = self.dense.to_sparse_csr(), self.dense.to_sparse_csc()
        self.bsr, self.bsc = self.dense.to_sparse_bsr((2, 2)), self.dense.to_sparse_bsc((2, 2))
        self.all = self.csr, self.csc, self.bsr, self.bsc
        self.right = torch.arange(12.0).view(4, 3)


class Layouts(Cases):
    def test_parts(self):
        self.assertEqual(parts(self.csr), ([0, 2, 4, 4, 6], [1, 3, 0, 2, 1, 3], [2, 1, 1, 3, 4, 5]))
        self.assertEqual(parts(self.csc), ([0, 1, 3, 4, 6], [1, 0, 3, 1, 0, 3], [1, 2, 4, 3, 1, 5]))
        blocks = [[[0, 2], [1, 0]], [[0, 1], [3, 0]], [[0, 0], [0, 4]], [[0, 0], [0, 5]]]
        self.assertEqual(parts(self.bsr), ([0, 2, 4], [0, 1, 0, 1], blocks))
        blocks[1:3] = blocks[2:0:-1]
        self.assertEqual(parts(self.bsc), ([0, 2, 4], [0, 1, 0, 1], blocks))
        for x in self.all:
            self.assertEqual(x.to_dense().tolist(), DENSE)
            self.assertEqual((tuple(x.shape), x.sparse_dim(), x.dense_dim()), ((4, 4), 2, 0))
            self.assertEqual((x.is_sparse, x.is_sparse_csr), (False, x.layout == torch.sparse_csr))
            self.assertEqual(x._nnz(), 6 if x.layout in (torch.sparse_csr, torch.sparse_csc) else 4)

    def test_conversions(self):
        for x in (self.csr, self.csc, self.dense.to_sparse()):
            for name in ("csr", "csc", "bsr", "bsc"):
                arguments = ((2, 2),) if name.startswith("b") else ()
                made = getattr(x, f"to_sparse_{name}")(*arguments)
                self.assertEqual(parts(made), parts(getattr(self, name)))
                layout = getattr(torch, f"sparse_{name}")
                again = x.to_sparse(layout=layout, blocksize=arguments[0] if arguments else None)
                self.assertEqual((again.layout, parts(again)), (layout, parts(made)))
        self.assertEqual(parts(self.bsr.to_sparse_bsc((2, 2))), parts(self.bsc))
        for x in self.all:
            self.assertEqual(x.to_sparse().coalesce().to_dense().tolist(), DENSE)
        self.assertTrue(self.csr.to_sparse().is_coalesced())
        for wrong in (lambda: self.bsr.to_sparse_csr(), lambda: self.bsr.to_sparse_bsr((1, 2)),
                      lambda: self.dense.to_sparse_bsr((3, 2)), lambda: self.dense.to_sparse_bsr((0, 2)),
                      lambda: self.dense.to_sparse_csr(dense_dim=1), lambda: self.csr.to_sparse(1),
                      lambda: self.dense.to_sparse(layout=torch.sparse_bsr),
                      lambda: T([[[1.0, 0]], [[1, 1]]]).to_sparse_csr(),
                      lambda: torch.zeros(0, 2, 2).to_sparse_csr()):
            with self.assertRaises(RuntimeError):
                wrong()

    def test_batches_and_dense_dimensions(self):
        batch = T([[[1.0, 0], [0, 1]], [[0, 2], [3, 0]]])
        x = batch.to_sparse_csr()
        self.assertEqual(parts(x), ([[0, 1, 2]] * 2, [[0, 1], [1, 0]], [[1, 1], [2, 3]]))
        self.assertEqual(batch.to_sparse_csc().values().tolist(), [[1, 1], [3, 2]])
        self.assertEqual(x.to_dense().tolist(), batch.tolist())
        self.assertEqual(x[1].to_dense().tolist(), [[0, 2], [3, 0]])
        self.assertEqual(x.transpose(1, 2).layout, torch.sparse_csc)
        hybrid = torch.ones(2, 2, 3).to_sparse_csr(dense_dim=1)
        self.assertEqual((tuple(hybrid.values().shape), hybrid.dense_dim()), ((4, 3), 1))
        self.assertEqual(hybrid.to_dense().tolist(), torch.ones(2, 2, 3).tolist())
        for shape in ((0, 3), (3, 0), (0, 0), (2, 0, 3)):
            for name in ("csr", "csc"):
                empty = getattr(torch.zeros(shape), f"to_sparse_{name}")()
                self.assertEqual(tuple(empty.to_dense().shape), shape)

    def test_dtypes(self):
        for dtype in (torch.float64, torch.int32, torch.bool, torch.complex64, torch.float16):
            for x in self.all:
                self.assertEqual(x.to(dtype).to_dense().tolist(), self.dense.to(dtype).tolist())
        x = torch.sparse_csr_tensor(T([0, 1, 2], dtype=torch.int32), T([1, 0], dtype=torch.int32), T([1, 2]))
        self.assertEqual((x.crow_indices().dtype, x.to_sparse_csc().row_indices().dtype), (torch.int32,) * 2)
        self.assertIs(self.csr.float(), self.csr)
        self.assertEqual(self.csr.double().values().dtype, torch.float64)

    def test_printing(self):
        self.assertEqual(repr(self.csr), "tensor(crow_indices=tensor([0, 2, 4, 4, 6]),\n"
                         "       col_indices=tensor([1, 3, 0, 2, 1, 3]),\n"
                         "       values=tensor([2., 1., 1., 3., 4., 5.]), size=(4, 4), nnz=6,\n"
                         "       layout=torch.sparse_csr)")
        self.assertEqual(repr(self.dense.to_sparse_bsc((4, 2)).double().requires_grad_()),
                         "tensor(ccol_indices=tensor([0, 1, 2]),\n"
                         "       row_indices=tensor([0, 0]),\n"
                         "       values=tensor([[[0., 2.],\n"
                         "                       [1., 0.],\n"
                         "                       [0., 0.],\n"
                         "                       [0., 4.]],\n\n"
                         "                      [[0., 1.],\n"
                         "                       [3., 0.],\n"
                         "                       [0., 0.],\n"
                         "                       [0., 5.]]]), size=(4, 4), nnz=2, dtype=torch.float64,\n"
                         "       layout=torch.sparse_bsc, requires_grad=True)")
        self.assertIn("values=tensor([], size=(0,)), size=(2, 2), nnz=0,\n", repr(torch.zeros(2, 2).to_sparse_csr()))


class Making(unittest.TestCase):
    def test_functions(self):
        ends, places = [0, 1, 2], [0, 1]
        x = torch.sparse_csr_tensor(ends, places, [1, 2], (2, 3), dtype=torch.float64)
        self.assertEqual(x.to_dense().tolist(), [[1, 0, 0], [0, 2, 0]])
        x = torch.sparse_csc_tensor(T(ends), T(places), T([1.0, 2]), (3, 2))
        self.assertEqual(x.to_dense().tolist(), [[1, 0], [0, 2], [0, 0]])
        x = torch.sparse_bsr_tensor(ends, places, torch.ones(2, 2, 3))
        self.assertEqual((tuple(x.shape), x.layout), ((4, 6), torch.sparse_bsr))
        self.assertEqual(tuple(torch.sparse_bsc_tensor(ends, places, torch.ones(2, 2, 3)).shape), (4, 6))
        x = torch.sparse_compressed_tensor(ends, places, T([1.0, 2]), layout=torch.sparse_csc)
        self.assertEqual(x.layout, torch.sparse_csc)
        with self.assertRaisesRegex(RuntimeError, "expected sparse compressed tensor layout but got none"):
            torch.sparse_compressed_tensor(ends, places, T([1.0, 2]), (2, 2))
        with self.assertRaisesRegex(RuntimeError, "layout must be SparseCsr but got SparseCsc"):
            torch.sparse_csr_tensor(T(ends), T(places), T([1.0, 2]), layout=torch.sparse_csc)
        with self.assertRaises(TypeError):
            torch.sparse_csr_tensor(T(ends), T(places))

    def test_without_entries(self):
        for make in (torch.zeros, torch.empty):
            x = make(2, 3, layout=torch.sparse_coo, dtype=torch.float64)
            self.assertEqual((x.layout, x._nnz(), tuple(x.shape)), (torch.sparse_coo, 0, (2, 3)))
            self.assertEqual((x + x).to_dense().tolist(), [[0, 0, 0]] * 2)
            for layout in (torch.sparse_csr, torch.sparse_csc):
                x = make((2, 2, 3), layout=layout, dtype=torch.float64)
                self.assertEqual((x.layout, x._nnz(), tuple(x.shape), x.dtype), (layout, 0, (2, 2, 3), torch.float64))
            for size, layout in (((2,), torch.sparse_csr), ((2, 2), torch.sparse_bsr), ((2, -1), torch.sparse_coo)):
                with self.assertRaises(RuntimeError):
                    make(size, layout=layout)
        self.assertEqual(torch.zeros(2, 3, layout=torch.sparse_csr).to_dense().tolist(), [[0, 0, 0]] * 2)

    def test_invariants(self):
        def refused(pattern, ends, places, values, size, make=torch.sparse_csr_tensor):
            with self.assertRaisesRegex(RuntimeError, pattern):
                make(T(ends), T(places), T(values), size, check_invariants=True)

        two = [1.0, 2.0]
        refused("`0 <= col_indices < ncols` is not satisfied", [0, 1, 2], [0, 1], two, (2, 1))
        refused("`0 <= col_indices < ncols` is not satisfied", [0, 1, 2], [0, -1], two, (2, 2))
        refused(r"`crow_indices\[..., -1\] == nnz` is not satisfied", [0, 1, 3], [0, 1], two, (2, 2))
        refused(r"`crow_indices\[..., 0\] == 0` is not satisfied", [1, 1, 2], [0, 1], two, (2, 2))
        refused(r"crow_indices\[..., :-1\] <= ncols` is not satisfied", [0, 3, 2], [0, 1], two, (2, 2))
        for places in ([1, 0], [1, 1]):
            refused("are sorted and distinct along the last dimension", [0, 2, 2], places, two, (2, 2))
        refused(r"number of rows \+ 1 \(=3\), but got 2", [0, 2], [1, 0], two, (2, 2))
        refused(r"must be equal to nnz \(=2\)", [0, 1, 2], [1], two, (2, 2))
        refused(r"dimensionalities \(=0 \+ 2 \+ 0\) but got 1", [0, 1, 2], [0, 1], two, (2,))
        refused("values must have dimensionality > sum of", [0, 1, 2], [0, 1], 1.0, (2, 2))
        refused("crow_indices must have dimensionality >= 1 but got 0", 0, [0, 1], two, (2, 2))
        refused("dimensionalities must be equal but got 1 and 2", [0, 1, 2], [[0, 1]], two, (2, 2))
        refused("dtype must be Int or Long, but got Float", [0.0, 1, 2], [0.0, 1], two, (2, 2))
        refused(r"number of columns \+ 1 \(=2\), but got 3", [0, 1, 2], [0, 1], two, (2, 1), torch.sparse_csc_tensor)
        refused(r"shape\[1\] \(=3\) must be divisible with blocksize\[1\] \(=2\)", [0, 1, 2], [0, 1],
                [[[1.0, 1], [1, 1]]] * 2, (4, 3), torch.sparse_bsr_tensor)

    def test_checks_are_chosen(self):
        x = torch.sparse_csr_tensor(T([0, 2, 2]), T([1, 0]), T([1.0, 2]), (2, 2))
        self.assertEqual(x.to_dense().tolist(), [[2, 1], [0, 0]])
        with torch.sparse.check_sparse_tensor_invariants(), self.assertRaises(RuntimeError):
            torch.sparse_csr_tensor(T([0, 2, 2]), T([1, 0]), T([1.0, 2]), (2, 2))

    def test_no_other_questions(self):
        x = torch.eye(2).to_sparse_csr()
        for wrong in (x.coalesce, x.indices, x.ccol_indices, x.row_indices, x.to_sparse_csc().crow_indices,
                      x.stride, x.is_contiguous, x.data_ptr, lambda: x.view(4), lambda: x[0:1]):
            with self.assertRaises(RuntimeError):
                wrong()
        with self.assertRaisesRegex(TypeError, "can't convert SparseCsr layout tensor to numpy"):
            x.numpy()
        with self.assertRaisesRegex(RuntimeError, "row compressed tensor layout but got Strided"):
            torch.eye(2).crow_indices()


class Files(Cases):
    def test_round_trips(self):
        for x in (*self.all, torch.ones(2, 2, 2).to_sparse_csr()):
            file = io.BytesIO()
            torch.save({"x": x}, file)
            file.seek(0)
            for again in (torch.load(file)["x"], pickle.loads(pickle.dumps(x)), copy.copy(x)):
                self.assertEqual((again.layout, again.shape, parts(again)), (x.layout, x.shape, parts(x)))

    def test_saved_by_torch(self):
        for name, x in torch.load(SAVED).items():
            self.assertEqual(str(x.layout).split(".")[-1], name)
            self.assertEqual(x.to_dense().tolist(), DENSE)


class Operators(Cases):
    def test_products(self):
        expected = (self.dense @ self.right).tolist()
        for x in (self.csr, self.csc, self.bsr):
            self.assertEqual((x @ self.right).tolist(), expected)
            self.assertEqual(torch.sparse.mm(x, self.right).tolist(), expected)
            self.assertEqual((x @ self.right[:, 0]).tolist(), (self.dense @ self.right[:, 0]).tolist())
            got = torch.addmm(torch.ones(3), x, self.right, beta=2, alpha=3)
            self.assertEqual(got.tolist(), (2 + 3 * (self.dense @ self.right)).tolist())
            rows = torch.nn.functional.linear(torch.ones(3, 2, 4), x, torch.ones(4))
            self.assertEqual(rows.tolist(), (torch.ones(3, 2, 4) @ self.dense.t() + 1).tolist())
        for x in (self.csr, self.csc):
            self.assertEqual((self.right.t() @ x).tolist(), (self.right.t() @ self.dense).tolist())
        for a in (self.csr, self.csc):
            for b in (self.csr, self.csc):
                made = a @ b
                self.assertEqual(made.layout, torch.sparse_csr)
                self.assertEqual(made.to_dense().tolist(), (self.dense @ self.dense).tolist())
        got = torch.addmv(torch.ones(4), self.csr, torch.ones(4), beta=2)
        self.assertEqual(got.tolist(), (2 + self.dense.sum(1)).tolist())
        with self.assertRaisesRegex(RuntimeError, r"cannot be multiplied \(4x4 and 3x3\)"):
            self.csr @ torch.ones(3, 3)
        with self.assertRaisesRegex(RuntimeError, "expected scalar type Float but found Double"):
            self.csr @ self.right.double()

    def test_elements(self):
        for x in self.all:
            for name in ("abs", "neg", "sin", "sqrt", "relu", "sign", "isnan", "expm1", "floor"):
                made = getattr(torch, name)(x)
                self.assertEqual((made.layout, parts(made)[:2]), (x.layout, parts(x)[:2]))
                self.assertEqual(made.values().tolist(), getattr(torch, name)(x.values()).tolist())
            for made in (x * 2, 2 * x, x * T(2.0)):
                self.assertEqual((made.layout, made.to_dense().tolist()), (x.layout, (self.dense * 2).tolist()))
            with self.assertRaises(RuntimeError):
                x.exp()
        other = torch.eye(4).to_sparse_csr()
        self.assertEqual((self.csr * other).to_dense().tolist(), (self.dense * torch.eye(4)).tolist())
        self.assertEqual((self.csr * self.dense).to_dense().tolist(), (self.dense**2).tolist())
        self.assertEqual((self.csr + other).to_dense().tolist(), (self.dense + torch.eye(4)).tolist())
        self.assertEqual((self.csr + other).layout, torch.sparse_csr)
        self.assertEqual(torch.add(self.dense, self.csr, alpha=3).tolist(), (self.dense * 4).tolist())
        with self.assertRaises(RuntimeError):
            self.csr + 1

    def test_in_place(self):
        x = self.csr.clone()
        values = x.values()
        self.assertIs(x.mul_(2), x)
        self.assertEqual(values.tolist(), [4, 2, 2, 6, 8, 10])
        self.assertEqual(x.neg_().values().tolist(), [-4, -2, -2, -6, -8, -10])
        self.assertEqual(x.copy_(self.csr).values().tolist(), self.csr.values().tolist())
        self.assertEqual(x.zero_().values().sum().item(), 0)
        with self.assertRaises(RuntimeError):
            self.csr.clone().requires_grad_().mul_(2)
        with self.assertRaises(RuntimeError):
            x.copy_(self.csc)
        self.assertEqual(torch.zeros_like(x)._nnz(), 0)

    def test_transposition(self):
        t = self.csr.t()
        self.assertEqual((t.layout, parts(t)), (torch.sparse_csc, parts(self.csr)))
        for x in self.all:
            for made in (x.t(), x.transpose(0, 1), x.mT):
                self.assertEqual(made.to_dense().tolist(), self.dense.t().tolist())
        with self.assertRaisesRegex(RuntimeError, "can only transpose dimensions of the same type"):
            self.dense.expand(2, 4, 4).to_sparse_csr().transpose(0, 1)

    def test_sums_and_slices(self):
        for x in self.all:
            self.assertEqual(x.sum().item(), 16)
        self.assertEqual(self.csr.sum(1, keepdim=True).to_dense().tolist(), [[3], [4], [0], [9]])
        self.assertEqual(self.csr.sum(0, keepdim=True).to_dense().tolist(), [[1, 6, 3, 6]])
        with self.assertRaises(RuntimeError):
            self.csr.sum(1)
        self.assertEqual(self.csr[1].to_dense().tolist(), [1, 0, 3, 0])
        self.assertEqual((self.csr[:, 1].to_dense().tolist(), self.csr[3, 3].item()), ([2, 0, 0, 4], 5))
        for mask in self.all:
            got = torch.ones(4, 4).sparse_mask(mask)
            self.assertEqual((got.layout, parts(got)[:2]), (mask.layout, parts(mask)[:2]))

    def test_sampled_products(self):
        left, right = torch.arange(8.0).view(4, 2), torch.arange(8.0).view(2, 4)
        got = torch.sparse.sampled_addmm(self.csr, left, right, beta=2, alpha=3)
        expected = (3 * (left @ right) + 2 * self.dense) * (self.dense != 0)
        self.assertEqual(got.to_dense().tolist(), expected.tolist())
        for wrong in ((self.csc, left, right), (self.csr, right, right), (self.csr, left, right.double()),
                      (self.csr, left[:3], right), (self.dense, left, right), (self.csr, left[0], right)):
            with self.assertRaises(RuntimeError):
                torch.sparse.sampled_addmm(*wrong)

    def test_reduced_products(self):
        expected = {"sum": [15, 18, 0, 57], "mean": [7.5, 9, 0, 28.5], "amax": [9, 18, 0, 45], "amin": [6, 0, 0, 12]}
        for reduce, column in expected.items():
            self.assertEqual(torch.sparse.mm(self.csr, self.right, reduce)[:, 0].tolist(), column)
        with self.assertRaisesRegex(RuntimeError, "reduce argument must be either"):
            torch.sparse.mm(self.csr, self.right, "median")
        with self.assertRaises(RuntimeError):
            torch.sparse.mm(self.csc, self.right, "sum")


class Gradients(Cases):
    def test_of_the_dense_operand(self):
        for x in (self.csr, self.csc):
            right = self.right.clone().requires_grad_()
            (x @ right).pow(2).sum().backward()
            self.assertEqual(right.grad.tolist(), (2 * self.dense.t() @ (self.dense @ self.right)).tolist())

    def test_of_a_product_it_is_dense(self):
        expected = torch.ones(4, 3) @ self.right.t()
        for x in (self.csr, self.csc, self.bsr):
            leaf = x.clone().requires_grad_()
            (leaf @ self.right).sum().backward()
            self.assertEqual((leaf.grad.layout, leaf.grad.tolist()), (torch.strided, expected.tolist()))
        dense = self.dense.clone().requires_grad_()
        (dense.to_sparse_csr() @ self.right).sum().backward()
        self.assertEqual(dense.grad.tolist(), expected.tolist())

    def test_of_entries(self):
        leaf = self.csr.clone().requires_grad_()
        self.assertTrue(leaf.is_leaf and leaf.values().requires_grad and not leaf.detach().requires_grad)
        leaf.to_dense().pow(2).sum().backward()
        self.assertEqual((leaf.grad.layout, parts(leaf.grad)), (torch.sparse_csr, parts(self.csr * 2)))
        (leaf * 3).to_dense().sum().backward()
        self.assertEqual(leaf.grad.values().tolist(), [7, 5, 5, 9, 11, 13])
        values = T([2.0, 1, 1, 3, 4, 5], requires_grad=True)
        x = torch.sparse_csr_tensor(self.csr.crow_indices(), self.csr.col_indices(), values, (4, 4))
        self.assertTrue(x.requires_grad and not x.is_leaf)
        (x @ self.right).sum().backward()
        self.assertEqual(values.grad.tolist(), [12, 30, 3, 21, 12, 30])
        leaf = self.csr.clone().requires_grad_()
        (got,) = torch.autograd.grad((leaf.to_dense() ** 3).sum(), [leaf])
        self.assertEqual(got.values().tolist(), (3 * self.csr.values() ** 2).tolist())

    def test_of_nothing(self):
        dense = torch.zeros(3, 0, requires_grad=True)
        dense.to_sparse_csr().to_dense().sum().backward()
        self.assertEqual(tuple(dense.grad.shape), (3, 0))

    def test_of_reduced_and_sampled_products(self):
        expected = {"sum": [12, 30, 3, 21, 12, 30], "mean": [6, 15, 1.5, 10.5, 6, 15], "amax": [0, 30, 0, 21, 0, 30]}
        for reduce, values in expected.items():
            leaf, right = self.csr.clone().requires_grad_(), self.right.clone().requires_grad_()
            torch.sparse.mm(leaf, right, reduce).sum().backward()
            self.assertEqual(leaf.grad.values().tolist(), values)
        self.assertEqual(right.grad[:, 0].tolist(), [0, 0, 3, 6])
        leaf, left = self.csr.clone().requires_grad_(), self.right.clone().requires_grad_()
        torch.sparse.sampled_addmm(leaf, left, self.right.t(), beta=2).to_dense().sum().backward()
        self.assertEqual(leaf.grad.values().tolist(), [2] * 6)
        self.assertEqual(left.grad[:, 0].tolist(), [12, 6, 0, 12])

    def test_training(self):
        """A layer with sparse weights learns."""
        weight = torch.nn.Parameter(self.csr.clone())
        self.assertTrue(weight.requires_grad and isinstance(weight, torch.nn.Parameter))
        values = self.csr.values().clone().requires_grad_()
        optimizer = torch.optim.SGD([values], lr=0.001)
        losses = []
        for _ in range(3):
            x = torch.sparse_csr_tensor(self.csr.crow_indices(), self.csr.col_indices(), values, (4, 4))
            loss = (x @ self.right).pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertTrue(losses[0] > losses[1] > losses[2])


if __name__ == "__main__":
    unittest.main()
