"""``SparseTensor``: indices and values of the entries that are not zero.

It is a tensor without memory of its own, of which the operators below are defined by the dense
operators on its two parts, so that gradients reach the values. Other operators are refused.
"""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor


class SparseTensor(Tensor):
    """A tensor in coordinate format: ``indices`` of shape (sparse dimensions, entries), ``values``
    of shape (entries, dense dimensions…). The same place may come up several times until
    :meth:`coalesce`."""

    @property
    def requires_grad(self):
        """Whether the values require a gradient."""
        return self._parts[1].requires_grad

    def __repr__(self, *, tensor_contents=None):
        indices, values = self._parts
        return (
            f"tensor(indices={_indented(indices, 15)},\n       values={_indented(values, 14)},\n"
            f"       size={tuple(self.shape)}, nnz={indices.size(1)}{_suffixes(self)})"
        )

    __hash__ = Tensor.__hash__

    def _nnz(self):
        """How many entries there are."""
        return self._parts[0].size(1)

    def _indices(self):
        """The places of the entries, whether they differ or not."""
        return self._parts[0]

    def _values(self):
        """The entries."""
        return self._parts[1]

    def __reduce_ex__(self, protocol):
        from corten import _utils

        return _utils.reduce_tensor(self)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        kwargs = kwargs or {}
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
            if name in ("shape", "dtype", "ndim", "grad_fn", "is_leaf", "grad", "is_quantized"):
                with _C_plain():
                    return func(*args, **kwargs)
        found = _OPERATORS.get(name.strip("_") if name.startswith("__") else name)
        if found is None:
            raise NotImplementedError(f"{name} is not implemented for sparse tensors")
        return found(*args, **kwargs)


class _C_plain:
    """A block in which the methods of dense tensors are meant."""

    def __enter__(self):
        self._before = _C._torch_function_state()
        _C._set_torch_function_state(2)

    def __exit__(self, kind, value, traceback):
        _C._set_torch_function_state(self._before)


def _indented(tensor, width):
    """A part as it is printed, without its dtype and history: the whole says those."""
    text = repr(tensor.detach())
    for suffix in (f", dtype={tensor.dtype}", f", device='{tensor.device}'"):
        text = text.replace(suffix, "")
    return text.replace("\n", "\n" + " " * width)


def _suffixes(x):
    values = x._parts[1]
    text = "" if x.device.type == "cpu" else f", device='{x.device}'"
    if x.dtype not in (corten.get_default_dtype(), corten.int64, corten.bool):
        text += f", dtype={x.dtype}"
    text += f", layout={x.layout}"
    if values.grad_fn is not None:
        return f"{text}, grad_fn=<{values.grad_fn.name()}>"
    return f"{text}, requires_grad=True" if values.requires_grad else text


def _made(indices, values, size, coalesced):
    made = Tensor._make_shell(
        SparseTensor, tuple(size), dtype=values.dtype, layout=_C.sparse_coo, device=values.device
    )
    made._parts = indices, values
    made._coalesced = coalesced
    return made


def sparse_coo_tensor(indices, values=None, size=None, *, dtype=None, device=None, pin_memory=False,
                      requires_grad=False, check_invariants=None, is_coalesced=None):
    """A tensor of the entries ``values`` at ``indices``, of shape (dimensions, entries).

    Raises:
        RuntimeError: The parts do not fit together, or an index lies outside.
    """
    if values is None:  # a tensor of zeros, of the size that is given alone
        size = tuple(indices) if size is None else tuple(size)
        indices = corten.empty((len(size), 0), dtype=corten.int64, device=device)
        values = corten.empty((0,), dtype=dtype, device=device)
    indices = corten.as_tensor(indices, device=device).to(corten.int64)
    values = corten.as_tensor(values, dtype=dtype, device=device)
    _check_entries(indices, values)
    if size is None:
        reach = indices.max(1).values + 1 if indices.size(1) else indices.new_zeros(indices.size(0))
        size = (*reach.tolist(), *values.shape[1:])
    size = tuple(size)
    _check_size(indices, values, size)
    if requires_grad:
        values = values.detach().requires_grad_()
    return _made(indices, values, size, bool(is_coalesced))


