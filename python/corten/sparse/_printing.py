"""How compressed tensors are printed."""

from __future__ import annotations

import corten
from corten import _C

from ._compressed import by_rows

_INDENT = 7


def described(x):
    """The parts of a tensor, its size, and what else there is to say."""
    names = ("crow_indices", "col_indices") if by_rows(x._kind) else ("ccol_indices", "row_indices")
    lines = [f"{name}={_part(part, name)}" for name, part in zip((*names, "values"), x._parts)]
    text = "tensor(" + (",\n" + " " * _INDENT).join(lines)
    width = _C._get_printoptions()["linewidth"]
    for suffix in _suffixes(x):
        # Two more than the line has: lines break where PyTorch breaks them.
        last = len(text) - text.rfind("\n") + 1
        text += (",\n" + " " * _INDENT if last + len(suffix) + 2 > width else ", ") + suffix
    return text + ")"


def _part(tensor, name):
    """A part as it is printed, without its dtype: the whole says that."""
    if tensor.numel() == 0:
        return f"tensor([], size={tuple(tensor.shape)})"
    indent = _INDENT + len(name) + 1
    width = _C._get_printoptions()["linewidth"]
    _C.set_printoptions(linewidth=max(width - indent, 1))
    try:
        text = repr(tensor.detach())
    finally:
        _C.set_printoptions(linewidth=width)
    for suffix in (f"dtype={tensor.dtype}", f"device='{tensor.device}'"):
        text = text.replace(f", {suffix}", "").replace(f",\n       {suffix}", "")
    return "\n".join(" " * indent * bool(place and line) + line
                     for place, line in enumerate(text.split("\n")))


def _suffixes(x):
    found = [f"size={tuple(x.shape)}", f"nnz={x._nnz()}"]
    if x.device.type != "cpu":
        found.append(f"device='{x.device}'")
    if x.dtype not in (corten.get_default_dtype(), corten.int64, corten.bool):
        found.append(f"dtype={x.dtype}")
    found.append(f"layout={x.layout}")
    if x.grad_fn is not None:
        found.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        found.append("requires_grad=True")
    return found
