"""Exported graphs as text: a class with types of tensors, and the lines that made the calls."""

from __future__ import annotations

import corten
from corten.fx import GraphModule
from corten.fx._code import _Writer, _last_uses

__all__ = ["readable"]

_SHORT = {
    "bool": "b8", "uint8": "u8", "int8": "i8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64",
    "complex32": "c32", "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu", "float4_e2m1fn_x2": "f4e2m1fnx2", "bits8": "b8", "bits16": "b16",
    "bits1x8": "b1", "bits2x4": "b2", "bits4x2": "b4",
}


def annotation(node):
    """The type of a node's value, in quotes; nothing where it has none."""
    value = node.meta.get("val")
    if isinstance(value, corten.Tensor):
        short = _SHORT.get(str(value.dtype).partition(".")[2], str(value.dtype))
        return f': "{short}[{", ".join(map(str, value.shape))}]"'
    if hasattr(value, "node") and isinstance(value, (corten.SymInt, corten.SymFloat, corten.SymBool)):
        return f': "Sym({value})"'
    return ""


def _comment(trace):
    """The innermost line of a trace as a comment."""
    if not trace:
        return None
    lines = [line.strip() for line in trace.strip().split("\n")]
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].startswith('File "'):
            file, _, rest = lines[place][6:].partition('", line ')
            number, _, name = rest.partition(", in ")
            code = lines[place + 1] if place + 1 < len(lines) else ""
            return f"# File: {file}:{number} in {name}, code: {code}"
    return ""


class _Body:
    """The lines of a function."""

    def __init__(self):
        self.lines, self.trace = [], None

    def mark(self, node):
        """A comment where the line of the program changes."""
        trace = node.meta.get("stack_trace") or ""
        if trace == self.trace:
            return
        self.trace = trace
        comment = _comment(trace) if trace else "# No stacktrace found for following nodes"
        if comment:
            if self.lines:
                self.lines.append("")
            self.lines.append(comment)


def code_of(graph):
    """The function ``forward`` of a graph, with types."""
    writer, nodes = _Writer("self"), list(graph.nodes)
    last, parameters, body = _last_uses(nodes), ["self"], _Body()
    for node in nodes:
        if node.op == "placeholder":
            default = f" = {writer.value(node.args[0])}" if node.args else ""
            parameters.append(f"{node.target}{annotation(node)}{default}")
            if node.target.replace("*", "") != repr(node):
                body.lines.append(f"{node!r}{annotation(node)} = {node.target.replace('*', '')}")
            continue
        if node.op != "output":
            body.mark(node)
        line = writer.statement(node)
        if node.op in ("call_function", "call_module", "call_method") and line.startswith(f"{node!r} = "):
            line = f"{node!r}{annotation(node)}{line[len(repr(node)):]}"
        gone = [] if node.op == "output" else last.get(node, []) + ([] if node.users else [node])
        body.lines.append(line + (f";  {' = '.join([*map(repr, gone), 'None'])}" if gone else ""))
    lines = "\n".join(f"    {line}" if line else "" for line in body.lines or ["pass"])
    return f"def forward({', '.join(parameters)}):\n{lines}"


def _indented(text):
    return "\n".join(f"    {line}" if line else "" for line in text.split("\n"))


def readable(module, name):
    """The class of a module and of the graphs below it."""
    text = f"class {name}(torch.nn.Module):\n{_indented(code_of(module.graph))}\n"
    for child, inner in module.named_children():
        if isinstance(inner, GraphModule):
            text += "\n" + _indented(readable(inner, child)).rstrip(" ")
    return text