def check(indices, values, size, coalesced):
    """That four parts make a sparse tensor.

    Raises:
        RuntimeError: They do not.
    """
    if indices.dtype != corten.int64:
        raise RuntimeError(f"indices must be an int64 tensor, but got {indices.dtype}")
    _check_entries(indices, values)
    _check_size(indices, values, size)
    if coalesced and indices.size(1) > 1 and not _ordered(indices):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        )


def _ordered(indices):
    """Whether every place comes after the one before it."""
    less, equal = corten.zeros(indices.size(1) - 1, dtype=corten.bool), True
    for row in indices:
        less = less | (equal & (row[:-1] < row[1:]))
        equal = equal & (row[:-1] == row[1:])
    return bool(less.all())


def _check_entries(indices, values):
    if indices.dim() != 2:
        raise RuntimeError(
            f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}"
        )
    if values.dim() < 1 or values.size(0) != indices.size(1):
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.size(1)}, "
            f"nnz from values: {values.size(0) if values.dim() else 1}"
        )


def _check_size(indices, values, size):
    if len(size) != indices.size(0) + values.dim() - 1:
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({indices.size(0)}) + dense_dim "
            f"({values.dim() - 1}), but got {len(size)}"
        )
    if tuple(values.shape[1:]) != size[indices.size(0):]:
        expected = [values.size(0), *size[indices.size(0):]]
        raise RuntimeError(
            f"values has incorrect size, expected {expected}, got {list(values.shape)}"
        )
    limits = corten.tensor(size[:indices.size(0)], dtype=corten.int64, device=indices.device)
    if indices.numel() and (indices.lt(0).any() or indices.ge(limits[:, None]).any()):
        raise RuntimeError(f"an index lies outside of the size {list(size)}")


