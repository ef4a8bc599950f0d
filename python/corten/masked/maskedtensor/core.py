"""``MaskedTensor``: values, and a mask that says which of them count."""

from __future__ import annotations

import warnings

import corten
from corten._C import Tensor
from corten._parts_tensor import PartsTensor

__all__ = ["MaskedTensor", "is_masked_tensor"]

_DTYPES = frozenset((
    corten.float16, corten.float32, corten.float64, corten.bool, corten.int8, corten.int16,
    corten.int32, corten.int64,
))
_SPARSE = (corten.sparse_coo, corten.sparse_csr)


def is_masked_tensor(obj, /):
    """Whether an object is a masked tensor."""
    return isinstance(obj, MaskedTensor)


class MaskedTensor(PartsTensor):
    """A tensor of ``data`` of which only the elements count where ``mask`` is true.

    Operators compute with the others as well, but reductions leave them out, and no gradient
    reaches them. Values and mask have one shape and layout: strided, ``sparse_coo`` or
    ``sparse_csr``.

    Raises:
        TypeError: One is no tensor, or of a dtype or layout that masked tensors do not have.
        ValueError: The shapes or the places of the entries differ.
    """

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        for name, given in (("data", data), ("mask", mask)):
            if is_masked_tensor(given) or not corten.is_tensor(given):
                raise TypeError(f"{name} must be a Tensor")
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning, stacklevel=2,
            )
        return _checked(cls, data.detach().clone(), mask.clone(), requires_grad)

    def __init__(self, data, mask, requires_grad=False):
        pass

    @staticmethod
    def _from_values(data, mask):
        return _checked(MaskedTensor, data.clone(), mask.clone(), False, apart=True)

    @property
    def _recorded(self):
        data = self._masked_data
        return data if data.layout == corten.strided else data._values() \
            if data.layout == corten.sparse_coo else data.values()

    @classmethod
    def _call(cls, name, func, args, kwargs):
        from ._operators import call

        return call(name, func, args, kwargs)

    @property
    def grad(self):
        """The accumulated gradient, under the same mask."""
        grad = self._recorded.grad
        if grad is None:
            return None
        return wrapped(with_entries(self._masked_data, grad), self._masked_mask)

    @grad.setter
    def grad(self, grad):
        self._recorded.grad = None if grad is None else \
            grad._recorded if is_masked_tensor(grad) else grad

    def get_data(self):
        """The values, those that do not count among them, with their history."""
        data = self._masked_data
        if data.layout != corten.strided:
            return data
        return data.view_as(data) if data.requires_grad else data.detach()

    def get_mask(self):
        """The mask."""
        return self._masked_mask

    def to_tensor(self, value):
        """A tensor with ``value`` in place of the elements that do not count."""
        return self.get_data().masked_fill(~self.get_mask(), value)

    def _set_data_mask(self, data, mask):
        _validate(data, mask)
        self._masked_data, self._masked_mask = data, mask

    def is_sparse_coo(self):
        """Whether the layout is ``sparse_coo``."""
        return self.layout == corten.sparse_coo

    def is_sparse_csr(self):
        """Whether the layout is ``sparse_csr``."""
        return self.layout == corten.sparse_csr

    @property
    def is_sparse(self):
        """Whether the layout is one of the sparse ones."""
        return self.layout in _SPARSE

    def __repr__(self, *, tensor_contents=None):
        data, mask = self._masked_data.detach(), self._masked_mask
        if self.dim() == 0:
            shown = _element(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        if self.is_sparse:
            data, mask = dense_values(data), dense_mask(mask)
        lines = _lines(data.tolist(), mask.tolist(), self.dim())
        return "MaskedTensor(\n" + _indented(lines) + "\n)"

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            if not self.is_leaf:
                raise RuntimeError(
                    "Only Tensors created explicitly by the user (graph leaves) support the "
                    "deepcopy protocol at the moment."
                )
            memo[id(self)] = MaskedTensor(
                self._masked_data.detach(), self._masked_mask, self.requires_grad
            )
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        from corten._tensor import _rebuild_from_type_v2
        from corten._utils import _rebuild_wrapper_subclass

        shell = (
            type(self), self.dtype, tuple(self.shape), tuple(self.stride()), 0, self.layout,
            self.device, self.requires_grad,
        ) if self.layout == corten.strided else (
            type(self), self.dtype, tuple(self.shape), (), 0, self.layout, self.device,
            self.requires_grad,
        )
        parts = {"_masked_data": self._masked_data.detach(), "_masked_mask": self._masked_mask}
        return _rebuild_from_type_v2, (_rebuild_wrapper_subclass, type(self), shell, parts)

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.__dict__.pop("_requires_grad_as_saved", False):
            self.requires_grad_()


def wrapped(data, mask):
    """Values with their history and a mask that fits them, as a masked tensor."""
    _validate(data, mask)
    made = Tensor._make_shell(
        MaskedTensor, tuple(data.shape), dtype=data.dtype, layout=data.layout, device=data.device
    )
    made._masked_data, made._masked_mask = data, mask
    return made


def _checked(cls, data, mask, requires_grad, apart=False):
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout in _SPARSE:
        if data.layout == corten.sparse_coo:
            data, mask = data.coalesce(), mask.coalesce()
        if data._nnz() != mask._nnz():
            data = data.to_dense().sparse_mask(mask)
    made = wrapped(data, mask)
    if apart and data.layout == corten.strided and data.requires_grad:
        made._masked_data = _Entering.apply(data, mask)
    if requires_grad:
        made.requires_grad_()
    return made if cls is MaskedTensor else _as(cls, made)


def _as(cls, made):
    other = Tensor._make_shell(
        cls, tuple(made.shape), dtype=made.dtype, layout=made.layout, device=made.device
    )
    other._masked_data, other._masked_mask = made._masked_data, made._masked_mask
    return other


class _Entering(corten.autograd.Function):
    """Values that get a mask: gradients of those that it leaves out, NaN or not, become 0."""

    @staticmethod
    def forward(ctx, data, mask):
        ctx.save_for_backward(mask)
        return data.view_as(data)

    @staticmethod
    def backward(ctx, grad):
        return corten.where(ctx.saved_tensors[0], grad, 0), None


def _validate(data, mask):
    if is_masked_tensor(data) or type(data) is not type(mask):
        raise TypeError(
            f"data and mask must have the same type. Got {type(data)} and {type(mask)}"
        )
    if data.layout not in (corten.strided, *_SPARSE):
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout == corten.sparse_coo and not equal(data.indices(), mask.indices()):
        raise ValueError(
            "data and mask are both sparse COO tensors but do not have the same indices."
        )
    if data.layout == corten.sparse_csr and not (
        equal(data.crow_indices(), mask.crow_indices())
        and equal(data.col_indices(), mask.col_indices())
    ):
        raise ValueError(
            "data and mask are both sparse CSR tensors but do not share either crow or col indices."
        )
    if mask.dtype != corten.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")


def equal(a, b):
    """Whether two dense tensors have one shape and the same elements."""
    return a.shape == b.shape and bool((a == b).all())


def entries(data):
    """The elements of a dense tensor, or the entries of a sparse one."""
    return data if data.layout == corten.strided else data.values()


def with_entries(data, values):
    """A tensor of the layout and places of ``data`` with other elements."""
    if data.layout == corten.sparse_coo:
        return corten.sparse_coo_tensor(data.indices(), values, data.shape, is_coalesced=True)
    if data.layout == corten.sparse_csr:
        return corten.sparse_csr_tensor(data.crow_indices(), data.col_indices(), values, data.shape)
    return values



def dense_values(data):
    """A sparse tensor with zeros where it has no entries."""
    return data.to_dense() if data.dtype != corten.bool else dense_mask(data)


def dense_mask(mask):
    """A sparse mask as a dense one; booleans are not added up."""
    return with_entries(mask, entries(mask).to(corten.uint8)).to_dense().to(corten.bool)


def _element(value):
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data, mask, depth):
    if depth > 1:
        rows = (_indented(_lines(*pair, depth - 1)) for pair in zip(data, mask))
        return "[\n" + ",\n".join(rows) + "\n]"
    shown = [_element(value) for value in data]
    width = max((len(text) if keep else 8 for text, keep in zip(shown, mask)), default=0)
    kept = (text if keep else "--".rjust(width) for text, keep in zip(shown, mask))
    return "[" + ", ".join(kept) + "]"


def _indented(text):
    return "\n".join("  " + line for line in text.split("\n"))
