"""``StridedNestedTensor``: items of which all the dimensions may differ."""

from __future__ import annotations

import corten
from corten._C import Tensor
from ._parts import NestedParts


class StridedNestedTensor(NestedParts):
    """Items with as many dimensions each, one behind another in ``_buffer``."""

    @property
    def _recorded(self):
        return self._buffer

    @classmethod
    def _call(cls, name, func, args, kwargs):
        from ._strided_operators import call

        return call(name, func, args, kwargs)

    @property
    def shape(self):
        """Refused: items have sizes of their own."""
        raise RuntimeError(
            "Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."
        )

    def size(self, dim=None):
        """The size of a dimension, which must be the same in all items."""
        if dim is None:
            return self.shape
        place = wrapped(self, dim)
        if place == 0:
            return len(self._sizes)
        found = {size[place - 1] for size in self._sizes}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {place} is irregular and does not have a size.")
        return found.pop()

    def stride(self, dim=None):
        """Refused: items have strides of their own."""
        raise RuntimeError(
            "Internal error: NestedTensorImpl doesn't support strides. Please file an issue."
        )

    def dim(self):
        """The number of dimensions."""
        return 1 + (len(self._sizes[0]) if self._sizes else 0)

    ndim = property(dim)
    ndimension = dim

    def numel(self):
        """The number of elements."""
        return self._buffer.numel()

    nelement = numel

    def __len__(self):
        return len(self._sizes)

    def values(self):
        """The elements of all items."""
        buffer = self._buffer
        return buffer.view_as(buffer) if buffer.requires_grad else buffer.detach()

    def _nested_tensor_size(self):
        """The sizes of the items, one row each."""
        return corten.tensor(self._sizes, dtype=corten.int64)

    def unbind(self, dim=0):
        """The items, views of one memory."""
        if wrapped(self, dim) != 0:
            raise RuntimeError(
                "NestedTensor can only be unbound along dimension 0 got dimension "
                f"{wrapped(self, dim)} instead."
            )
        counts = [_count(size) for size in self._sizes]
        if not counts:
            return ()
        pieces = self._buffer.split(counts)
        return tuple(piece.view(size) for piece, size in zip(pieces, self._sizes))

    def to_padded_tensor(self, padding, output_size=None):
        """See :func:`corten.nested.to_padded_tensor`."""
        inner = [max(sizes) for sizes in zip(*self._sizes)]
        wanted = [len(self), *inner] if output_size is None else list(output_size)
        if any(have > want for have, want in zip([len(self), *inner], wanted)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not "
                "supported."
            )
        items = [_filled(item, wanted[1:], padding) for item in self.unbind()]
        items += [items[0].new_full(wanted[1:], padding)] * (wanted[0] - len(self))
        return corten.stack(items)

    @property
    def grad(self):
        """The accumulated gradient, with items of the same sizes."""
        grad = self._buffer.grad
        return None if grad is None else like(self, grad)

    @grad.setter
    def grad(self, grad):
        self._buffer.grad = grad._buffer if isinstance(grad, StridedNestedTensor) else grad

    def __repr__(self, *, tensor_contents=None):
        shown = []
        for item in self.detach().unbind():
            text = repr(item.requires_grad_() if self.requires_grad else item)
            shown.append("  " + text.replace("\n", "\n  "))
        suffix = ""
        if self._buffer.grad_fn is not None:
            suffix = f", grad_fn=<{self._buffer.grad_fn.name()}>"
        elif self.requires_grad:
            suffix = ", requires_grad=True"
        return "nested_tensor([\n" + ",\n".join(shown) + f"\n]{suffix})"

    def __deepcopy__(self, memo):
        import copy

        if id(self) not in memo:
            memo[id(self)] = made(copy.deepcopy(self._buffer, memo), self._sizes)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        from corten._utils import _rebuild_nested_tensor

        strides, starts, end = [], [], 0
        for size in self._sizes:
            starts.append(end)
            end += _count(size)
            strides.append([_count(size[place + 1:]) for place in range(len(size))])
        buffer = self._buffer.detach().requires_grad_(self.requires_grad)
        numbers = (corten.tensor(rows, dtype=corten.int64) for rows in (self._sizes, strides, starts))
        return _rebuild_nested_tensor, (buffer, *numbers)


def _count(size):
    count = 1
    for n in size:
        count *= n
    return count


def made(buffer, sizes):
    """The nested tensor of these parts."""
    shell = Tensor._make_shell(
        StridedNestedTensor, (len(sizes),), dtype=buffer.dtype, layout=corten.strided,
        device=buffer.device,
    )
    shell._buffer, shell._sizes = buffer, [tuple(size) for size in sizes]
    return shell


def like(x, buffer):
    """Other elements with the sizes of ``x``."""
    return made(buffer, x._sizes)


def of_items(items):
    """A nested tensor of tensors, with their history.

    Raises:
        RuntimeError: They have different numbers of dimensions.
    """
    for place, item in enumerate(items):
        if item.dim() != items[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{item.dim()} for Tensor at index {place} and dimension {items[0].dim()} for Tensor "
                "at index 0."
            )
    if not items:
        return made(corten.empty(0), [])
    items = [item.to(items[0].dtype) for item in items]
    return made(corten.cat([item.reshape(-1) for item in items]), [item.shape for item in items])


def wrapped(x, dim):
    """A dimension counted from the front."""
    count = x.dim()
    if not -count <= dim < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got "
            f"{dim})"
        )
    return dim % count


def _filled(item, size, padding):
    pairs = zip(item.shape[::-1], size[::-1])
    missing = [extra for have, want in pairs for extra in (0, want - have)]
    return corten.constant_pad_nd(item, missing, padding)