def to_sparse(dense, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The entries of a dense tensor that are not zero.

    With ``layout`` in another sparse layout.
    """
    if layout is not None and not isinstance(layout, type(_C.strided)):
        raise TypeError(
            f"to_sparse(): argument 'layout' must be torch.layout, not {type(layout).__name__}"
        )
    if layout not in (None, _C.sparse_coo, _C.strided):
        from ._layouts import to_layout

        if sparse_dim is not None:
            raise TypeError("to_sparse() takes 0 positional arguments but 1 was given")
        return to_layout(dense, layout, blocksize, dense_dim)
    if isinstance(dense, SparseTensor) or layout == _C.strided:
        return dense
    count = dense.dim() if sparse_dim is None else sparse_dim
    rest = tuple(range(count, dense.dim()))
    filled = (dense != 0).any(rest) if rest else dense != 0
    indices = filled.nonzero().t().contiguous()
    values = dense[tuple(indices)] if count else dense.expand(indices.size(1), *dense.shape)
    return _made(indices, values, dense.shape, True)


def _to_dense(x, dtype=None, *, masked_grad=None):
    indices, values = x._parts
    if indices.size(0) == 0:
        dense = values.sum(0, dtype=values.dtype)
        return dense if dtype is None else dense.to(dtype)
    dense = values.new_zeros(tuple(x.shape))
    dense = dense.index_put(tuple(indices), values, accumulate=True)
    return dense if dtype is None else dense.to(dtype)


def _coalesce(x):
    if x._coalesced:
        return x
    indices, values = x._parts
    flat = corten.zeros(indices.size(1), dtype=corten.int64, device=indices.device)
    for row, size in zip(indices, x.shape):
        flat = flat * size + row
    places, inverse = corten.unique(flat, return_inverse=True)
    summed = values.new_zeros((places.numel(), *values.shape[1:])).index_add(0, inverse, values)
    if indices.size(0) == 0:
        return _made(indices[:, :places.numel()], summed, x.shape, True)
    rows = []
    for size in reversed(tuple(x.shape)[:indices.size(0)]):
        rows.append(places % size)
        places = places.div(size, rounding_mode="floor")
    return _made(corten.stack(rows[::-1]), summed, x.shape, True)


def _of_coalesced(place, name):
    def part(x):
        if not x._coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )
        return x._parts[place]

    return part


def _mm(a, b, *, out=None):
    """Rows of ``b`` times the values, added up by the rows of ``a``."""
    if isinstance(b, SparseTensor):
        if isinstance(a, SparseTensor):
            return to_sparse(_mm(a, _to_dense(b)))
        return _mm(_transposed(b), a.t()).t()
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError("matrices expected, got "
                           f"{a.dim()}D, {b.dim()}D tensors")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    (rows, columns), values = a._parts
    result = b.new_zeros(a.shape[0], b.shape[1])
    return result.index_add(0, rows, values[:, None] * b[columns])


def _matmul(a, b, *, out=None):
    if b.dim() == 1:
        return _mm(a, b[:, None])[:, 0]
    return _mm(a, b)


def _transposed(x, dim0=0, dim1=1):
    indices, values = x._parts
    order = list(range(indices.size(0)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    size = [x.shape[d] for d in order] + list(x.shape[len(order):])
    return _made(indices[order], values, size, False)


def _matrix_transposed(x):
    sparse, dense = x._parts[0].size(0), x._parts[1].dim() - 1
    if sparse > 2 or dense:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse} sparse "
            f"and {dense} dense dimensions"
        )
    return _transposed(x) if sparse == 2 else x


def _with_values(change):
    def operator(x, *args, **kwargs):
        indices, values = x._parts
        return _made(indices, change(values, *args, **kwargs), x.shape, x._coalesced)

    return operator


def _scaled(a, b):
    """A product with a number."""
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if isinstance(b, Tensor) and b.dim():
        raise NotImplementedError("products of elements are not implemented for sparse tensors")
    return _with_values(lambda values: values * b)(a)


def _added(a, b, *, alpha=1):
    """A sum of two sparse tensors is sparse, of a dense and a sparse one dense."""
    if not isinstance(a, SparseTensor):
        return a + alpha * _to_dense(b)
    if not isinstance(b, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )
    indices = corten.cat([a._parts[0], b._parts[0]], 1)
    return _made(indices, corten.cat([a._parts[1], alpha * b._parts[1]]), a.shape, False)


def _add_in_place(a, b, *, alpha=1):
    """Adds a sparse tensor to a dense one, or to a sparse one."""
    if isinstance(a, SparseTensor):
        return _become(a, _added(a, b, alpha=alpha))
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(a.shape)} while other has size {list(b.shape)} (FYI: dense-sparse addition "
            "does not currently support broadcasting)"
        )
    indices, values = b._parts
    if indices.size(0) == 0:
        return a.add_(values.sum(0), alpha=alpha)
    return a.index_put_(tuple(indices), (values * alpha).to(a.dtype), accumulate=True)


def _in_place(name):
    """An operator whose result takes the place of its first operand."""

    def operator(x, *args, **kwargs):
        return _become(x, _OPERATORS[name](x, *args, **kwargs))

    return operator


def _become(x, other):
    """Makes a sparse tensor hold the parts of another one."""
    x._parts, x._coalesced = other._parts, other._coalesced
    return x


def _zero(x):
    indices, values = x._parts
    return _become(x, _made(indices[:, :0], values[:0], x.shape, True))


def _sparse_mask(dense, mask):
    """The entries of ``dense`` at the places that ``mask`` has."""
    from ._compressed import CompressedTensor

    if isinstance(mask, CompressedTensor):
        from ._compressed_operators import sparse_mask

        return sparse_mask(dense, mask)
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask(): the mask must be a sparse tensor")
    if dense.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(dense.shape)} "
            f"but mask has size {list(mask.shape)}"
        )
    mask = _coalesce(mask)
    if isinstance(dense, SparseTensor):
        dense = _to_dense(dense)
    indices = mask._parts[0]
    values = dense[tuple(indices)] if indices.size(0) else dense.expand(indices.size(1), *dense.shape)
    return _made(indices, values.clone(), mask.shape, True)


def _of_entries(name):
    """An operator that keeps zero zero, on the entries: repeated places are added up first."""

    def operator(x, *args, **kwargs):
        x = _coalesce(x)
        indices, values = x._parts
        return _made(indices, getattr(values, name)(*args, **kwargs), x.shape, True)

    return operator


def _power(x, exponent):
    if isinstance(exponent, Tensor) or exponent <= 0:
        raise NotImplementedError("powers of sparse tensors have a positive number as exponent")
    return _of_entries("pow")(x, exponent)


def _to(x, *args, **kwargs):
    indices, values = x._parts
    values = values.to(*args, **kwargs)
    return _made(indices.to(values.device), values, x.shape, x._coalesced)


def _plain(name):
    """A question about the shape, answered by the shell."""

    def operator(x, *args, **kwargs):
        with _C_plain():
            return getattr(Tensor, name)(x, *args, **kwargs)

    return operator


_OPERATORS = {
    "to_dense": _to_dense, "coalesce": _coalesce, "is_coalesced": lambda x: x._coalesced,
    "indices": _of_coalesced(0, "indices"), "values": _of_coalesced(1, "values"),
    "sparse_dim": lambda x: x._parts[0].size(0),
    "dense_dim": lambda x: x._parts[1].dim() - 1, "to_sparse": to_sparse,
    "to_sparse_coo": lambda x: x,
    "mm": _mm, "spmm": _mm, "smm": _mm, "matmul": _matmul, "mv": _matmul,
    "rmatmul": lambda a, b: _mm(b, a), "t": _matrix_transposed, "transpose": _transposed,
    "mul": _scaled, "rmul": _scaled, "div": _with_values(lambda v, other: v / other),
    "truediv": _with_values(lambda v, other: v / other), "neg": _with_values(lambda v: -v),
    "add": _added, "radd": _added, "sub": lambda a, b: _added(a, b, alpha=-1),
    "add_": _add_in_place, "iadd": _add_in_place,
    "sub_": lambda a, b, *, alpha=1: _add_in_place(a, b, alpha=-alpha),
    "isub": lambda a, b: _add_in_place(a, b, alpha=-1), "zero_": _zero,
    "sparse_mask": _sparse_mask, "pow": _power, "square": lambda x: _power(x, 2),
    **{name: _in_place(name.strip("i_")) for name in ("mul_", "div_", "neg_", "imul")},
    "itruediv": _in_place("div"), "detach_": lambda x: _become(x, _with_values(lambda v: v.detach())(x)),
    "norm": lambda x, *a, **k: _coalesce(x)._parts[1].norm(*a, **k),
    "linalg_vector_norm": lambda x, *a, **k: corten.linalg.vector_norm(_coalesce(x)._parts[1], *a, **k),
    **{name: _of_entries(name) for name in ("sqrt", "abs", "sin", "tanh", "sign", "relu", "expm1",
                                            "log1p", "floor", "ceil", "round", "trunc")},
    "to": _to, "clone": _with_values(lambda v, **k: v.clone()),
    "detach": _with_values(lambda v: v.detach()), "cpu": _with_values(lambda v: v.cpu()),
    "float": _with_values(lambda v: v.float()), "double": _with_values(lambda v: v.double()),
    "type": lambda x, dtype=None: "torch.sparse.FloatTensor" if dtype is None else _to(x, dtype),
    "sum": lambda x, *a, **k: corten.sparse.sum(x, *a, **k),
    "cuda": lambda x, *a, **k: _to(x, "cuda"), "requires_grad_": lambda x, flag=True: _grad(x, flag),
    **{name: _plain(name) for name in ("size", "dim", "numel", "nelement", "is_floating_point",
                                       "is_complex", "len", "stride")},
}


def _grad(x, flag):
    x._parts[1].requires_grad_(flag)
    return x


def _attach():
    """Methods that do not ask ``__torch_function__``: those written in Python, and ``to``."""
    for name in ("to_dense", "coalesce", "is_coalesced", "indices", "values", "sparse_dim",
                 "dense_dim", "to_sparse", "smm", "to", "cpu", "cuda", "float", "double", "clone",
                 "detach", "detach_", "type", "requires_grad_", "zero_", "sparse_mask",
                 "norm", "to_sparse_coo"):
        setattr(SparseTensor, name, _OPERATORS[name])


_attach()
