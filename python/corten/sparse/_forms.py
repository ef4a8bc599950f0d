"""Other forms of sparse tensors: copies, shapes, ranges, tensors like them, and diagonals."""

from __future__ import annotations

import corten
from corten import _C
from corten._C import Tensor
from corten._utils import wrap_dim

from ._arithmetic import _kind
from ._coordinate import _transposed, sparse_coo_tensor
from ._entries import OPERATORS, SparseTensor, _coalesce, _made, _shell, before
from ._factories import compressed_with_dims
from ._resize import check_growth, resize_as_sparse_
from ._operators import _narrow, _unsqueeze
from ._pointwise import replaced, written


def _copy(self, src, non_blocking=False):
    """Takes over the entries, and the size, of another sparse tensor."""
    if not isinstance(self, SparseTensor) or not isinstance(src, SparseTensor):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{self.type()} and src type = {src.type()}"
        )
    if self is src:
        return self
    before(self)  # refuses leaves
    if self._nnz():
        check_growth(self, tuple(src.shape), src.sparse_dim(), src.dense_dim())
    same = src.dtype == self.dtype and src.device == self.device
    return replaced(self, src.clone() if same else src.to(self.device, self.dtype))


def _resize_as(self, the_template, *, memory_format=None):
    return resize_as_sparse_(self, the_template)


def _narrow_copy(x, dim, start, length):
    """A range along a sparse or a dense dimension."""
    if not 0 <= dim < x.dim():
        raise RuntimeError(f"Dimension {dim} out of range. Expecting 0 <= dim < {x.dim()}.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if start < 0 or start + length > x.shape[dim]:
        raise RuntimeError(
            "Invalid range to narrow. range(start, start+length) must be a subset of range(0, "
            f"{x.shape[dim]})."
        )
    count = x._held[0].size(0)
    if dim < count:
        return _narrow(x, dim, start, length)
    indices, values = x._parts
    size = list(x.shape)
    size[dim] = length
    return _made(indices, values.narrow(dim - count + 1, start, length), size, x._coalesced)


def _transposed_sparse(x, dim0, dim1):
    count = x._held[0].size(0)
    a, b = wrap_dim(dim0, x.dim()), wrap_dim(dim1, x.dim())
    if a != b and (a < count) != (b < count):
        raise RuntimeError(
            "sparse transpose: transposed dimensions must be sparse Got sparse_dim: "
            f"{count}, d0: {a}, d1: {b}"
        )
    return _transposed(x, a, b)


def _turned(x):
    """All dimensions in reverse order."""
    return x.permute(*reversed(range(x.dim())))


def _matrix_turned(x):
    """The last two dimensions exchanged."""
    if x.dim() < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {x.dim()}-D tensor."
        )
    return x.transpose(-2, -1)


def _adjoint(x):
    """The conjugate with the last two dimensions exchanged."""
    if x.dim() < 2:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got "
            f"{x.dim()}-D tensor."
        )
    return _matrix_turned(x).conj() if x.is_complex() else _matrix_turned(x)


def _matrix_adjoint(x):
    if x.dim() not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {x.dim()}-D tensor."
        )
    return _adjoint(x) if x.dim() else x


def _transpose_in_place(x, dim0, dim1):
    return replaced(x, _transposed_sparse(before(x), dim0, dim1))


def _turn_in_place(x):
    sparse, dense = x.sparse_dim(), x.dense_dim()
    if sparse > 2 or dense:
        raise RuntimeError(
            f"t_() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse} sparse "
            f"and {dense} dense dimensions"
        )
    return _transpose_in_place(x, 0, 1) if sparse == 2 else x


def _permuted(x, *given, dims=None):
    """The dimensions in another order, sparse and dense ones among themselves."""
    dims = given if dims is None else (dims,)
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if len(dims) != x.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
            f"of the desired ordering of dimensions i.e. input.dim() = {x.dim()} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    wanted, count = [wrap_dim(dim, x.dim()) for dim in dims], x.sparse_dim()
    if len(set(wanted)) != len(wanted):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if any((place < count) != (dim < count) for place, dim in enumerate(wanted)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed."
            "Only transpositions within sparse and dense dimensions are supported."
        )
    indices, values = x._parts
    values = values.permute(0, *(dim - count + 1 for dim in wanted[count:]))
    # Entries stay coalesced where the caller names the first dimension 0: then they are ordered anew.
    coalesced, ordered = x._coalesced and tuple(dims[:1]) == (0,), wanted[:count] == list(range(count))
    made = _made(
        indices if ordered else indices[wanted[:count]], values, [x.shape[dim] for dim in wanted],
        coalesced and ordered,
    )
    return _coalesce(made) if coalesced else made


