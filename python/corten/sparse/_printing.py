"""How sparse tensors are printed."""

from __future__ import annotations

import corten
from corten import _C

from ._compressed import by_rows

_INDENT = 7


def described(x):
    """The parts of a compressed tensor, its size, and what else there is to say."""
    names = ("crow_indices", "col_indices") if by_rows(x._kind) else ("ccol_indices", "row_indices")
    return _whole(x, (*names, "values"), x._parts, False)


def described_by_coordinates(x):
    """The same of a tensor in coordinate format, whose size starts a line."""
    return _whole(x, ("indices", "values"), x._held, True)


def _whole(x, names, parts, new_line):
    lines = [f"{name}={_part(part, name)}" for name, part in zip(names, parts)]
    text = "tensor(" + (",\n" + " " * _INDENT).join(lines)
    width = _C._get_printoptions()["linewidth"]
    # Two more than the line has: lines break where PyTorch breaks them.
    last = len(text) - text.rfind("\n") + 1
    for suffix in _suffixes(x):
        if new_line or last + len(suffix) + 2 > width:
            text, last, new_line = f"{text},\n{' ' * _INDENT}{suffix}", _INDENT + len(suffix), False
        else:
            text, last = f"{text}, {suffix}", last + len(suffix) + 2
    return text + ")"


def _part(tensor, name):
    """A part as it is printed, without its dtype and history: the whole says that."""
    if tensor.numel() == 0 and not tensor.is_meta:
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
    found = [] if x.device.type == "cpu" else [f"device='{x.device}'"]
    found.append(f"size={tuple(x.shape)}")
    if not x.is_meta:
        found.append(f"nnz={x._nnz()}")
    default = corten.get_default_dtype()
    if x.dtype not in (default, default.to_complex(), corten.int64, corten.bool):
        found.append(f"dtype={x.dtype}")
    found.append(f"layout={x.layout}")
    if x.grad_fn is not None:
        found.append(f"grad_fn=<{_name(x.grad_fn)}>")
    elif x.requires_grad:
        found.append("requires_grad=True")
    return found


def _name(node):
    """What PyTorch calls a node: of an operator that writes, what the operator is."""
    if type(node).__name__ == "WrittenBackward" and node.next_functions[1][0] is not None:
        node = node.next_functions[1][0]
    name = node.name()
    ours = type(node).__module__.startswith("corten.sparse")
    return f"{name}0" if ours and name.endswith("Backward") else name
