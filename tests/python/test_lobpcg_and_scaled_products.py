"""lobpcg, products of groups and with scales, old products of sparse matrices."""

import unittest

from module_under_test import torch

F = torch.nn.functional


def close(a, b, tolerance=1e-5):
    return bool(((a - b).abs() <= tolerance * (1 + b.abs())).all())


class Lobpcg(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        root = torch.randn(15, 15, dtype=torch.float64)
        self.A = root @ root.T + torch.eye(15, dtype=torch.float64)
        self.values = torch.linalg.eigvalsh(self.A)

    def test_ends_of_the_spectrum(self):
        for method in (None, "basic", "ortho"):
            for largest, expected in ((True, self.values.flip(0)[:3]), (False, self.values[:3])):
                E, X = torch.lobpcg(self.A, k=3, largest=largest, method=method)
                self.assertTrue(close(E, expected))
                self.assertTrue(close(self.A @ X, X * E, 1e-4))
                self.assertTrue(close(X.T @ X, torch.eye(3, dtype=torch.float64)))
        self.assertEqual(torch.lobpcg(self.A)[1].shape, (15, 1))
        self.assertEqual(torch.lobpcg(self.A.float(), k=2)[0].dtype, torch.float32)

    def test_problems(self):
        B = torch.diag(torch.arange(1.0, 16, dtype=torch.float64))
        E, X = torch.lobpcg(self.A, k=2, B=B, tol=1e-9)
        self.assertTrue(close(self.A @ X, B @ X * E, 1e-4))
        self.assertTrue(close(X.T @ B @ X, torch.eye(2, dtype=torch.float64)))
        for sparse in (self.A.to_sparse(), self.A.to_sparse_csr()):
            self.assertTrue(close(torch.lobpcg(sparse, k=2)[0], self.values.flip(0)[:2]))
        E, X = torch.lobpcg(torch.stack([self.A, 2 * self.A]), k=2)
        self.assertEqual((E.shape, X.shape), ((2, 2), (2, 15, 2)))
        self.assertTrue(close(E[1], 2 * E[0]))
        for plain in (torch.eye(15), torch.diag(torch.tensor([1.0] * 3 + [0.0] * 12))):
            E, X = torch.lobpcg(plain, k=3)
            self.assertTrue(close(E, torch.ones(3)) and close(X.T @ X, torch.eye(3)))
        start = torch.randn(15, 2, dtype=torch.float64)
        inverse = torch.linalg.inv(self.A)
        steps = []
        E, _ = torch.lobpcg(self.A, X=start, largest=False, iK=inverse,
                            tracker=lambda worker: steps.append(worker.ivars["istep"]))
        self.assertTrue(close(E, self.values[:2]))
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertLess(len(steps), 200)

    @unittest.skipIf(torch.__name__ == "torch", "PyTorch refuses dependent approximations")
    def test_dependent_approximations(self):
        matrix = torch.diag(torch.arange(30.0, dtype=torch.float64))
        E, X = torch.lobpcg(matrix, X=torch.ones(30, 2, dtype=torch.float64))
        self.assertTrue(close(E, torch.tensor([29.0, 28])))
        self.assertTrue(close(X.T @ X, torch.eye(2, dtype=torch.float64)))
        self.assertEqual(torch.lobpcg(torch.zeros(9, 9), k=2)[0].tolist(), [0, 0])

    def test_gradients(self):
        def both(function):
            A = self.A.clone().requires_grad_()
            E, X = function((A + A.T) / 2)
            X = X * X[0].sign()  # the signs of vectors are free
            weights = torch.arange(30.0, dtype=torch.float64).reshape(15, 2)
            return torch.autograd.grad((E * torch.tensor([1.0, 3])).sum() + (X * weights).sum(), A)[0]

        def by_eigh(A):
            E, X = torch.linalg.eigh(A)
            return E.flip(0)[:2], X.flip(1)[:, :2]

        found = both(lambda A: torch.lobpcg(A, k=2, tol=1e-12, niter=2000))
        self.assertTrue(close(found, both(by_eigh), 1e-4))

    def test_refusals(self):
        with self.assertRaisesRegex(ValueError, "is smaller than 3 x the number of requested"):
            torch.lobpcg(self.A, k=6)
        with self.assertRaises(AssertionError):
            torch.lobpcg(self.A[:5], k=1)
        with self.assertRaises(AssertionError):
            torch.lobpcg(self.A, X=torch.randn(11, 2, dtype=torch.float64))
        A = self.A.clone().requires_grad_()
        with self.assertRaisesRegex(ValueError, "does not support backward with B != I yet"):
            torch.lobpcg(A, k=1, B=torch.eye(15, dtype=torch.float64))[0].sum().backward()


class Convolution(unittest.TestCase):
    def test_over_time(self):
        torch.manual_seed(2)
        options = {"dtype": torch.float64, "requires_grad": True}
        x, w, b = torch.randn(5, 2, 3, **options), torch.randn(3, 3, 4, **options), torch.randn(4, **options)
        for pad in (0, 1, 2):
            found = torch.conv_tbc(x, w, b, pad)
            other = F.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=pad).permute(2, 0, 1)
            self.assertTrue(close(found, other))
            self.assertTrue(found.is_contiguous())
            grads = [torch.autograd.grad(y.square().sum(), (x, w, b)) for y in (found, other)]
            self.assertTrue(all(map(close, *grads)))
        self.assertEqual(F.conv_tbc(x, w, b, pad=1).shape, (5, 2, 4))
        for arguments, message in (
            ((x[0], w, b), "Input must have 3 dims"), ((x, w[0], b), "Weight tensor must have 3"),
            ((x, w, b[:2]), "Bias size must equal"), ((x, w[:, :2], b), "Input dim 2"),
            ((x, w, b[None]), "Bias must be 1-D"), ((x[:1], w, b), "negative dimension"),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                torch.conv_tbc(*arguments)
        with self.assertRaisesRegex(TypeError, "must be Tensor, not NoneType"):
            torch.conv_tbc(x, w, None)


class Groups(unittest.TestCase):
    def setUp(self):
        self.a = torch.arange(32.0).reshape(4, 8)
        self.b = torch.arange(256.0).reshape(2, 8, 16) % 7

    def test_groups(self):
        a, b = self.a, self.b
        first, last = slice(0, 1), slice(1, 4)
        found = F.grouped_mm(a, b, offs=ends(1, 4))
        self.assertTrue(close(found, torch.cat([a[first] @ b[0], a[last] @ b[1]])))
        stacked = a.reshape(2, 2, 8)
        self.assertTrue(close(F.grouped_mm(stacked, b), torch.bmm(stacked, b)))
        found = F.grouped_mm(a, b[0], offs=ends(3, 8))
        self.assertTrue(close(found, torch.stack([a[:, :3] @ b[0][:3], a[:, 3:] @ b[0][3:]])))
        found = F.grouped_mm(stacked, b[0], offs=ends(5, 16))
        self.assertTrue(close(found, torch.cat([a[:2] @ b[0][:, :5], a[2:] @ b[0][:, 5:]], 1)))
        for dtype in (torch.float16, torch.bfloat16):
            self.assertEqual(F.grouped_mm(a.to(dtype), b.to(dtype), offs=ends(1, 4)).dtype, dtype)

    def test_gradients(self):
        a, b = self.a.requires_grad_(), self.b.requires_grad_()
        weights = torch.arange(64.0).reshape(4, 16)
        found = torch.autograd.grad((F.grouped_mm(a, b, offs=ends(1, 4)) * weights).sum(), (a, b))
        parts = torch.cat([a[:1] @ b[0], a[1:] @ b[1]])
        expected = torch.autograd.grad((parts * weights).sum(), (a, b))
        self.assertTrue(all(map(close, found, expected)))

    def test_refusals(self):
        a, b = self.a, self.b
        for arguments, options, message in (
            ((a, b), {}, "Have to provide offsets"), ((a[0], b), {}, "has to be 2 or 3d"),
            ((a, b), {"offs": ends(4)}, "matrix batch sizes"),
            ((a, b), {"offs": torch.tensor([1, 4])}, "Offsets have to be int32"),
            ((a, b), {"offs": ends(1, 4)[None]}, "offs has to be 1D"),
            ((a.reshape(4, 1, 8), b), {}, "batched dimension has to match"),
            ((a[:, :4].contiguous(), b), {"offs": ends(1, 4)}, "contraction dimension"),
            ((a.double(), b), {"offs": ends(1, 4)}, "Expected mat_a to be"),
            ((a.half(), b), {"offs": ends(1, 4)}, "to have the same dtype, got Half and Float"),
            ((a[:, :5].contiguous(), b[:, :5].contiguous()), {"offs": ends(1, 4)}, "16 bytes"),
            ((a, b), {"offs": ends(1, 4), "bias": a}, "Bias not supported"),
            ((a, b), {"offs": ends(1, 4), "out_dtype": torch.bfloat16}, "output dtype must match"),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                F.grouped_mm(*arguments, **options)


def ends(*values):
    return torch.tensor(values, dtype=torch.int32)


class Scales(unittest.TestCase):
    def test_products(self):
        torch.manual_seed(3)
        dtype = torch.float8_e4m3fn
        a, b = torch.randn(16, 32).to(dtype), torch.randn(16, 32).to(dtype).t()
        plain, kinds = a.float() @ b.float(), F.ScalingType
        one, half = torch.tensor(2.0), torch.tensor(0.5)
        whole = one, kinds.TensorWise, half, kinds.TensorWise
        found = F.scaled_mm(a, b, *whole)
        self.assertEqual((found.dtype, found.tolist()), (torch.bfloat16, plain.bfloat16().tolist()))
        found = F.scaled_mm(a, b, *whole, bias=torch.ones(16), output_dtype=torch.float32)
        self.assertTrue(close(found, plain + 1))
        rows, columns = torch.rand(16, 1), torch.rand(1, 16)
        found = F.scaled_mm(a, b, [rows], [kinds.RowWise], [columns], [kinds.RowWise],
                            output_dtype=torch.float32)
        self.assertTrue(close(found, plain * rows * columns))
        for arguments, message in (
            ((a, b, rows, kinds.RowWise, half, kinds.TensorWise), "unsupported recipe"),
            ((a, b[:16], *whole), "cannot be multiplied"), ((a[None], b, *whole), "be a matrix"),
            ((a.float(), b, *whole), "Expected both inputs to be fp8"),
            ((a, b, rows, kinds.TensorWise, half, kinds.TensorWise), "scale_a must have 1 Float"),
            ((a, b, one, kinds.RowWise, half, kinds.RowWise), "must have 16 Float elements, got 1"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                F.scaled_mm(*arguments)


class SparseProducts(unittest.TestCase):
    def setUp(self):
        self.s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4, 5], (3, 3))
        self.d = torch.arange(12.0).reshape(3, 4)
        self.product = self.s.to_dense() @ self.d

    def test_products(self):
        s, d = self.s, self.d
        self.assertEqual(torch.dsmm(s, d).tolist(), self.product.tolist())
        for found in (torch.hspmm(s, d), torch.hsmm(s, d)):
            self.assertEqual((found._indices().tolist(), found.dense_dim()), ([[0, 1]], 1))
            self.assertEqual(found.to_dense().tolist(), self.product.tolist())
        ones = torch.ones(3, 4)
        for found in (torch.sspaddmm(ones.to_sparse(), s, d, beta=2, alpha=3),
                      torch.saddmm(ones.to_sparse(), s, d, beta=2, alpha=3),
                      ones.to_sparse().sspaddmm(s, d, beta=2, alpha=3)):
            self.assertEqual(found._nnz(), 20)
            self.assertEqual(found.to_dense().tolist(), (2 + 3 * self.product).tolist())
        with self.assertRaisesRegex(RuntimeError, "can only be called on sparse tensors"):
            torch.saddmm(ones, ones, d)
        with self.assertRaises(RuntimeError):
            torch.sspaddmm(ones, s, d)

    def test_sizes(self):
        s = self.s.clone()
        self.assertIs(s.sparse_resize_((4, 5), 2, 0), s)
        self.assertEqual((s.shape, s._nnz(), s.is_coalesced()), ((4, 5), 3, False))
        self.assertEqual(s.to_dense()[1].tolist(), [4, 0, 5, 0, 0])
        template = torch.sparse_coo_tensor([[0], [1]], [1.0], (5, 6))
        for function in (torch.resize_as_sparse_, lambda x, y: x.resize_as_sparse_(y)):
            s = self.s.clone()
            self.assertIs(function(s, template), s)
            self.assertEqual((s.shape, s._nnz()), ((5, 6), 3))
        mixed = torch.sparse_coo_tensor([[0]], [[1.0, 2]], (2, 2))
        mixed.sparse_resize_((3, 4), 1, 1)
        self.assertEqual(mixed._values()[:, :2].tolist(), [[1, 2]])
        s.sparse_resize_and_clear_((1, 5), 1, 1)
        self.assertEqual((s.shape, s._indices().shape, s._values().shape), ((1, 5), (1, 0), (0, 5)))
        for size, dims, message in (
            ((1, 5), (2, 0), "shrinking the size of sparse dimensions .from .3, 3. to .1, 5.."),
            ((3, 3, 2), (2, 1), "changing the number of dense dimensions .from 0 to 1."),
            ((3, 3, 2), (3, 0), "changing the number of sparse dimensions .from 2 to 3."),
            ((3, 3), (1, 0), "is not satisfied: len.size. = 2"),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                self.s.clone().sparse_resize_(size, *dims)
        with self.assertRaises(NotImplementedError):
            torch.ones(2).sparse_resize_((1,), 1, 0)

    def test_copies_of_parts(self):
        dense = torch.tensor([[0, 1.0], [2, 0]])
        rows, columns = dense.to_sparse_csr(), dense.to_sparse_csc()
        for tensor, part in ((rows, "crow_indices"), (rows, "col_indices"), (rows, "values"),
                             (columns, "ccol_indices"), (columns, "row_indices")):
            found = getattr(torch, f"{part}_copy")(tensor)
            own = getattr(tensor, part)()
            self.assertEqual(found.tolist(), own.tolist())
            self.assertNotEqual(found.data_ptr(), own.data_ptr())
        with self.assertRaises(RuntimeError):
            torch.crow_indices_copy(dense)
        with self.assertRaises(RuntimeError):
            torch.indices_copy(dense)


if __name__ == "__main__":
    unittest.main()
