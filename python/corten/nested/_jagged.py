"""``NestedTensor``: items of different lengths along one dimension, one behind another."""

from __future__ import annotations

import itertools

import corten
from corten._C import Tensor
from ._parts import NestedParts

_numbers = itertools.count(1)


class NestedInt:
    """The size of the dimension along which items differ. It has no number: it is the same as that
    of another tensor, or another one."""

    def __init__(self, number, factor=1):
        self._number, self._factor = number, factor

    def __eq__(self, other):
        if not isinstance(other, NestedInt):
            return False
        return (self._number, self._factor) == (other._number, other._factor)

    def __hash__(self):
        return hash((self._number, self._factor))

    def __mul__(self, other):
        return NestedInt(self._number, self._factor * other) if type(other) is int else NotImplemented

    __rmul__ = __mul__

    def __bool__(self):
        return True

    def __repr__(self):
        return f"j{self._number}" if self._factor == 1 else f"{self._factor}*j{self._number}"


class NestedSize(tuple):
    """A shape with a :class:`NestedInt`."""

    def __repr__(self):
        return f"torch.Size([{', '.join(map(repr, self))}])"

    def __getitem__(self, index):
        found = tuple.__getitem__(self, index)
        return NestedSize(found) if isinstance(index, slice) else found


def _nested_int(offsets, lengths):
    """The same for the same tensor of offsets, or of lengths where these leave holes."""
    key = offsets if lengths is None else lengths
    found = key.__dict__.get("_nested_int")
    if found is None:
        found = key.__dict__["_nested_int"] = NestedInt(next(_numbers))
    return found


class NestedTensor(NestedParts):
    """Items that differ along the dimension ``_ragged_idx``, from 1. ``_values`` has them without
    the first dimension; item ``i`` begins at ``offsets()[i]`` and ends before the next one, or
    after ``lengths()[i]``."""

    @property
    def _recorded(self):
        return self._values

    @classmethod
    def _call(cls, name, func, args, kwargs):
        from ._operators import call

        return call(name, func, args, kwargs)

    @property
    def layout(self):
        """``torch.jagged``."""
        return corten.jagged

    @property
    def shape(self):
        """The sizes, of which one is a :class:`NestedInt`."""
        inner = list(self._values.shape)
        inner[self._ragged_idx - 1] = _nested_int(self._offsets, self._lengths)
        return NestedSize((self._offsets.size(0) - 1, *inner))

    def size(self, dim=None):
        """The sizes, or that of a dimension."""
        return self.shape if dim is None else self.shape[_wrapped(self, dim)]

    def dim(self):
        """The number of dimensions."""
        return self._values.dim() + 1

    ndim = property(dim)
    ndimension = dim

    def numel(self):
        """The number of elements."""
        if self._lengths is None:
            return self._values.numel()
        per_row = self._values.numel() // max(1, self._values.size(self._ragged_idx - 1))
        return per_row * int(self._lengths.sum())

    nelement = numel

    def stride(self, dim=None):
        """The steps in memory from one element to the next."""
        inner = self._values.stride()
        outer = _nested_int(self._offsets, self._lengths) * inner[self._ragged_idx - 1]
        if self._ragged_idx > 1:
            outer = outer * (self._values.stride(0) and 1)
        strides = (outer, *inner)
        return strides if dim is None else strides[_wrapped(self, dim)]

    def __len__(self):
        return self._offsets.size(0) - 1

    def values(self):
        """The items one behind another."""
        values = self._values
        return values.view_as(values) if values.requires_grad else values.detach()

    def offsets(self):
        """Where the items begin, and where the last one ends."""
        return self._offsets

    def lengths(self):
        """How long the items are; None where they end at the beginning of the next one."""
        return self._lengths

    def _spans(self):
        """The first and the last place of each item, as numbers."""
        starts = self._offsets.tolist()
        if self._lengths is None:
            return list(zip(starts, starts[1:]))
        return [(a, a + n) for a, n in zip(starts, self._lengths.tolist())]

    def _seqlens(self):
        return [end - start for start, end in self._spans()]

    @property
    def _max_seqlen(self):
        return max(self._seqlens(), default=0)

    @property
    def _min_seqlen(self):
        return min(self._seqlens(), default=0)

    def _get_max_seqlen(self):
        return self._max_seqlen

    def _get_min_seqlen(self):
        return self._min_seqlen

    def unbind(self, dim=0):
        """The items, views of the values."""
        if _wrapped(self, dim) != 0:
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        place = self._ragged_idx - 1
        return tuple(self._values.narrow(place, start, end - start) for start, end in self._spans())

    def to_padded_tensor(self, padding, output_size=None):
        """See :func:`corten.nested.to_padded_tensor`."""
        from ._padding import padded

        found = padded(self, padding)
        return found if output_size is None else _resized(found, padding, output_size)

    @property
    def grad(self):
        """The accumulated gradient, of the same structure."""
        grad = self._values.grad
        return None if grad is None else like(self, grad)

    @grad.setter
    def grad(self, grad):
        self._values.grad = grad._values if isinstance(grad, NestedTensor) else grad

    def __repr__(self, *, tensor_contents=None):
        size = ", ".join(map(repr, self.shape))
        text = f"NestedTensor(size=({size}), offsets={self._offsets}"
        if self._values.grad_fn is not None:
            text += f", grad_fn={self._values.grad_fn}"
        elif self.requires_grad:
            text += ", requires_grad=True"
        return f"{text}, contiguous={self.is_contiguous()})"

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            import copy

            values = copy.deepcopy(self._values, memo)
            memo[id(self)] = made(values, self._offsets, self._lengths, self._ragged_idx)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        from corten._tensor import _rebuild_from_type_v2
        from corten.nested._internal.nested_tensor import _rebuild_njt

        values = self._values.detach()
        parts = {
            "values": values, "offsets": self._offsets, "lengths": self._lengths,
            "_ragged_idx": self._ragged_idx, "_metadata_cache": {},
            "requires_grad": self.requires_grad,
        }
        state = {
            "_values": values, "_offsets": self._offsets, "_lengths": self._lengths,
            "_ragged_idx": self._ragged_idx, "_metadata_cache": {},
        }
        return _rebuild_from_type_v2, (_rebuild_njt, type(self), (parts,), state)


