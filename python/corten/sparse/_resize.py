"""New sizes of sparse tensors, and copies of their parts."""

from __future__ import annotations

import corten
from corten._C import Tensor
from corten._overriding import as_operator

from ._compressed import NAMES, CompressedTensor
from ._arithmetic import _become
from ._entries import SparseTensor, _C_plain, _made
from ._products import sspaddmm

_OPTIONS = """
You could try the following options:
1. If you need an empty sparse tensor of this size, call `x = torch.sparse_coo_tensor(size)`.
2. If you need to resize this tensor, you have the following options:
    1. For both sparse and dense dimensions, keep the number of them constant and the size of them non-shrinking, and then try the same call again.
    2. Or, create a new sparse tensor with the correct indices and values from this sparse tensor."""  # noqa: E501


def _check_size(x, size, sparse_dim, dense_dim):
    if not isinstance(x, SparseTensor):
        raise NotImplementedError("sparse_resize_ is for sparse tensors")
    if x.requires_grad:
        raise RuntimeError("a sparse tensor that requires a gradient cannot be resized")
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: "
            f"len(size) = {len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )


def _replaced(x, other):
    """Gives a tensor the shape and the parts of another."""
    with _C_plain():
        Tensor.data.__set__(x, other)
    return _become(x, other)


def check_growth(x, size, sparse_dim, dense_dim):
    """That a tensor with entries may be given another size.

    Raises:
        RuntimeError: A dimension would get smaller, or there would be other numbers of dimensions.
    """
    indices, values = x._held
    counts = {"dense": (values.dim() - 1, dense_dim), "sparse": (indices.size(0), sparse_dim)}
    for kind in ("sparse", "dense"):
        old, new = counts[kind]
        if old != new:
            raise RuntimeError(
                f"changing the number of {kind} dimensions (from {old} to {new}) on a non-empty "
                f"sparse tensor is not supported.{_OPTIONS}"
            )
    for kind, part in (("sparse", slice(sparse_dim)), ("dense", slice(sparse_dim, None))):
        old, new = list(x.shape[part]), list(size[part])
        if any(b < a for a, b in zip(old, new)):
            raise RuntimeError(
                f"shrinking the size of {kind} dimensions (from {old} to {new}) on a non-empty "
                f"sparse tensor is not supported.{_OPTIONS}"
            )


def sparse_resize_(self, size, sparse_dim, dense_dim):
    """Another size, which must not be smaller where there are entries. As of a dense tensor the
    values stay where they are in memory; new ones are 0."""
    size = tuple(size)
    _check_size(self, size, sparse_dim, dense_dim)
    indices, values = self._held
    if indices.size(1) == 0:
        return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)
    check_growth(self, size, sparse_dim, dense_dim)
    larger = values.new_zeros((values.size(0), *size[sparse_dim:]))
    larger.view(-1)[:values.numel()] = values.reshape(-1)
    return _replaced(self, _made(indices, larger, size, self._coalesced))


def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Another size, without entries."""
    size = tuple(size)
    _check_size(self, size, sparse_dim, dense_dim)
    indices, values = self._parts
    return _replaced(self, _made(
        indices.new_empty((sparse_dim, 0)), values.new_empty((0, *size[sparse_dim:])), size, True
    ))


@as_operator
def resize_as_sparse_(input, the_template):
    """The size of another sparse tensor; see :func:`sparse_resize_`."""
    if isinstance(input, CompressedTensor):
        return input.resize_as_sparse_(the_template)
    if isinstance(the_template, CompressedTensor):
        raise RuntimeError(
            "resize_as_sparse_compressed_: self  expected sparse compressed tensor layout but got "
            f"{NAMES[input.layout]}"
        )
    if not isinstance(the_template, SparseTensor) or not isinstance(input, SparseTensor):
        raise RuntimeError("resize_as_sparse_: expected sparse tensors")
    indices, values = the_template._parts
    return sparse_resize_(input, tuple(the_template.shape), indices.size(0), values.dim() - 1)


def _copy_of(part):
    def copied(input, *, out=None):
        found = getattr(input, part)().clone()
        if out is None:
            return found
        return out.resize_(found.shape).copy_(found)

    copied.__name__ = copied.__qualname__ = f"{part}_copy"
    copied.__doc__ = f"A copy of ``input.{part}()``."
    return as_operator(copied)


indices_copy, values_copy = _copy_of("indices"), _copy_of("values")
crow_indices_copy, col_indices_copy = _copy_of("crow_indices"), _copy_of("col_indices")
ccol_indices_copy, row_indices_copy = _copy_of("ccol_indices"), _copy_of("row_indices")

#: Methods of tensors that are found here.
METHODS = {
    "sspaddmm": sspaddmm, "sparse_resize_": sparse_resize_,
    "sparse_resize_and_clear_": sparse_resize_and_clear_, "resize_as_sparse_": resize_as_sparse_,
}
for _name, _method in METHODS.items():
    setattr(SparseTensor, _name, _method)
del _name, _method