def _check_joined(tensors, dim):
    first, count = tensors[0], tensors[0].sparse_dim()
    rest = [size for place, size in enumerate(first.shape) if place != dim]
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, SparseTensor):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {position}."
            )
        if tensor.dim() != first.dim() or rest != [
            size for place, size in enumerate(tensor.shape) if place != dim
        ]:
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the "
                f"concatenating dimension), but found shape: {list(tensor.shape)} at position "
                f"{position}."
            )
        if tensor.sparse_dim() != count:
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {count}, "
                f"{first.dense_dim()}, but tensor at position {position} has {tensor.sparse_dim()}, "
                f"{tensor.dense_dim()}."
            )


def _joined(tensors, dim=0, *, out=None):
    """Sparse tensors one behind the other."""
    tensors = list(tensors)
    if not isinstance(tensors[0], SparseTensor):
        raise NotImplementedError("cat: a dense tensor before sparse ones")
    dim = wrap_dim(dim, tensors[0].dim())
    _check_joined(tensors, dim)
    if dim < tensors[0].sparse_dim():
        return written(out, _along_sparse(tensors, dim))
    place, start, indices, values = dim - tensors[0].sparse_dim() + 1, 0, [], []
    total = sum(tensor.shape[dim] for tensor in tensors)
    for tensor in tensors:
        mine, entries = tensor._parts
        before = list(entries.shape)
        before[place] = start
        after = list(entries.shape)
        after[place] = total - start - entries.shape[place]
        indices.append(mine)
        values.append(corten.cat(
            [entries.new_zeros(before), entries, entries.new_zeros(after)], place
        ))
        start += tensor.shape[dim]
    size = list(tensors[0].shape)
    size[dim] = total
    return written(out, _made(corten.cat(indices, 1), corten.cat(values), size, False))


_along_sparse = OPERATORS["cat"]


def _like(x, size, dtype, device, layout):
    """A tensor without entries: as many dense dimensions only for the same size."""
    if layout not in (None, _C.sparse_coo):
        return corten.empty(tuple(size), dtype=dtype or x.dtype, layout=layout, device=device)
    device = x.device if device is None else corten.device(device)
    dense = x.dense_dim() if tuple(size) == tuple(x.shape) else 0
    sparse = len(size) - dense
    indices = corten.empty((sparse, 0), dtype=corten.int64, device=device)
    values = corten.empty((0, *size[sparse:]), dtype=dtype or x.dtype, device=device)
    return _shell(indices, values, size, True)


def _like_factory(x, *, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False,
                  memory_format=None):
    if memory_format is not None and layout != _C.strided:
        raise RuntimeError("memory format option is only supported by strided tensors")
    return _like(x, tuple(x.shape), dtype, device, layout).requires_grad_(requires_grad)


def _zeros_like(x, *, layout=None, **options):
    if layout == _C.strided:
        dtype, device = options.get("dtype") or x.dtype, options.get("device")
        return corten.zeros(tuple(x.shape), dtype=dtype, device=device)
    if layout not in (None, _C.sparse_coo):
        return compressed_with_dims(
            0, x.dense_dim(), tuple(x.shape), (), corten.int64, dtype=options.get("dtype") or x.dtype,
            layout=layout, device=options.get("device") or x.device,
        ).requires_grad_(options.get("requires_grad", False))
    return _like_factory(x, layout=layout, **options)


def _sizes(size):
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


