"""Functions that make nested tensors."""

from __future__ import annotations

import corten
from corten._C import Tensor
from corten._parts_tensor import PartsTensor

from ._jagged import NestedTensor, made
from ._strided import StridedNestedTensor, of_items


def _layout(layout):
    layout = corten.strided if layout is None else layout
    if layout not in (corten.strided, corten.jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def _refuse_pinned(pin_memory):
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False,
                  pin_memory=False):
    """A nested tensor of copies of items, which are tensors or what ``torch.tensor`` takes: a leaf.

    Raises:
        RuntimeError: The items have different numbers of dimensions, or differ along several with
            ``layout=torch.jagged``.
    """
    layout = _layout(layout)
    _refuse_pinned(pin_memory)
    if layout == corten.strided and not isinstance(tensor_list, (list, tuple)):
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor"
        )
    items = [
        item.detach().to(dtype=dtype, device=device) if isinstance(item, Tensor)
        else corten.tensor(item, dtype=dtype, device=device) for item in tensor_list
    ]
    made_of = _jagged_of if layout == corten.jagged else of_items
    with corten.no_grad():
        found = made_of(items)
    return found.requires_grad_() if requires_grad else found


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of items with their history, of a list or of a tensor's first dimension."""
    if not isinstance(ts, (Tensor, list, tuple)) or (
        not isinstance(ts, Tensor) and not all(isinstance(item, Tensor) for item in ts)
    ):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors "
        )
    if isinstance(ts, tuple):
        ts = list(ts)
    if isinstance(ts, (NestedTensor, StridedNestedTensor)):
        if layout is not None and layout == ts.layout:
            return ts.to(dtype=dtype, device=device)
        raise RuntimeError(
            "as_nested_tensor(): Converting between nested tensor layouts is not supported"
        )
    layout = _layout(layout)
    if isinstance(ts, Tensor) and ts.dim() == 0:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 0")
    items = [item.to(dtype=dtype, device=device) for item in ts]
    return _jagged_of(items) if layout == corten.jagged else of_items(items)


def _jagged_of(items):
    if not items:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    first = items[0]
    for what, read in (("dim", Tensor.dim), ("dtype", lambda x: x.dtype),
                       ("device", lambda x: x.device)):
        if len({read(item) for item in items}) > 1:
            raise RuntimeError(
                f"When constructing a nested tensor, all tensors in list must have the same {what}"
            )
    if first.dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    uneven = [d for d in range(first.dim()) if len({item.size(d) for item in items}) > 1]
    if len(uneven) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            "that the jagged layout only represents shapes of the form (B, *_0, D_0, D_1, ..., "
            "D_N), with only * allowed to be ragged."
        )
    dim = uneven[0] if uneven else 0
    lengths = corten.tensor([0, *(item.size(dim) for item in items)], device=first.device)
    return made(corten.cat(items, dim), lengths.cumsum(0), None, dim + 1)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None,
                              max_seqlen=None):
    """The nested tensor of ``values``, whose items begin at ``offsets`` and have ``lengths``, along
    the dimension ``jagged_dim`` of the nested tensor.

    Raises:
        RuntimeError: Both offsets and lengths are missing.
    """
    if offsets is None and lengths is None:
        raise RuntimeError(
            "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
        )
    if offsets is None:
        offsets = corten.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        lengths = None
    # A view: the nested tensor is no leaf, gradients go to the values.
    values = values.view_as(values) if values.requires_grad else values
    return made(values, offsets, lengths, 1 if jagged_dim is None else jagged_dim)


def masked_select(tensor, mask):
    """The elements of a tensor where a mask is true: for each row of the mask one item."""
    if tensor.layout != corten.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}"
        )
    if mask.layout != corten.strided:
        raise RuntimeError(
            f"torch.nested.masked_select requires a strided mask, given: {mask.layout}"
        )
    rows = mask.expand(tensor.shape)
    counts = rows.flatten(1).sum(1) if rows.dim() > 1 else rows.to(corten.int64)
    offsets = corten.cat([counts.new_zeros(1), counts.cumsum(0)])
    return made(tensor.masked_select(mask), offsets, None, 1)


def narrow(tensor, dim, start, length, layout=corten.strided):
    """The part of each row of a tensor from ``start`` on, of ``length``, which may both be tensors
    with a number for each row: a view."""
    if isinstance(tensor, PartsTensor) or tensor.layout != corten.strided:
        raise RuntimeError("torch.nested.narrow requires a strided tensor")
    if layout == corten.strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return of_items([row for row in tensor.narrow(dim, start, length)])
    if dim != 1:
        raise RuntimeError("torch.nested.narrow with jagged layout: dim must be 1")
    batch, rows = tensor.shape[:2]
    starts, lengths = (
        value.to(corten.int64) if isinstance(value, Tensor) else corten.full((batch,), value)
        for value in (start, length)
    )
    firsts = corten.arange(batch) * rows + starts
    # The part behind the last item counts for nothing: an end is needed all the same.
    end = (firsts[-1:] + lengths[-1:]).clamp(max=batch * rows)
    values = tensor.reshape(batch * rows, *tensor.shape[2:])
    return made(values, corten.cat([firsts, end]), lengths, 1)
