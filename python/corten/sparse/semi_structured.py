"""Matrices of 2:4 sparsity, of which half of the elements is kept."""

from __future__ import annotations

import warnings
from collections import namedtuple

import corten
from corten._C import Tensor

from ._entries import _C_plain
from ._semi_structured_conversions import (
    _compute_compressed_swizzled_bitmask, _sparse_semi_structured_tile,
    sparse_semi_structured_from_dense_cutlass, sparse_semi_structured_to_dense_cutlass,
)

__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUTLASS",
    "SparseSemiStructuredTensorCUSPARSELT", "to_sparse_semi_structured",
]

_SEMI_STRUCTURED_SPARSE_CONFIG = namedtuple(
    "_SEMI_STRUCTURED_SPARSE_CONFIG", "sparse_min_rows sparse_min_cols dense_min_rows dense_min_cols"
)
_ASKED_OF_SHELL = frozenset((
    "shape", "dtype", "ndim", "grad_fn", "is_leaf", "grad", "requires_grad", "device", "_version", "layout",
    "output_nr", "is_meta", "is_cuda", "is_cpu", "itemsize", "is_sparse", "is_sparse_csr", "retains_grad",
    "size", "dim", "numel", "nelement", "ndimension", "is_floating_point", "is_complex", "element_size",
    "requires_grad_", "is_quantized", "is_mkldnn", "names", "get_device", "is_inference", "retain_grad",
    "is_same_size", "is_contiguous", "stride", "detach_",
))


class _Product(corten.autograd.Function):
    """The product of a sparse matrix and a dense one, whose gradient it passes on."""

    @staticmethod
    def forward(ctx, sparse, dense, bias, transposed):
        ctx.sparse, ctx.transposed = sparse, transposed
        return sparse._product(dense, bias, transposed)

    @staticmethod
    def backward(ctx, grad):
        matrix = ctx.sparse.to_dense()
        grad_dense = grad @ matrix if ctx.transposed else matrix.mT @ grad
        # A bias has a number for each row of the sparse matrix.
        grad_bias = grad.sum(0 if ctx.transposed else 1) if ctx.needs_input_grad[2] else None
        return None, grad_dense, grad_bias, None


