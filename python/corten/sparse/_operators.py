"""More operators of sparse tensors: products of elements, joining, choosing, softmax."""

from __future__ import annotations

import corten
from corten._C import Tensor
from corten._utils import wrap_dim

from ._coordinate import (
    _OPERATORS, SparseTensor, _coalesce, _made, _mm, _scaled, sparse_coo_tensor,
)


def _places(indices, size):
    """One number for every place."""
    flat = corten.zeros(indices.size(1), dtype=corten.int64, device=indices.device)
    for row, length in zip(indices, size):
        flat = flat * length + row
    return flat


def _product(a, b):
    """The product of the elements: of two sparse tensors, a sparse and a dense one, or a number."""
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if not isinstance(b, Tensor) or b.dim() == 0 and not isinstance(b, SparseTensor):
        return _scaled(a, b)
    if a.shape != b.shape:
        raise RuntimeError(
            f"mul(sparse, sparse): the sizes must be the same, but are {list(a.shape)} and "
            f"{list(b.shape)}"
        )
    indices, values = (a := _coalesce(a))._parts
    if not isinstance(b, SparseTensor):
        return _made(indices, values * b[tuple(indices)], a.shape, True)
    others, factors = _coalesce(b)._parts
    if others.size(0) != indices.size(0):
        raise RuntimeError("mul(sparse, sparse): the numbers of sparse dimensions must be the same")
    mine, theirs = _places(indices, a.shape), _places(others, a.shape)
    at = corten.searchsorted(theirs, mine).clamp(max=max(theirs.numel() - 1, 0))
    if theirs.numel() == 0:
        return _made(indices[:, :0], values[:0] * factors.sum(), a.shape, True)
    both = theirs[at] == mine
    return _made(indices[:, both], values[both] * factors[at[both]], a.shape, True)


def _cat(tensors, dim=0, *, out=None):
    """Sparse tensors one behind the other, along a sparse dimension."""
    first = tensors[0]
    dim, count = wrap_dim(dim, first.dim()), first._parts[0].size(0)
    rest = [size for place, size in enumerate(first.shape) if place != dim]
    for tensor in tensors:
        if not isinstance(tensor, SparseTensor) or tensor._parts[0].size(0) != count:
            raise RuntimeError("cat: all tensors must be sparse, with as many sparse dimensions")
        if [size for place, size in enumerate(tensor.shape) if place != dim] != rest:
            raise RuntimeError("cat: sizes must match except in the dimension of joining")
    if dim >= count:
        raise NotImplementedError("cat of sparse tensors along a dense dimension")
    indices, start = [], 0
    for tensor in tensors:
        moved = tensor._parts[0].clone()
        moved[dim] += start
        indices.append(moved)
        start += tensor.shape[dim]
    size = list(first.shape)
    size[dim] = start
    values = corten.cat([tensor._parts[1] for tensor in tensors])
    return _made(corten.cat(indices, 1), values, size, False)


def _unsqueeze(x, dim):
    indices, values = x._parts
    dim, count = wrap_dim(dim, x.dim() + 1), indices.size(0)
    size = [*x.shape[:dim], 1, *x.shape[dim:]]
    if dim > count:
        return _made(indices, values.unsqueeze(dim - count + 1), size, x._coalesced)
    new = corten.zeros(1, indices.size(1), dtype=indices.dtype, device=indices.device)
    return _made(corten.cat([indices[:dim], new, indices[dim:]]), values, size, x._coalesced)


def _stack(tensors, dim=0, *, out=None):
    dim = wrap_dim(dim, tensors[0].dim() + 1)
    return _cat([_unsqueeze(tensor, dim) for tensor in tensors], dim)


def _select(x, dim, index):
    """One slice along a dimension; dense where no sparse dimension is left."""
    indices, values = x._parts
    dim, count = wrap_dim(dim, x.dim()), indices.size(0)
    size = [*x.shape[:dim], *x.shape[dim + 1:]]
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension "
            f"{dim}"
        )
    index %= x.shape[dim]
    if dim >= count:
        return _made(indices, values.select(dim - count + 1, index), size, x._coalesced)
    kept = indices[dim] == index
    if count == 1:
        return values[kept].sum(0, dtype=values.dtype)
    rest = corten.cat([indices[:dim], indices[dim + 1:]])[:, kept]
    return _made(rest, values[kept], size, x._coalesced)


def _get_item(x, index):
    for one in index if isinstance(index, tuple) else (index,):
        if isinstance(one, bool) or not isinstance(one, int):
            raise NotImplementedError("sparse tensors are indexed by ints")
        x = _select(x, 0, one) if isinstance(x, SparseTensor) else x[one]
    return x


def _index_select(x, dim, index):
    """The slices of some indices along a dimension, which may come up several times."""
    indices, values = x._parts
    dim, count = wrap_dim(dim, x.dim()), indices.size(0)
    size = list(x.shape)
    if index.numel() and (index.lt(-size[dim]).any() or index.ge(size[dim]).any()):
        raise IndexError("index_select(): index contains an element that is out of range")
    index = index.remainder(max(size[dim], 1))
    size[dim] = index.numel()
    if dim >= count:
        return _made(indices, values.index_select(dim - count + 1, index), size, x._coalesced)
    order = indices[dim].argsort(stable=True)
    held = indices[dim][order]
    first = corten.searchsorted(held, index)
    counts = corten.searchsorted(held, index, right=True) - first
    target = corten.arange(index.numel(), device=index.device).repeat_interleave(counts)
    before = (counts.cumsum(0) - counts).repeat_interleave(counts)
    entry = order[first.repeat_interleave(counts) + corten.arange(target.numel()) - before]
    chosen = indices[:, entry]
    chosen[dim] = target
    return _made(chosen, values[entry], size, False)


