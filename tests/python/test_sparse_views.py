"""Views of compressed tensors, conversions between layouts, new sizes, checks of parts."""

import unittest

from module_under_test import torch

CORTEN = torch.__name__ == "corten"
LAYOUTS = {"csr": (), "csc": (), "bsr": (1, 2), "bsc": (1, 2)}
DENSE = torch.arange(12.0).reshape(3, 4)
DENSE[DENSE % 3 == 0] = 0


def sparse(layout, dense=DENSE, **options):
    if LAYOUTS.get(layout):
        options["blocksize"] = LAYOUTS[layout]
    return dense.to_sparse(layout=getattr(torch, f"sparse_{layout}"), **options)


class Views(unittest.TestCase):
    def test_transposed_tensors_are_views(self):
        for layout in LAYOUTS:
            x = sparse(layout)
            turned = x.transpose(0, 1)
            self.assertTrue(turned._is_view() and turned.values()._is_view())
            self.assertIs(turned._base, x)
            self.assertIs(turned.t()._base, x)
            self.assertEqual(turned.to_dense().tolist(), DENSE.t().tolist())
            same = x.transpose(1, 1)
            self.assertIs(same._base, x)
            self.assertEqual(same.layout, x.layout)
            self.assertFalse(x._is_view() or x.clone()._is_view())
            self.assertIsNone(x._base)

    def test_slices_of_batches(self):
        batch = torch.stack([DENSE, 2 * DENSE])
        for layout in LAYOUTS:
            x = sparse(layout, batch)
            part = x.select(0, 1)
            self.assertIs(part._base, x)
            self.assertEqual(part.layout, x.layout)
            self.assertEqual(part.to_dense().tolist(), batch[1].tolist())
            copied = torch.select_copy(x, 0, 1)
            self.assertEqual(copied.layout, x.layout)
            self.assertEqual(copied.to_dense().tolist(), batch[1].tolist())
            for name, function in (("select", torch.select), ("select_copy", torch.select_copy)):
                for dim in (1, 2, -1):
                    with self.assertRaisesRegex(RuntimeError, rf"{name}\(\): selecting sparse dimensions"):
                        function(x, dim, 0)
            if layout == "csr":
                self.assertEqual(x[1, 2, 3], 22)

    def test_slices_of_dense_dimensions(self):
        hybrid = torch.stack([DENSE, 3 * DENSE], -1)
        for layout in LAYOUTS:
            x = sparse(layout, hybrid, dense_dim=1)
            for part in (x.select(2, 1), torch.select_copy(x, -1, 1)):
                self.assertEqual(part.layout, x.layout)
                self.assertEqual(part.to_dense().tolist(), hybrid[..., 1].tolist())
            self.assertEqual(x.select(1, 3).to_dense().tolist(), hybrid[:, 3].tolist())
            with self.assertRaisesRegex(RuntimeError, "hybrid sparse compressed tensors with dense"):
                x.transpose(0, 1)

    @unittest.skipUnless(CORTEN, "PyTorch has no derivative")
    def test_gradients_of_slices(self):
        hybrid = torch.stack([DENSE, 3 * DENSE], -1)
        x = sparse("csr", hybrid, dense_dim=1).requires_grad_()
        (x.select(2, 1).to_dense() * 5).sum().backward()
        self.assertEqual(x.grad.to_dense()[..., 0].count_nonzero(), 0)
        self.assertEqual(x.grad.to_dense()[..., 1].tolist(), ((DENSE != 0) * 5.0).tolist())

    def test_kinds_of_dimensions(self):
        x = sparse("csr", torch.stack([DENSE, DENSE]))
        for dims, words in (((2, 0), r"got 2\(Sparse\) and 0\(Batch\)"),
                            ((0, 1), r"got 0\(Batch\) and 1\(Sparse\)")):
            with self.assertRaisesRegex(RuntimeError, words):
                x.transpose(*dims)