def made(values, offsets, lengths=None, ragged_idx=1):
    """The nested tensor of these parts."""
    if offsets.dim() != 1:
        raise RuntimeError("nested tensors have offsets of one dimension")
    shape = (offsets.size(0) - 1, *values.shape)
    shell = Tensor._make_shell(
        NestedTensor, shape, dtype=values.dtype, layout=corten.strided, device=values.device
    )
    shell._values, shell._offsets, shell._lengths = values, offsets, lengths
    shell._ragged_idx = ragged_idx
    return shell


# Files name the class by this place.
NestedTensor.__module__ = "corten.nested._internal.nested_tensor"


def rebuilt(parts):
    """The nested tensor of the parts that a file has."""
    found = made(parts["values"], parts["offsets"], parts["lengths"], parts["_ragged_idx"])
    return found.requires_grad_() if parts["requires_grad"] else found


def like(x, values, ragged_idx=None):
    """Other values with the items of ``x``."""
    return made(values, x._offsets, x._lengths, x._ragged_idx if ragged_idx is None else ragged_idx)


def _wrapped(x, dim):
    count = x.dim()
    if not -count <= dim < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got "
            f"{dim})"
        )
    return dim % count


wrapped = _wrapped


def _resized(dense, padding, size):
    """A dense tensor cut off or filled up to a size."""
    if len(size) != dense.dim():
        raise RuntimeError(
            f"to_padded_tensor(): output_size must have {dense.dim()} dimensions, got {len(size)}"
        )
    for dim, wanted in enumerate(size):
        dense = dense.narrow(dim, 0, min(wanted, dense.size(dim)))
    missing = [extra for have, want in zip(dense.shape[::-1], tuple(size)[::-1])
               for extra in (0, want - have)]
    return corten.constant_pad_nd(dense, missing, padding) if any(missing) else dense


__all__ = ["NestedInt", "NestedSize", "NestedTensor", "like", "made", "wrapped"]