def _softmax_values(x, dim, dtype, log):
    """The entries of a softmax over those that are there."""
    indices, values = (x := _coalesce(x))._parts
    values = values if dtype is None else values.to(dtype)
    dim, count = wrap_dim(dim, x.dim()), indices.size(0)
    if dim >= count:
        function = corten.log_softmax if log else corten.softmax
        return _made(indices, function(values, dim - count + 1), x.shape, True)
    others = [place for place in range(count) if place != dim]
    flat = _places(indices[others], [x.shape[place] for place in others])
    groups, group = corten.unique(flat, return_inverse=True)
    spread = group.reshape(-1, *(1,) * (values.dim() - 1)).expand_as(values)
    lowest = values.new_full((groups.numel(), *values.shape[1:]), -float("inf"))
    largest = lowest.scatter_reduce(0, spread, values.detach(), "amax")
    shifted = values - largest[group]
    total = corten.zeros_like(lowest).index_add(0, group, shifted.exp())[group]
    made = shifted - total.log() if log else shifted.exp() / total
    return _made(indices, made, x.shape, True)


def softmax(input, dim, *, dtype=None):
    """The softmax along a dimension; places without an entry count as minus infinity."""
    return _softmax_values(input, dim, dtype, False)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of :func:`softmax`."""
    return _softmax_values(input, dim, dtype, True)


def _addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    return beta * input + alpha * _mm(mat1, mat2)


def _bmm(a, b, *, out=None):
    """Products of the matrices of a sparse and a dense tensor."""
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        raise NotImplementedError("bmm of a dense and a sparse tensor")
    if a.dim() != 3 or b.dim() != 3 or a._parts[0].size(0) != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(f"bmm: the sizes {list(a.shape)} and {list(b.shape)} do not fit")
    (batch, rows, columns), values = a._parts
    result = b.new_zeros(a.shape[0] * a.shape[1], b.shape[2])
    result = result.index_add(0, batch * a.shape[1] + rows, values[:, None] * b[batch, columns])
    return result.view(a.shape[0], a.shape[1], b.shape[2])


def _zeros_like(x, *, dtype=None, **kwargs):
    indices, values = x._parts
    return _made(indices[:, :0], values.detach()[:0].to(values.dtype if dtype is None else dtype), x.shape, True)


def _numpy(x, *args, **kwargs):
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


_OPERATORS.update({
    "mul": _product, "rmul": _product, "multiply": _product, "cat": _cat, "concat": _cat,
    "stack": _stack, "unsqueeze": _unsqueeze, "select": _select, "getitem": _get_item,
    "index_select": _index_select, "addmm": _addmm, "bmm": _bmm, "zeros_like": _zeros_like,
    "is_same_size": lambda a, b: a.shape == b.shape, })
SparseTensor.numpy = _numpy  # a method that does not ask ``__torch_function__``


class check_sparse_tensor_invariants:  # noqa: N801
    """Whether parts of sparse tensors are checked: here they always are, and what is asked for is
    remembered only. A ``with`` block or a decorator changes it for a while."""

    _enabled = False

    def __init__(self, enable=True):
        self._wanted, self._before = enable, None

    @classmethod
    def is_enabled(cls):
        """Whether checks were asked for."""
        return check_sparse_tensor_invariants._enabled

    @classmethod
    def enable(cls):
        """Asks for checks."""
        check_sparse_tensor_invariants._enabled = True

    @classmethod
    def disable(cls):
        """Asks for no checks."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self):
        if self._before is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self._before = self.is_enabled()
        check_sparse_tensor_invariants._enabled = self._wanted

    def __exit__(self, *exception):
        check_sparse_tensor_invariants._enabled, self._before = self._before, None

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return checked


class _SparseType(type):
    """The class of ``torch.sparse.FloatTensor`` and its like."""

    def __call__(cls, *args, **kwargs):
        dtype = cls.dtype
        if len(args) >= 2 and isinstance(args[0], Tensor):
            if args[1].dtype != dtype:
                raise TypeError(f"expected {dtype} (got {args[1].dtype})")
            return sparse_coo_tensor(*args, **kwargs)
        sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return sparse_coo_tensor(size=tuple(sizes) or (0,), indices=(), dtype=dtype)

    def __instancecheck__(cls, instance):
        return isinstance(instance, SparseTensor) and instance.dtype == cls.dtype

    def __repr__(cls):
        return f"<class 'torch.sparse.{cls.__name__}'>"


def _classes():
    from corten import _legacy

    made = {}
    for kind, name in _legacy._KINDS.items():
        if kind != "Bool" and not kind.startswith("Complex"):
            members = {"dtype": getattr(corten, name), "is_sparse": True, "__module__": "corten.sparse"}
            made[f"{kind}Tensor"] = _SparseType(f"{kind}Tensor", (), members)
    return made


CLASSES = _classes()
__all__ = ["check_sparse_tensor_invariants", "log_softmax", "softmax"]
