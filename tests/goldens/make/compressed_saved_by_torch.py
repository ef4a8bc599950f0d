"""Makes ``compressed_saved_by_torch.pt``: one matrix in each compressed layout."""

import pathlib

import torch

dense = torch.tensor([[0.0, 2, 0, 1], [1, 0, 3, 0], [0, 0, 0, 0], [0, 4, 0, 5]])
made = {
    "sparse_csr": dense.to_sparse_csr(), "sparse_csc": dense.to_sparse_csc(),
    "sparse_bsr": dense.to_sparse_bsr((2, 2)), "sparse_bsc": dense.to_sparse_bsc((2, 2)),
}
torch.save(made, pathlib.Path(__file__).parent.parent / "compressed_saved_by_torch.pt")