def _new(x, *size, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    size = _sizes(size)
    made = _like(x, size, dtype, device, layout)
    if made.layout == _C.sparse_coo and made.dense_dim():
        indices = made._held[0].new_empty((len(size), 0))
        made = _shell(indices, made._held[1].new_empty((0,)), size, True)
    return made.requires_grad_(requires_grad)


def _legacy_new(x, *args, device=None):
    """``tensor.new(indices, values, size)`` and ``tensor.new(sizes…)``."""
    if device is not None and corten.device(device).type != x.device.type:
        raise RuntimeError(
            f"legacy constructor expects device type: {x.device.type} but device type: "
            f"{corten.device(device).type} was passed"
        )
    if len(args) >= 2 and isinstance(args[0], Tensor):
        return sparse_coo_tensor(*args, dtype=x.dtype)
    if args and not isinstance(args[0], (int, _C.Size)):
        raise TypeError(
            "SparseTensor.new(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() or "
            "construct a strided tensor and convert it to sparse via to_sparse."
        )
    return _new(x, *(args or (0,)))


def _emptied(*size, out=None, **options):
    """``empty`` and ``zeros`` whose output is sparse."""
    size = _sizes(size)
    return replaced(out, _new(out, size)).requires_grad_(options.get("requires_grad", False))


def _refuses_full(*args, **options):
    raise RuntimeError("full(...) is not implemented for sparse layout")


def _spread(x, size):
    """A sparse tensor broadcast to a larger size: an entry for each place that shows it."""
    size, lead = tuple(size), len(size) - x.dim()
    if lead < 0:
        raise RuntimeError("the requested broadcast shape has fewer dimensions than the input")
    for dim, (length, wanted) in enumerate(zip(x.shape, size[lead:])):
        if length not in (1, wanted):
            raise RuntimeError(
                f"The input's length {length} at dimension {dim} does not broadcast over the requested "
                f"shape of length {wanted} at dimension {dim + lead}"
            )
    if size == tuple(x.shape):
        return x
    indices, values = x._parts
    count = indices.size(0)
    dims = [dim for dim in range(lead + count) if dim < lead or x.shape[dim - lead] != size[dim]]
    copies = 1
    for dim in dims:
        copies *= size[dim]
    grid = corten.ones([size[dim] for dim in dims], dtype=corten.bool).nonzero().t()
    rows, entries = [], indices.size(1)
    for dim in range(lead + count):
        if dim in dims:
            rows.append(grid[dims.index(dim)].repeat(entries))
        else:
            rows.append(indices[dim - lead].repeat_interleave(copies))
    values = values.expand(entries, *size[lead + count:]).repeat_interleave(copies, 0)
    made = corten.stack(rows) if rows else indices
    ordered = x._coalesced and (not lead or entries < 2 or copies == 1)
    return _made(made, values, size, ordered and len(dims) == lead)


def _product(a, b, *, out=None):
    """The product of the elements; a dense factor broadcasts."""
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        if a.dim() == 0 or b.dim() == 0:
            # Of two numbers the one with fewer entries is the factor.
            if b.dim() or a.dim() == 0 and a._nnz() < b._nnz():
                a, b = b, a
            a = a.to(corten.promote_types(a.dtype, b.dtype)) if a.dim() == 0 else a
            return written(out, OPERATORS["mul"](a, b.to_dense()))
        if a.shape != b.shape and a.dim() == b.dim() and a.sparse_dim() == b.sparse_dim():
            size = corten.broadcast_shapes(a.shape, b.shape)
            if size[:a.sparse_dim()] == a.shape[:a.sparse_dim()] == b.shape[:a.sparse_dim()]:
                a, b = _spread(a, size), _spread(b, size)
    elif isinstance(a, Tensor) and isinstance(b, Tensor) and (b if isinstance(a, SparseTensor) else a).dim():
        x, dense = (a, b) if isinstance(a, SparseTensor) else (b, a)
        size = corten.broadcast_shapes(x.shape, dense.shape)
        a, b = _spread(x, size), dense.expand(size)
    return written(out, _of_elements(a, b))


_of_elements = OPERATORS["mul"]


def spdiags(diagonals, offsets, shape, layout=None):
    """The sparse matrix of this shape with the rows of ``diagonals`` as its diagonals, each as far from
    the main one as ``offsets`` says.

    Raises:
        RuntimeError: The arguments do not fit together.
    """
    diagonals = diagonals[None] if diagonals.dim() == 1 else diagonals
    _check_diagonals(diagonals, offsets, shape, layout)
    offsets, (height, width) = offsets.reshape(-1).tolist(), shape
    rows, columns, values = [], [], []
    for line, offset in zip(diagonals, offsets):
        first, last = max(offset, 0), min(width, height + offset, line.numel())
        place = corten.arange(first, max(last, first), device=line.device)
        columns.append(place)
        rows.append(place - offset)
        values.append(line[place])
    if not rows:
        return corten.zeros((height, width), dtype=diagonals.dtype, layout=layout or _C.sparse_coo)
    indices = corten.stack([corten.cat(rows), corten.cat(columns)])
    made = _made(indices, corten.cat(values), (height, width), len(offsets) == 1)
    return made if layout in (None, _C.sparse_coo) else made.to_sparse(layout=layout)


def _check_diagonals(diagonals, offsets, shape, layout):
    from ._compressed import NAMES

    if diagonals.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if offsets.dim() > 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if diagonals.size(0) != offsets.numel():
        raise RuntimeError(
            f"Number of diagonals ({diagonals.size(0)}) does not match the number of offsets "
            f"({offsets.numel()})"
        )
    if layout not in (None, _C.sparse_coo, _C.sparse_csc, _C.sparse_csr):
        raise RuntimeError(
            "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got "
            f"{NAMES[layout]}"
        )
    if offsets.dtype != corten.int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {_kind(offsets.dtype)}")
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    if min(shape) < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )


