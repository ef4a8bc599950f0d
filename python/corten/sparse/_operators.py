"""More operators of sparse tensors: products of elements, joining, choosing, softmax."""

from __future__ import annotations

import corten
from corten._C import Tensor
from corten._utils import wrap_dim

from ._arithmetic import _scaled, _with_values
from ._coordinate import _conj, _dense, _mm, sparse_coo_tensor
from ._entries import OPERATORS as _OPERATORS, SparseTensor, _coalesce, _for_sums, _made, _shell, recorded
from ._entries import _flat as _places


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
    return _of_both(a, b)


def _met(a, b):
    """The products of the elements where both have entries."""
    # Entries of one place are added up in the dtype of the product.
    common = corten.promote_types(a.dtype, b.dtype)
    indices, values = _coalesce(_with_values(lambda held: held.to(common))(a))._held
    if not isinstance(b, SparseTensor):
        return _shell(indices, values * b[tuple(indices)], a.shape, True)
    others, factors = _coalesce(_with_values(lambda held: held.to(common))(b))._held
    if others.size(0) != indices.size(0):
        raise RuntimeError("mul(sparse, sparse): the numbers of sparse dimensions must be the same")
    mine, theirs = _places(indices, a.shape), _places(others, a.shape)
    at = corten.searchsorted(theirs, mine).clamp(max=max(theirs.numel() - 1, 0))
    if theirs.numel() == 0:
        return _shell(indices[:, :0], values[:0] * factors.new_ones(()), a.shape, True)
    both = theirs[at] == mine
    return _shell(indices[:, both], values[both] * factors[at[both]], a.shape, True)


def _times(grad, factor):
    """A gradient, dense or sparse, times a factor, dense or sparse."""
    return corten.mul(grad, factor.conj() if factor.is_complex() else factor)


_of_both = recorded(
    "Mul", _met,
    lambda grad, a, b: (
        _times(grad, b) if a.requires_grad else None,
        _times(grad, a) if b.requires_grad else None,
    ),
)


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
    return _joined(dim, *tensors)


def _behind(dim, *tensors):
    indices, start = [], 0
    for tensor in tensors:
        moved = tensor._held[0].clone()
        moved[dim] += start
        indices.append(moved)
        start += tensor.shape[dim]
    size = list(tensors[0].shape)
    size[dim] = start
    values = corten.cat([tensor._held[1] for tensor in tensors])
    return _shell(corten.cat(indices, 1), values, size, False)


def _narrow(x, dim, start, length):
    """A range of a dense or sparse tensor along a sparse dimension."""
    if not isinstance(x, SparseTensor):
        return x.narrow(dim, start, length)
    indices, values = x._parts
    kept = (indices[dim] >= start) & (indices[dim] < start + length)
    moved = indices[:, kept]
    moved[dim] -= start
    size = list(x.shape)
    size[dim] = length
    return _made(moved, values[kept], size, x._coalesced)


def _apart(grad, dim, *tensors):
    ends = [0]
    for tensor in tensors:
        ends.append(ends[-1] + tensor.shape[dim])
    return None, *(
        _narrow(grad, dim, start, tensor.shape[dim]) for start, tensor in zip(ends, tensors)
    )


_joined = recorded("Cat", _behind, _apart)


def _unsqueeze(x, dim):
    """A new dimension of size 1."""
    return _widened(x, wrap_dim(dim, x.dim() + 1))


def _with_dimension(x, dim):
    indices, values = x._held
    count = indices.size(0)
    size = [*x.shape[:dim], 1, *x.shape[dim:]]
    if dim > count:
        return _shell(indices, values.unsqueeze(dim - count + 1), size, x._coalesced)
    new = corten.zeros(1, indices.size(1), dtype=indices.dtype, device=indices.device)
    return _shell(corten.cat([indices[:dim], new, indices[dim:]]), values, size, x._coalesced)


_widened = recorded(
    "Unsqueeze", _with_dimension, lambda grad, x, dim: (grad.select(dim, 0), None)
)


