"""Sparse tensors without data: sizes, layouts and dtypes are those that PyTorch's `FakeTensorMode` gives."""

import importlib
import unittest

from module_under_test import torch

fakes = importlib.import_module(f"{torch.__name__}._subclasses.fake_tensor")

#: What PyTorch gives of a 3x3 tensor in coordinate format: the shape, the layout and the dtype.
COORDINATES = {
    "x + x": ((3, 3), "sparse_coo", "float32"), "x * 2": ((3, 3), "sparse_coo", "float32"),
    "x @ d": ((3, 3), "strided", "float32"), "torch.sparse.mm(x, d)": ((3, 3), "strided", "float32"),
    "x.to_dense()": ((3, 3), "strided", "float32"), "x.coalesce()": ((3, 3), "sparse_coo", "float32"),
    "x._indices()": ((2, 0), "strided", "int64"), "x._values()": ((0,), "strided", "float32"),
    "x.t()": ((3, 3), "sparse_coo", "float32"), "x.sum()": ((), "strided", "float32"),
    "x.relu()": ((3, 3), "sparse_coo", "float32"), "x.to(torch.float64)": ((3, 3), "sparse_coo", "float64"),
    "x.clone()": ((3, 3), "sparse_coo", "float32"), "torch.zeros_like(x)": ((3, 3), "sparse_coo", "float32"),
    "torch.empty_like(x)": ((3, 3), "sparse_coo", "float32"), "d.to_sparse()": ((3, 3), "sparse_coo", "float32"),
    "torch.sparse_coo_tensor(torch.zeros(2, 3, dtype=torch.int64), torch.ones(3), (4, 4))": (
        (4, 4), "sparse_coo", "float32"
    ),
}
#: The same of one in compressed rows.
ROWS = {
    "x.to_dense()": ((3, 3), "strided", "float32"), "x @ d": ((3, 3), "strided", "float32"),
    "x.crow_indices()": ((4,), "strided", "int64"), "x.values()": ((0,), "strided", "float32"),
    "x * 2": ((3, 3), "sparse_csr", "float32"), "x + x": ((3, 3), "sparse_csr", "float32"),
    "x.sum()": ((), "strided", "float32"), "x.relu()": ((3, 3), "sparse_csr", "float32"),
    "x.clone()": ((3, 3), "sparse_csr", "float32"), "x.detach()": ((3, 3), "sparse_csr", "float32"),
    "d.to_sparse_csr()": ((3, 3), "sparse_csr", "float32"),
}


class FakeSparse(unittest.TestCase):
    def check(self, x, expected):
        mode = fakes.FakeTensorMode()
        x = mode.from_tensor(x)
        with mode:
            d = torch.ones(3, 3)
            for text, (shape, layout, dtype) in expected.items():
                with self.subTest(text):
                    got = eval(text, {"torch": torch, "x": x, "d": d})
                    self.assertEqual(tuple(got.shape), shape)
                    self.assertEqual((got.layout, got.dtype), (getattr(torch, layout), getattr(torch, dtype)))

    def test_coordinates(self):
        self.check(torch.eye(3).to_sparse(), COORDINATES)

    def test_rows(self):
        self.check(torch.eye(3).to_sparse_csr(), ROWS)

    def test_blocks_batches_and_gradients(self):
        mode = fakes.FakeTensorMode()
        blocks = mode.from_tensor(torch.eye(4).to_sparse_bsr((2, 2)))
        self.assertEqual((tuple(blocks.shape), blocks.layout), ((4, 4), torch.sparse_bsr))
        self.assertEqual(tuple(blocks.values().shape), (0, 2, 2))
        batches = mode.from_tensor(torch.ones(2, 3, 4).to_sparse_csr())
        self.assertEqual((tuple(batches.shape), tuple(batches.crow_indices().shape)), ((2, 3, 4), (2, 4)))
        hybrid = mode.from_tensor(torch.ones(2, 3, 4).to_sparse(2).requires_grad_())
        self.assertEqual((hybrid.sparse_dim(), hybrid.dense_dim(), hybrid.requires_grad), (2, 1, True))
        with mode:
            self.assertTrue(hybrid.to_dense().requires_grad)

    def test_other_devices(self):
        x = fakes.FakeTensorMode()
        with x:
            made = torch.ones(3, 3, device="cuda").to_sparse()
        self.assertEqual((made.device.type, made.layout), ("cuda", torch.sparse_coo))

    def test_conversions_with_data_are_as_before(self):
        dense = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
        for made in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((1, 3))):
            self.assertTrue(torch.equal(made.to_dense(), dense))
        self.assertTrue(torch.equal(dense.to_sparse().t().to_dense(), dense.T))


if __name__ == "__main__":
    unittest.main()
