"""Steps from a tensor to its views, and from a view that was written to back to the tensor."""

from __future__ import annotations

import functools

from corten import _C
from corten.utils._python_dispatch import _overload

__all__ = []


class Step:
    """A call of a view operator that can be repeated on another base, and undone."""

    __slots__ = ("args", "copies", "index", "kwargs", "name")

    def __init__(self, name, args, kwargs, copies, index=None):
        self.name, self.args, self.kwargs = name, args, kwargs
        self.copies, self.index = copies, index

    def forward(self, base):
        """The view of a base."""
        if self.name == "aten::detach" and not self.copies:
            return _overload("aten::alias")(base)
        if self.index is not None:
            # One of several views is made alone.
            name, args = _one_of_several(self, base)
            return self.again(name, base, *args)
        return _overload(copying(self.name) if self.copies else self.name)(base, *self.args, **self.kwargs)

    def inverse(self, base, view):
        """The base after the view became ``view``."""
        return _INVERSES[self.name](self, base, view)

    def again(self, operator, *args):
        """A call of a view operator, by the form that copies where views are copied."""
        return _overload(copying(operator) if self.copies else operator)(*args)


@functools.cache
def copying(name):
    """The name of the operator that copies what a view operator shows; the operator's own where there is none."""
    packet, dot, overload = name.partition(".")
    return f"{packet}_copy{dot}{overload}" if overload in _C._op_overloads(f"{packet}_copy") else name


def geometry_of(name, wrapper, args, kwargs):
    """The sizes, strides and offsets of the views that an operator makes, whatever stands for them."""
    import corten
    from corten._functionalization._state import OUTSIDE, Below
    from corten.utils._python_dispatch import _disable_current_modes

    extent = 1 + wrapper.storage_offset() + sum(
        (size - 1) * stride for size, stride in zip(wrapper.size(), wrapper.stride()) if size
    )
    with Below(OUTSIDE), _disable_current_modes():
        memory = corten.empty(max(extent, 0), dtype=wrapper.dtype, device="meta")
        shown = memory.as_strided(wrapper.size(), wrapper.stride(), wrapper.storage_offset())
        result = _overload(name)(shown, *args, **kwargs)
    views = result if isinstance(result, (list, tuple)) else [result]
    return [(one.size(), one.stride(), one.storage_offset()) for one in views]


def is_known(name):
    """Whether writes to results of a view operator can be told to the base."""
    return name in _INVERSES


def _one_of_several(step, base):
    """The operator that makes one of the views that another one makes, with its arguments."""
    if step.name == "aten::unbind.int":
        return "aten::select.int", (step.args[0] if step.args else 0, step.index)
    sizes, dim = step.args[0], step.args[1] if len(step.args) > 1 else 0
    if step.name == "aten::split.Tensor":
        start = step.index * sizes
        end = min(start + sizes, base.size(dim))
    else:
        start = sum(sizes[:step.index])
        end = start + sizes[step.index]
    return "aten::slice.Tensor", (dim, start, end)


def _split(step, base, view):
    _, args = _one_of_several(step, base)
    return _overload("aten::slice_scatter")(base, view, *args)


def _unbind(step, base, view):
    _, args = _one_of_several(step, base)
    return _overload("aten::select_scatter")(base, view, *args)


def _permute(step, base, view):
    dims = [dim % max(base.dim(), 1) for dim in step.args[0]]
    back = [0] * len(dims)
    for place, dim in enumerate(dims):
        back[dim] = place
    return step.again("aten::permute", view, back)


def _expand(step, base, view):
    sizes, lead = base.size(), view.dim() - base.dim()
    summed = list(range(lead)) + [
        lead + dim for dim, size in enumerate(sizes) if size == 1 and view.size(lead + dim) != 1
    ]
    if any(view.size(dim) > 1 for dim in summed):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )
    if summed:
        view = _overload("aten::sum.dim_IntList")(view, summed, True)
    return step.again("aten::view", view, sizes) if lead else view


def _squeeze(step, base, view):
    for dim, size in enumerate(base.size()):
        if size == 1:
            view = step.again("aten::unsqueeze", view, dim)
    return view


def _squeeze_dims(step, base, view):
    dims = step.args[0] if isinstance(step.args[0], (list, tuple)) else [step.args[0]]
    if not base.dim():
        return view
    for dim in sorted(dim % base.dim() for dim in dims):
        if base.size(dim) == 1:
            view = step.again("aten::unsqueeze", view, dim)
    return view


def _view_as_complex(step, base, view):
    return step.again("aten::view_as_real", view.resolve_conj())


def _unfold(step, base, view):
    dim, size, stride = step.args
    dim = dim % base.dim() if base.dim() else 0
    sizes, strides = list(view.size()), list(base.stride())
    moved = strides[dim] if base.dim() else 1
    if base.dim():
        strides[dim] *= stride
    return _overload("aten::as_strided_scatter")(
        base, view, sizes, [*strides, moved] if base.dim() else [moved], base.storage_offset()
    )


def _as_strided(step, base, view):
    return _overload("aten::as_strided_scatter")(base, view, *step.args)


def _itself(step, base, view):
    return view


_INVERSES = {
    "aten::alias": lambda step, base, view: step.again("aten::alias", view),
    "aten::detach": _itself,
    "aten::lift_fresh": _itself,
    "aten::as_strided": _as_strided,
    "aten::diagonal": lambda step, base, view: _overload("aten::diagonal_scatter")(base, view, *step.args),
    "aten::expand": _expand,
    "aten::permute": _permute,
    "aten::_reshape_alias": lambda step, base, view: step.again(
        "aten::_reshape_alias", view, base.size(), base.stride()),
    "aten::select.int": lambda step, base, view: _overload("aten::select_scatter")(base, view, *step.args),
    "aten::slice.Tensor": lambda step, base, view: _overload("aten::slice_scatter")(base, view, *step.args),
    "aten::split.Tensor": _split,
    "aten::split_with_sizes": _split,
    "aten::unbind.int": _unbind,
    "aten::squeeze": _squeeze,
    "aten::squeeze.dim": _squeeze_dims,
    "aten::squeeze.dims": _squeeze_dims,
    "aten::t": lambda step, base, view: step.again("aten::t", view),
    "aten::transpose.int": lambda step, base, view: step.again("aten::transpose.int", view, *step.args),
    "aten::unsqueeze": lambda step, base, view: step.again("aten::squeeze.dim", view, step.args[0]),
    "aten::view": lambda step, base, view: step.again("aten::view", view, base.size()),
    "aten::_unsafe_view": lambda step, base, view: _overload("aten::_unsafe_view")(view, base.size()),
    "aten::view.dtype": lambda step, base, view: step.again("aten::view.dtype", view, base.dtype),
    "aten::unfold": _unfold,
    "aten::view_as_real": lambda step, base, view: step.again("aten::view_as_complex", view),
    "aten::view_as_complex": _view_as_complex,
    "aten::_conj": lambda step, base, view: step.again("aten::_conj", view),
    "aten::_neg_view": lambda step, base, view: step.again("aten::_neg_view", view),
    "aten::flip_view": lambda step, base, view: step.again("aten::flip_view", view, *step.args),
}