def _stack(tensors, dim=0, *, out=None):
    dim = wrap_dim(dim, tensors[0].dim() + 1)
    return _cat([_unsqueeze(tensor, dim) for tensor in tensors], dim)


def _select(x, dim, index):
    """One slice along a dimension; dense where no sparse dimension is left."""
    dim = wrap_dim(dim, x.dim())
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(x.shape)} at dimension "
            f"{dim}"
        )
    return _slice(x, dim, int(index) % x.shape[dim])


def _chosen(x, dim, index):
    indices, values = x._held
    count, size = indices.size(0), [*x.shape[:dim], *x.shape[dim + 1:]]
    if dim >= count:
        return _shell(indices, values.select(dim - count + 1, index), size, x._coalesced)
    kept = indices[dim] == index
    if count == 1:
        return values[kept].sum(0, dtype=values.dtype)
    rest = corten.cat([indices[:dim], indices[dim + 1:]])[:, kept]
    return _shell(rest, values[kept], size, x._coalesced)


def _put_back(grad, x, dim, index):
    """The gradient of a slice, with zeros around it."""
    if not isinstance(grad, SparseTensor):
        return grad.new_zeros(x.shape).select_scatter(grad, dim, index), None, None
    indices, values = grad._parts
    count = x._held[0].size(0)
    if dim >= count:
        wide = values.new_zeros((values.size(0), *x.shape[count:]))
        values = wide.select_scatter(values, dim - count + 1, index)
    else:
        row = corten.full_like(indices[:1], index) if indices.size(0) else indices.new_full(
            (1, indices.size(1)), index
        )
        indices = corten.cat([indices[:dim], row, indices[dim:]])
    return _made(indices, values, x.shape, grad._coalesced), None, None


_slice = recorded("Select", _chosen, _put_back)


def _get_item(x, index):
    for one in index if isinstance(index, tuple) else (index,):
        if isinstance(one, bool) or not isinstance(one, int):
            raise NotImplementedError("sparse tensors are indexed by ints")
        x = _select(x, 0, one) if isinstance(x, SparseTensor) else x[one]
    return x


def _index_select(x, dim, index):
    """The slices of some indices along a dimension, which may come up several times."""
    dim, size = wrap_dim(dim, x.dim()), list(x.shape)
    if index.numel() and (index.lt(-size[dim]).any() or index.ge(size[dim]).any()):
        beyond = index[index.lt(-size[dim]) | index.ge(size[dim])][0].item()
        raise IndexError(
            f"index_select(): index contains {beyond} that is out of range for tensor of size {size} at "
            f"dimension {dim}"
        )
    return _slices(x, dim, index.remainder(max(size[dim], 1)))


def _picked(x, dim, index):
    indices, values = x._held
    count, size = indices.size(0), list(x.shape)
    size[dim] = index.numel()
    if dim >= count:
        return _shell(indices, values.index_select(dim - count + 1, index), size, x._coalesced)
    order = indices[dim].argsort(stable=True)
    held = indices[dim][order]
    first = corten.searchsorted(held, index)
    counts = corten.searchsorted(held, index, right=True) - first
    target = corten.arange(index.numel(), device=index.device).repeat_interleave(counts)
    before = (counts.cumsum(0) - counts).repeat_interleave(counts)
    entry = order[first.repeat_interleave(counts) + corten.arange(target.numel()) - before]
    chosen = indices[:, entry]
    chosen[dim] = target
    return _shell(chosen, values[entry], size, False)


def _scattered(grad, x, dim, index):
    """The gradient of slices: each adds to where it came from."""
    count = x._held[0].size(0)
    if not isinstance(grad, SparseTensor):
        return grad.new_zeros(x.shape).index_add(dim, index, grad), None, None
    indices, values = grad._parts
    if dim >= count:
        wide = values.new_zeros((values.size(0), *x.shape[count:]))
        values = wide.index_add(dim - count + 1, index, values)
    else:
        indices = indices.clone()
        indices[dim] = index[indices[dim]]
    return _made(indices, values, x.shape, False), None, None


