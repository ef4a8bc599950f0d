"""Sparse tensors without data or without entries, and how they are printed."""

import unittest

from module_under_test import torch

COMPRESSED = {"csr": None, "csc": None, "bsr": (1, 2), "bsc": (1, 2)}
DENSE = torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 4.0]])


def sparse(layout):
    if layout == "coo":
        return DENSE.to_sparse()
    return DENSE.to_sparse(layout=getattr(torch, f"sparse_{layout}"), blocksize=COMPRESSED[layout])


class Meta(unittest.TestCase):
    def test_no_entries_go_to_the_meta_device(self):
        for layout in ("coo", *COMPRESSED):
            x = sparse(layout)
            for made in (x.to("meta"), torch.zeros_like(x, device="meta"), x.to("meta").double()):
                self.assertTrue(made.is_meta)
                self.assertEqual((made.layout, made.shape, made._nnz()), (x.layout, x.shape, 0))
            self.assertTrue(torch.sum(x.to("meta")).is_meta)

    def test_sums(self):
        for layout in ("coo", *COMPRESSED):
            x = sparse(layout).to("meta")
            made = torch.add(x, x)
            self.assertEqual((made.is_meta, made.layout, made._nnz()), (True, x.layout, 0))

    def test_factories(self):
        for name in ("empty", "zeros"):
            make = getattr(torch, name)
            for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
                x = make(4, 5, layout=layout, device="meta")
                self.assertEqual((x.is_meta, x.layout, x.shape, x._nnz()), (True, layout, (4, 5), 0))
            with self.assertRaisesRegex(RuntimeError, r"expected sparse compressed \(non-block\)"):
                make(4, 4, layout=torch.sparse_bsr, device="meta")

    def test_texts(self):
        x = torch.zeros(4, 6, layout=torch.sparse_coo, device="meta")
        self.assertEqual(repr(x), (
            "tensor(indices=tensor(..., size=(2, 0)),\n       values=tensor(..., size=(0,)),\n"
            "       device='meta', size=(4, 6), layout=torch.sparse_coo)"
        ))
        x = torch.zeros(4, 6, layout=torch.sparse_csr, device="meta")
        self.assertEqual(repr(x), (
            "tensor(crow_indices=tensor(..., size=(5,)),\n       col_indices=tensor(..., size=(0,)),\n"
            "       values=tensor(..., size=(0,)), device='meta', size=(4, 6),\n"
            "       layout=torch.sparse_csr)"
        ))

    def test_history_is_named_as_that_of_dense_tensors(self):
        x = DENSE.to_sparse().requires_grad_()
        self.assertTrue(repr(x + x).endswith("layout=torch.sparse_coo, grad_fn=<AddBackward0>)"))
        y = x * 2
        y.neg_()
        self.assertTrue(repr(y).endswith("grad_fn=<NegBackward0>)"))
        long = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
        self.assertTrue(repr(long * 2).endswith(
            "       size=(2, 2), nnz=2, dtype=torch.float64, layout=torch.sparse_coo,\n"
            "       grad_fn=<MulBackward0>)"
        ))


class LikeOthers(unittest.TestCase):
    def test_zeros_in_other_layouts(self):
        for source in ("coo", "csr", "csc"):
            for target in ("coo", "csr", "csc"):
                layout = getattr(torch, f"sparse_{target}")
                made = torch.zeros_like(sparse(source), layout=layout)
                self.assertEqual((made.layout, made.shape, made._nnz()), (layout, (2, 4), 0))
        made = torch.zeros_like(sparse("bsr"), layout=torch.sparse_bsc)
        self.assertEqual((made.layout, tuple(made.values().shape)), (torch.sparse_bsc, (0, 1, 2)))
        with self.assertRaisesRegex(RuntimeError, "blocksize needs to be a tuple of size 2, but got 0"):
            torch.zeros_like(sparse("csr"), layout=torch.sparse_bsr)
        with self.assertRaisesRegex(RuntimeError, "blocksize cannot be specified for non-block layout"):
            torch.zeros_like(sparse("bsr"), layout=torch.sparse_csr)
        with self.assertRaisesRegex(RuntimeError, "empty_like with different sparse layout"):
            torch.zeros_like(sparse("csr"), layout=torch.strided)

    def test_room_for_entries(self):
        make = torch.ops.aten._sparse_compressed_tensor_with_dims
        for layout, ends in ((torch.sparse_bsr, 4), (torch.sparse_bsc, 3)):
            x = make(2, 1, (3, 6, 4, 5), (2, 2), torch.int32, dtype=torch.float64, layout=layout)
            self.assertEqual((x.layout, x.shape, x._nnz(), x.dense_dim()), (layout, (3, 6, 4, 5), 2, 1))
            rows = layout == torch.sparse_bsr
            first = x.crow_indices() if rows else x.ccol_indices()
            self.assertEqual((first.dtype, tuple(first.shape)), (torch.int32, (3, ends)))
            self.assertEqual((x.dtype, tuple(x.values().shape)), (torch.float64, (3, 2, 2, 2, 5)))
        csr = {"layout": torch.sparse_csr}
        for args, options, words in (
            ((0, 0, (4, 4), (1, 1), torch.int64), csr, "blocksize cannot be specified"),
            ((0, 3, (4, 4), (), torch.int64), csr, "dimensionality must be at least"),
            ((-1, 0, (4, 4), (), torch.int64), csr, "nnz must be non-negative"),
            ((0, 0, (4, 4), (), torch.int16), csr, "indices dtype must be Int or Long"),
            ((0, 0, (4, 4), (), torch.int64), {}, "expected sparse compressed tensor layout"),
            ((0, 0, (4, 4), (3, 2), torch.int64), {"layout": torch.sparse_bsr}, "must be multiple of"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                make(*args, **options)

    def test_like_dense_tensors(self):
        for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
            made = torch.zeros_like(DENSE, layout=layout, dtype=torch.float64)
            self.assertEqual((made.layout, made.dtype, made._nnz()), (layout, torch.float64, 0))
        for make in (torch.empty_like, torch.ones_like):
            for layout, key in ((torch.sparse_coo, "SparseCPU"), (torch.sparse_csr, "SparseCsrCPU")):
                with self.assertRaisesRegex(NotImplementedError, f"'aten::empty_strided'.*'{key}'"):
                    make(DENSE, layout=layout)

    def test_memory_formats(self):
        x = DENSE.to_sparse()
        for make in (torch.empty_like, torch.zeros_like):
            for kind in (torch.preserve_format, torch.contiguous_format):
                with self.assertRaisesRegex(RuntimeError, "only supported by strided tensors"):
                    make(x, memory_format=kind)
            self.assertEqual(make(x, layout=torch.strided).layout, torch.strided)


if __name__ == "__main__":
    unittest.main()