def _set_item(x, index, value):
    raise TypeError("Cannot assign to a sparse tensor")


def _get_item(x, index):
    if index is None:
        return _unsqueeze(x, 0)
    return _by_numbers(x, index)


_by_numbers = OPERATORS["getitem"]


def _unbound(x, dim=0):
    return tuple(x.select(dim, place) for place in range(x.shape[wrap_dim(dim, x.dim())]))


def _set_coalesced(x, flag):
    x._put(*x._held, bool(flag))
    return x


def _real(x):
    indices, values = x._parts
    return _made(indices, values.real, x.shape, x._coalesced) if x.is_complex() else x


def _item(x):
    if x.numel() != 1:
        raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    return x.to_dense().item()


def _is_nonzero(x):
    if x.numel() != 1:
        kind = "no values" if x.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
    return bool(_item(x))


def _refuses(text):
    def method(x, *args, **kwargs):
        raise RuntimeError(text)

    return method


_sparse_broadcast_to = _spread
OPERATORS.update({
    "copy_": _copy, "resize_as_": _resize_as, "resize_as_sparse_": resize_as_sparse_,
    "T": _turned, "mT": _matrix_turned, "mH": _adjoint, "adjoint": _adjoint, "H": _matrix_adjoint,
    "narrow_copy": _narrow_copy, "transpose": _transposed_sparse, "swapaxes": _transposed_sparse,
    "swapdims": _transposed_sparse, "transpose_": _transpose_in_place, "t_": _turn_in_place,
    "permute": _permuted, "cat": _joined, "concat": _joined, "concatenate": _joined,
    "empty_like": _like_factory, "zeros_like": _zeros_like, "new_empty": _new, "new_zeros": _new,
    "new": _legacy_new, "empty": _emptied, "zeros": _emptied, "full": _refuses_full,
    "mul": _product, "rmul": _product, "multiply": _product, "setitem": _set_item,
    "getitem": _get_item, "unbind": _unbound, "real": _real, "item": _item,
    "expand": _refuses("expand is unsupported for Sparse tensors"),
    "expand_as": _refuses("expand is unsupported for Sparse tensors"),
    "broadcast_to": _refuses("expand is unsupported for Sparse tensors"),
    "reshape": _refuses("reshape is not implemented for sparse tensors"),
    "flatten": _refuses("reshape is not implemented for sparse tensors"),
    "contiguous": _refuses("unsupported memory format option Contiguous"),
    "is_contiguous": lambda x, *args, **kwargs: False,
    "iter": lambda x: iter(_unbound(x)), "is_nonzero": _is_nonzero,
    "_coalesced_": _set_coalesced, "_sparse_broadcast_to": _spread,
    "_dimI": lambda x: x.sparse_dim(), "_dimV": lambda x: x.dense_dim(),
    "data_ptr": _refuses("Cannot access data pointer of Tensor that doesn't have storage"),
    "tolist": _refuses("Cannot access data pointer of Tensor that doesn't have storage"),
})
for _name in ("copy_", "resize_as_", "new_empty", "new_zeros", "new", "contiguous", "is_contiguous",
              "_coalesced_", "_dimI", "_dimV", "data_ptr", "tolist", "item", "expand"):
    setattr(SparseTensor, _name, OPERATORS[_name])
del _name
SparseTensor.real = property(_real)
SparseTensor.T, SparseTensor.mT = property(_turned), property(_matrix_turned)
SparseTensor.H, SparseTensor.mH = property(_matrix_adjoint), property(_adjoint)