class Conversions(unittest.TestCase):
    def test_batches_are_not_gathered_to_blocks(self):
        batch = torch.stack([DENSE, 2 * DENSE])
        for source in ("csr", "csc"):
            for target in ("bsr", "bsc"):
                layout = getattr(torch, f"sparse_{target}")
                with self.assertRaisesRegex(RuntimeError, "for batched inputs is not supported"):
                    sparse(source, batch).to_sparse(layout=layout, blocksize=(1, 2))
                made = sparse(source).to_sparse(layout=layout, blocksize=(1, 2))
                self.assertEqual(made.to_dense().tolist(), DENSE.tolist())

    def test_sparse_dimensions(self):
        x = torch.ones(2, 3, 4).to_sparse()
        for name in ("csr", "csc"):
            with self.assertRaisesRegex(RuntimeError, r"with sparse_dim\(\)!=2 is not supported"):
                x.to_sparse(layout=getattr(torch, f"sparse_{name}"))

    def test_sizes_of_blocks(self):
        for size in ((1,), [1, 1, 1], torch.Size((1,))):
            with self.assertRaisesRegex(RuntimeError, f"blocksize.*, but got {len(size)}"):
                torch.ones(2, 2).to_sparse(blocksize=size)

    def test_resizing(self):
        x = sparse("csr", torch.stack([DENSE, DENSE]))
        x.resize_(2, 5, 6)
        self.assertEqual((x.shape, x._nnz()), ((2, 5, 6), 8))
        x.resize_(5, 6)
        self.assertEqual(x.to_dense()[:3, :4].tolist(), DENSE.tolist())
        self.assertEqual(x.to_dense()[3:].count_nonzero(), 0)
        with self.assertRaisesRegex(RuntimeError, "to a smaller value is not supported"):
            x.resize_(5, 4)

    def test_resizing_like_another_keeps_the_indices_dtype(self):
        x = sparse("csr")
        small = torch.sparse_csr_tensor(
            torch.tensor([0, 1], dtype=torch.int32), torch.tensor([0], dtype=torch.int32),
            torch.ones(1, dtype=torch.float64), (1, 2),
        )
        small.resize_as_sparse_(x)
        self.assertEqual(small.shape, x.shape)
        self.assertEqual((small.crow_indices().dtype, small.dtype), (torch.int32, torch.float64))
        with self.assertRaisesRegex(RuntimeError, "self  expected sparse compressed tensor layout"):
            torch.ones(2, 2).resize_as_sparse_(x)


class Checks(unittest.TestCase):
    def test_indices_are_contiguous(self):
        t, values = torch.tensor, torch.ones(4)
        apart = t([0, -1, 2, -1, 4, -1])[::2]
        check = torch._validate_sparse_compressed_tensor_args
        with self.assertRaisesRegex(RuntimeError, "expected crow_indices to be a contiguous tensor"):
            check(apart, t([0, 1, 0, 2]), values, (2, 3), torch.sparse_csr)
        with self.assertRaisesRegex(RuntimeError, "expected row_indices to be a contiguous tensor"):
            check(t([0, 2, 4]), t([0, 0, 1, 0, 0, 0, 2, 0])[::2], values, (3, 2), torch.sparse_csc)

    def test_batches(self):
        t = torch.tensor
        with self.assertRaisesRegex(RuntimeError, r"must be equal to tensor batch dimensions \(=\[2\]\)"):
            torch._validate_sparse_compressed_tensor_args(
                t([[0, 2, 4]]), t([[0, 1, 0, 2]]), torch.ones(1, 4), (2, 2, 3), torch.sparse_csr
            )

    def test_indices_alone(self):
        t, check = torch.tensor, torch._validate_compressed_sparse_indices
        check(False, t([0, 1, 1]), t([0]), 2, 1, 1)
        for args, words in (
            ((True, t([0, 1]), t([], dtype=torch.int64), 1, 1, 0), r"crow_indices\[..., -1\] == nnz"),
            ((False, t([0, 1, 1]), t([1]), 2, 1, 1), "0 <= row_indices < nrows"),
            ((False, t([0, 1, 1]), t([1]), 3, 2, 1), r"not equal to ncols \+ 1 = 4"),
            ((True, t([0, 1, 1]), t([1]), 2, 2, 3), "not equal to nnz = 3"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                check(*args)


if __name__ == "__main__":
    unittest.main()
