"""Operators that only graphs call: sizes as values, checks of tensors, and constants."""

from __future__ import annotations

import corten
from corten import _C

__all__ = ["define"]


def _sym_size(self, dim):
    return self.shape[dim]


def _sym_stride(self, dim):
    return self.stride(dim)


def _sym_numel(self):
    return self.numel()


def _sym_storage_offset(self):
    return self.storage_offset()


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    for what, wanted, given in (
        ("sizes", size, tuple(a.shape)), ("strides", stride, tuple(a.stride()) if stride is not None else None),
        ("dtype", dtype, a.dtype), ("device", device, a.device), ("layout", layout, a.layout),
    ):
        if wanted is None:
            continue
        if what in ("sizes", "strides"):
            wanted = tuple(wanted)
        if what == "device" and "cuda" not in str(wanted):
            same = corten.device(wanted).type == given.type
        else:
            same = wanted == given
        if not same:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {wanted}, Got: {given}")


_MISSING = (
    ("lift_fresh_copy", "(Tensor self) -> Tensor", lambda self: self.clone()),
    ("_assert_tensor_metadata", "(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
     "Device? device=None, Layout? layout=None) -> ()", _assert_tensor_metadata),
    ("sym_size.int", "(Tensor self, int dim) -> SymInt", _sym_size),
    ("sym_stride.int", "(Tensor self, int dim) -> SymInt", _sym_stride),
    ("sym_numel", "(Tensor self) -> SymInt", _sym_numel),
    ("sym_storage_offset", "(Tensor self) -> SymInt", _sym_storage_offset),
)


def define():
    """Adds the operators that the registry does not have."""
    for name, arguments, function in _MISSING:
        packet, _, overload = name.partition(".")
        if overload in (_C._op_overloads(f"aten::{packet}") or []):
            continue
        vars(corten.ops.aten).pop(packet, None)
        qualified = _C._library_define("aten", name + arguments)
        _C._library_impl(qualified, "CompositeImplicitAutograd", function)


define()