class SparseSemiStructuredTensor(Tensor):
    """A matrix of which at most two of four neighbours in a row are not zero.

    It is made by :func:`to_sparse_semi_structured` and multiplies dense matrices; ``packed`` holds the
    elements that are kept, ``meta`` where they were, and ``packed_t`` and ``meta_t``, where there are
    some, the same of the transposed matrix.
    """

    _DEFAULT_ALG_ID = 0
    _DTYPE_SHAPE_CONSTRAINTS = {}
    _FORCE_CUTLASS = False
    _FUSE_TRANSPOSE = False
    _PROTOTYPE_WARNING_SHOWN = False
    _of_parts = True
    BACKEND = ""
    __slots__ = ["packed", "meta", "packed_t", "meta_t", "compressed_swizzled_bitmask"]

    def __new__(
        cls, shape, packed, meta, packed_t, meta_t, compressed_swizzled_bitmask,
        fuse_transpose_cusparselt=False, alg_id_cusparselt=0, requires_grad=False,
    ):
        if not SparseSemiStructuredTensor._PROTOTYPE_WARNING_SHOWN:
            SparseSemiStructuredTensor._PROTOTYPE_WARNING_SHOWN = True
            warnings.warn(
                "The PyTorch API of SparseSemiStructuredTensor is in prototype stage and will change in "
                "the near future. Please open a Github issue for features requests and see our "
                "documentation on the torch.sparse module for further information about the project.",
                UserWarning, stacklevel=2,
            )
        held = packed if packed is not None else packed_t
        if held is None:
            raise ValueError("At least one of packed or packed_t must be provided")
        with _C_plain():
            made = Tensor._make_shell(
                cls, tuple(shape), dtype=held.dtype, layout=corten.strided, device=held.device
            )
            if requires_grad:
                Tensor.requires_grad_(made)
        made.packed, made.meta, made.packed_t, made.meta_t = packed, meta, packed_t, meta_t
        made.compressed_swizzled_bitmask = compressed_swizzled_bitmask
        made.fuse_transpose_cusparselt = fuse_transpose_cusparselt
        made.alg_id_cusparselt = alg_id_cusparselt
        return made

    def __init__(self, *args, **kwargs):
        pass

    def __repr__(self, *, tensor_contents=None):
        return f"{type(self).__name__}(shape={self.shape})"

    __hash__ = Tensor.__hash__

    def __tensor_flatten__(self):
        names = [name for name in SparseSemiStructuredTensor.__slots__ if getattr(self, name) is not None]
        return names, (
            self.shape, self.fuse_transpose_cusparselt, self.alg_id_cusparselt, self.requires_grad
        )

    @classmethod
    def __tensor_unflatten__(cls, inner_tensors, tensor_meta, outer_size, outer_stride):
        shape, fuse_transpose, alg_id, requires_grad = tensor_meta
        parts = (inner_tensors.get(name) for name in SparseSemiStructuredTensor.__slots__)
        return cls(shape, *parts, fuse_transpose, alg_id, requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "__set__"):
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if name in _ASKED_OF_SHELL:
            with _C_plain():
                return func(*args, **(kwargs or {}))
        name = name.strip("_") if name.startswith("__") else name
        found = _OPERATORS.get(name)
        if found is None:
            raise NotImplementedError(
                f"{cls.__name__} only supports a specific set of operations, can't perform requested op "
                f"({name})"
            )
        return found(*args, **(kwargs or {}))

    @classmethod
    def _validate_device_dim_dtype_shape(cls, original_tensor):
        if original_tensor.dim() != 2:
            raise RuntimeError(
                f"Error original_tensor.dim = {original_tensor.dim()} is not supported! "
                "Only 2d tensors are currently supported."
            )
        if not original_tensor.is_contiguous():
            raise RuntimeError(
                "Error original_tensor is not contiguous!Only contiguous tensors are currently supported."
            )
        if original_tensor.dtype not in cls._DTYPE_SHAPE_CONSTRAINTS:
            raise RuntimeError(
                f"Error original_tensor.dtype {original_tensor.dtype} is not a supported dtype for {cls}!"
            )
        wanted = cls._DTYPE_SHAPE_CONSTRAINTS[original_tensor.dtype]
        least = wanted.sparse_min_rows, wanted.sparse_min_cols
        if any(size < step or size % step for size, step in zip(original_tensor.shape, least)):
            raise RuntimeError(
                f"Error original_tensor.shape {original_tensor.shape} is not supported! Both dimensions "
                f"must be larger than or equal to and a multiple of ({least[0]}, {least[1]})"
            )

    @classmethod
    def from_dense(cls, original_tensor, alg_id=_DEFAULT_ALG_ID):
        """The sparse form of a matrix; each of the two classes below has its own."""
        raise NotImplementedError


    def to_dense(self, dtype=None, *, masked_grad=None):
        """The dense matrix."""
        eye = corten.eye(self.shape[-1], dtype=self.dtype, device=self.device)
        return self._product(eye, None, False).to(dtype or self.dtype)

    def _mm(self, B, *, bias=None, should_transpose_dense=False, **kwargs):  # noqa: N803
        """``self @ B``, or with ``should_transpose_dense`` ``B @ self.t()``, and a bias for each row of the
        sparse matrix."""
        name = type(self).__name__
        if isinstance(B, SparseSemiStructuredTensor):
            raise ValueError(
                "`SparseSemiStructuredTensor @ SparseSemiStructuredTensor` is not supported by the hardware"
            )
        if self.ndim != 2 or B.ndim != 2:
            raise NotImplementedError(f"`{name}` matmul: Broadcasting is not implemented")
        if self.packed is None:
            raise NotImplementedError(f"`{name}` matmul: operation is not supported")
        if B.dtype != self.dtype:
            raise NotImplementedError(
                f"`{name}` matmul: trying to do `A={tuple(self.shape)} @ B={tuple(B.shape)}`, with "
                f"A.dtype={self.dtype} and B.dtype={B.dtype}. This operation is only supported when A and "
                "B have the same data type."
            )
        if corten.is_grad_enabled() and (B.requires_grad or bias is not None and bias.requires_grad):
            return _Product.apply(self.detach(), B, bias, should_transpose_dense)
        return self._product(B, bias, should_transpose_dense)

    def _product(self, dense, bias, transposed):
        made = self._times(dense.t().contiguous() if transposed else dense, bias)
        return made.t().contiguous() if transposed else made


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """A 2:4 sparse matrix whose elements and metadata are two tensors, as CUTLASS has them."""

    BACKEND = "cutlass"
    _DTYPE_SHAPE_CONSTRAINTS = {
        corten.int8: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 128, 16, 16),
        corten.float16: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 64, 8, 8),
        corten.bfloat16: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 64, 8, 8),
        corten.float32: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 4, 4),
    }

    @classmethod
    def from_dense(cls, original_tensor, alg_id=SparseSemiStructuredTensor._DEFAULT_ALG_ID):
        """The sparse form of a matrix.

        Raises:
            RuntimeError: The matrix has another dtype, other sizes or no 2:4 sparsity.
        """
        cls._validate_device_dim_dtype_shape(original_tensor)
        packed, meta = sparse_semi_structured_from_dense_cutlass(original_tensor.detach())
        return cls(
            original_tensor.shape, packed, meta, None, None, None,
            requires_grad=original_tensor.requires_grad,
        )

    @classmethod
    def prune_dense_static_sort(cls, original_tensor, algorithm=""):
        """Keeps the greatest elements of every tile of four by four, so that the matrix and its
        transpose are 2:4 sparse, and compresses both."""
        pruned = _sparse_semi_structured_tile(original_tensor.detach().clone())
        packed = sparse_semi_structured_from_dense_cutlass(pruned)
        packed_t = sparse_semi_structured_from_dense_cutlass(pruned.t().contiguous())
        bitmask = _compute_compressed_swizzled_bitmask(pruned)
        return cls(original_tensor.shape, *packed, *packed_t, bitmask)

    def to_dense(self, dtype=None, *, masked_grad=None):
        """The dense matrix.

        Raises:
            AssertionError: Only the transposed matrix is there.
        """
        if self.meta is None or self.packed is None:
            raise AssertionError("meta and packed must not be None")
        return sparse_semi_structured_to_dense_cutlass(self.packed, self.meta).to(dtype or self.dtype)

    def _times(self, dense, bias):
        if bias is None:
            return corten._sparse_semi_structured_mm(self.packed, self.meta, dense)
        return corten._sparse_semi_structured_addmm(bias, self.packed, self.meta, dense)


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """A 2:4 sparse matrix as one tensor: the elements that are kept, then the metadata."""

    BACKEND = "cusparselt"
    _DTYPE_SHAPE_CONSTRAINTS = {
        corten.int8: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 16, 16),
        corten.float16: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 16, 8, 8),
        corten.bfloat16: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 16, 8, 8),
    }

    @classmethod
    def from_dense(cls, original_tensor, alg_id=SparseSemiStructuredTensor._DEFAULT_ALG_ID):
        """The sparse form of a matrix.

        Raises:
            RuntimeError: The matrix has another dtype, other sizes or no 2:4 sparsity.
        """
        cls._validate_device_dim_dtype_shape(original_tensor)
        return cls(
            original_tensor.shape, corten._cslt_compress(original_tensor.detach()), None, None, None, None,
            SparseSemiStructuredTensor._FUSE_TRANSPOSE, alg_id, original_tensor.requires_grad,
        )

    @classmethod
    def prune_dense_static_sort(cls, original_tensor, algorithm=""):
        """Keeps the greatest elements of every tile of four by four, so that the matrix and its
        transpose are 2:4 sparse, and compresses both."""
        pruned = _sparse_semi_structured_tile(original_tensor.detach().clone())
        rows, columns = pruned.shape
        packed = corten._cslt_compress(pruned).view(rows, -1)
        packed_t = corten._cslt_compress(pruned.t().contiguous()).view(columns, -1)
        bitmask = _compute_compressed_swizzled_bitmask(pruned)
        return cls(original_tensor.shape, packed, None, packed_t, None, bitmask)

    def _times(self, dense, bias):
        return corten._cslt_sparse_mm(self.packed, dense, bias)