_slices = recorded("IndexSelect", _picked, _scattered)


def _softmax_values(x, dim, dtype, log):
    """The entries of a softmax over those that are there."""
    indices, values = (x := _coalesce(x))._parts
    values = values if dtype is None else values.to(dtype)
    if not values.size(0):
        return _made(indices, values, x.shape, True)
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


def _permute(x, *dims):
    """The dimensions in another order."""
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    wanted = [wrap_dim(dim, x.dim()) for dim in dims]
    if sorted(wanted) != list(range(x.dim())):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
            f"of the desired ordering of dimensions i.e. input.dim() = {x.dim()} is not equal to "
            f"len(dims) = {len(wanted)}"
        )
    now = list(range(x.dim()))
    for place, dim in enumerate(wanted):
        other = now.index(dim)
        if other != place:
            now[place], now[other] = now[other], now[place]
            x = x.transpose(place, other)
    return x


def _linear(input, weight, bias=None):
    if isinstance(input, SparseTensor):
        made = _mm(input, weight.t())
    else:
        rows = input.reshape(-1, input.shape[-1])
        made = _mm(rows, weight.t()).reshape(*input.shape[:-1], weight.shape[0])
    return made if bias is None else made + bias


def _bmm(a, b, *, out=None):
    """Products of the matrices of a sparse and a dense tensor."""
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        raise NotImplementedError("bmm of a dense and a sparse tensor")
    if a.dim() != 3 or b.dim() != 3 or a._parts[0].size(0) != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(f"bmm: the sizes {list(a.shape)} and {list(b.shape)} do not fit")
    return _matrices(a, b)


def _by_matrices(a, b):
    (batch, rows, columns), values = a._held
    values, kind, b = _for_sums(values), b.dtype, _for_sums(b)
    result = b.new_zeros(a.shape[0] * a.shape[1], b.shape[2])
    result = result.index_add(0, batch * a.shape[1] + rows, values[:, None] * b[batch, columns])
    return result.view(a.shape[0], a.shape[1], b.shape[2]).to(kind)


_matrices = recorded(
    "Bmm", _by_matrices,
    lambda grad, a, b: (
        corten.bmm(_dense(grad), b.mH) if a.requires_grad else None,
        _matrices(_conj(a.transpose(1, 2)), _dense(grad)) if b.requires_grad else None,
    ),
)


def _zeros_like(x, *, dtype=None, **kwargs):
    indices, values = x._held
    return _shell(indices[:, :0], values[:0].to(values.dtype if dtype is None else dtype), x.shape, True)


def _numpy(x, *args, **kwargs):
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


_OPERATORS.update({
    "mul": _product, "rmul": _product, "multiply": _product, "cat": _cat, "concat": _cat,
    "stack": _stack, "unsqueeze": _unsqueeze, "select": _select, "getitem": _get_item,
    "index_select": _index_select, "permute": _permute, "linear": _linear, "addmm": _addmm, "bmm": _bmm, "zeros_like": _zeros_like,
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


_WARNED = set()  # what calls of the classes warn of, once for each way to call them


def _warn_about_class(args):
    import warnings

    given, instead = "()", "(0,), dtype="
    if len(args) >= 2 and isinstance(args[0], Tensor):
        shape = ", shape" if len(args) > 2 else ""
        given = f"(indices, values{shape}, *, device=)"
        instead = f"indices, values{shape}, dtype=, device="
    elif args:
        given, instead = "(shape, *, device=)", "shape, dtype=, device="
    if given in _WARNED and not corten.is_warn_always_enabled():
        return
    _WARNED.add(given)
    warnings.warn(
        f"torch.sparse.SparseTensor{given} is deprecated.  Please use "
        f"torch.sparse_coo_tensor({instead}).", stacklevel=3,
    )


class _SparseType(type):
    """The class of ``torch.sparse.FloatTensor`` and its like."""

    def __call__(cls, *args, **kwargs):
        dtype = cls.dtype
        _warn_about_class(args)
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