def to_sparse_semi_structured(
    original_tensor, transposed=False, alg_id=SparseSemiStructuredTensor._DEFAULT_ALG_ID
):
    """A matrix of 2:4 sparsity in its sparse form, which takes little more than half of the memory.

    The dtype is ``float16``, ``bfloat16`` or ``int8``; with
    ``SparseSemiStructuredTensor._FORCE_CUTLASS`` also ``float32``, of which one of two is kept.

    Raises:
        RuntimeError: The matrix has another dtype, other sizes or no 2:4 sparsity.
    """
    if transposed:
        warnings.warn(
            "Setting transpose from `to_sparse_semi_structured` is deprecated and will be removed in a "
            "future release. `SparseSemiStructuredTensor` only support contiguous input tensors.",
            FutureWarning, stacklevel=2,
        )
    if SparseSemiStructuredTensor._FORCE_CUTLASS:
        return SparseSemiStructuredTensorCUTLASS.from_dense(original_tensor, alg_id=alg_id)
    return SparseSemiStructuredTensorCUSPARSELT.from_dense(original_tensor, alg_id=alg_id)


def _with_parts(x, shape, parts, **changes):
    options = {
        "fuse_transpose_cusparselt": x.fuse_transpose_cusparselt,
        "alg_id_cusparselt": x.alg_id_cusparselt, **changes,
    }
    return type(x)(shape, *parts, **options)


def _parts(x):
    return [getattr(x, name) for name in SparseSemiStructuredTensor.__slots__]


def _transposed(x, *dims):
    packed, meta, packed_t, meta_t, mask = _parts(x)
    mask = None if mask is None else mask.transpose(0, 1)
    return _with_parts(x, (x.shape[1], x.shape[0]), (packed_t, meta_t, packed, meta, mask))


def _matmul(a, b):
    if a.ndim != 2 or b.ndim != 2:
        raise NotImplementedError(
            "`SparseSemiStructuredTensor` matmul: Broadcasting is not implemented"
        )
    if isinstance(a, SparseSemiStructuredTensor):
        return a._mm(b)
    return b.t()._mm(a, should_transpose_dense=True)


def _addmm(bias, a, b, *, beta=1, alpha=1):
    if a.ndim != 2 or b.ndim != 2:
        raise NotImplementedError(
            "`SparseSemiStructuredTensor` matmul: Broadcasting is not implemented"
        )
    if bias.ndim != 1:
        raise NotImplementedError(
            f"`SparseSemiStructuredTensor` matmul: only bias dim=1 supported. Shape={bias.shape}"
        )
    if isinstance(a, SparseSemiStructuredTensor):
        raise NotImplementedError(
            "`SparseSemiStructuredTensor` matmul: only operand B of `addmm` can be sparse"
        )
    return b.t()._mm(a, bias=bias, should_transpose_dense=True)


def _linear(input, weight, bias=None):
    rows = input.reshape(-1, input.shape[-1])
    return weight._mm(rows, bias=bias, should_transpose_dense=True).view(*input.shape[:-1], -1)


def _values(x):
    if x.meta is not None:
        return x.packed.detach()
    rows, columns = x.shape
    return x.packed.ravel()[:rows * columns // 2].view(rows, -1)


def _indices(x):
    if x.meta is not None:
        return x.meta
    rows, columns = x.shape
    return x.packed.ravel()[rows * columns // 2:].view(rows, -1).view(corten.int16)


def _view(x, *shape):
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if shape != tuple(x.shape):
        raise NotImplementedError(
            "`view` is not implemented for SparseSemiStructuredTensor, except for the dummy case "
            f"(shape={shape})"
        )
    return x


def _cloned(x, *, memory_format=None):
    parts = [None if part is None else part.clone() for part in _parts(x)]
    return _with_parts(x, x.shape, parts, requires_grad=x.requires_grad)


def _to(x, *args, **kwargs):
    target = args[0] if args else kwargs.get("device")
    if isinstance(target, (corten.device, str)) and corten.device(target).type == "cpu":
        return x.to_dense().to(*args, **kwargs)
    raise NotImplementedError(
        f"`to()` with args={args}, kwargs={kwargs} is not implemented for SparseSemiStructuredTensor. Only "
        "`to('cpu')` is supported currently."
    )


_OPERATORS = {
    "mm": _matmul, "matmul": _matmul, "rmatmul": lambda a, b: _matmul(b, a), "addmm": _addmm,
    "linear": _linear, "t": _transposed, "T": _transposed, "values": _values, "indices": _indices,
    "view": _view, "detach": lambda x: _with_parts(x, x.shape, _parts(x)), "clone": _cloned,
    "to": _to, "cpu": lambda x: x.to_dense(), "to_dense": lambda x, *args, **kwargs: x.to_dense(*args, **kwargs),
}
# Methods that do not ask ``__torch_function__``.
for _name in ("values", "indices", "detach", "clone", "to", "cpu"):
    setattr(SparseSemiStructuredTensor, _name, _OPERATORS[_name])
del _name
