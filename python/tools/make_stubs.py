"""Writes ``python/corten/_C.pyi`` from the operator registry of the installed package.

    python python/tools/make_stubs.py [--check]
"""

from __future__ import annotations

import keyword
import pathlib
import sys

import corten
from corten import _C

TARGET = pathlib.Path(__file__).resolve().parent.parent / "corten" / "_C.pyi"

TYPES = {
    "Tensor": "Tensor", "Scalar": "Number", "int": "int", "SymInt": "int", "float": "float",
    "bool": "bool", "str": "str", "complex": "complex", "ScalarType": "dtype",
    "Layout": "layout", "Device": "DeviceLike", "MemoryFormat": "memory_format",
    "Generator": "Generator", "Storage": "StorageBase",
}
HEAD = '''\
# Written by python/tools/make_stubs.py from the operator registry; do not edit.
from typing import Any, ClassVar, Literal, Sequence, overload

Number = int | float | bool | complex
DeviceLike = device | str | int
'''


def split(text):
    """The arguments of a list, split at its outer commas."""
    parts, depth, quoted, start = [], 0, "", 0
    for at, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def plain(text):
    """A type without alias annotations."""
    kept, depth = [], 0
    for character in text:
        depth += character == "("
        if depth == 0:
            kept.append(character)
        depth -= character == ")"
    return "".join(kept)


def python_type(text, result=False):
    """The annotation of a schema type."""
    text = plain(text)
    optional = text.endswith("?")
    text = text.rstrip("?")
    base, bracket, _ = text.partition("[")
    item_optional = base.endswith("?")
    found = TYPES.get(base.rstrip("?"), "Any")
    if bracket:
        item = f"{found} | None" if item_optional else found
        found = f"tuple[{item}, ...]" if result else f"Sequence[{item}]"
        if not result and base in ("int", "SymInt"):
            found = f"int | {found}"
    return f"{found} | None" if optional else found


def default_text(text, kind):
    if text in ("None", "True", "False") or text.lstrip("-").replace(".", "").isdigit():
        return text
    if text.startswith("["):
        return "..."
    return text if text.startswith("'") else "..."


def parameters(schema, method, out):
    """The parameter list of a stub, or nothing where it cannot be written."""
    listed = schema.partition("::")[2].partition("(")[2].rpartition(") -> ")[0]
    parts, starred, outputs = (["self"] if method else []), False, []
    for argument in split(listed):
        if argument == "*":
            starred = True
            parts.append("*")
            continue
        declaration, _, default = argument.partition("=")
        kind, _, name = declaration.strip().rpartition(" ")
        if starred and "!)" in kind:
            outputs.append(kind)
            continue
        if name == "self":
            if method:
                continue
            name = "input"
        if keyword.iskeyword(name):
            return None
        text = f"{name}: {python_type(kind)}"
        parts.append(f"{text} = {default_text(default, kind)}" if default else text)
    if outputs and out:
        if "*" not in parts:
            parts.append("*")
        kind = "Tensor" if len(outputs) == 1 else "Sequence[Tensor]"
        parts.append(f"out: {kind}")
    if parts and parts[-1] == "*":
        parts.pop()
    seen_default = False
    for part in parts:
        if part == "*":
            break
        if seen_default and "=" not in part:
            return None
        seen_default = seen_default or "=" in part
    return ", ".join(parts)


def result(schema):
    returns = schema.rpartition(" -> ")[2].strip()
    if returns in ("()", ""):
        return "None"
    if returns.startswith("(") and returns.endswith(")"):
        parts = [part.rpartition(" ")[0] if " " in part and not part.endswith(")") else part
                 for part in split(returns[1:-1])]
        return "tuple[" + ", ".join(python_type(part, True) for part in parts) + "]"
    return python_type(returns, True)


def definitions(ops, method, indent=""):
    """One definition per operator, or one per overload with ``@overload``."""
    by_name = {}
    for op in ops:
        name = op["name"].partition("::")[2].partition(".")[0]
        listed = parameters(op["schema"], method, op["kind"] == "out")
        if listed is not None and not keyword.iskeyword(name):
            by_name.setdefault(name, {})[listed] = (result(op["schema"]), op["doc"])
    for name, overloads in sorted(by_name.items()):
        many = len(overloads) > 1
        for listed, (returned, doc) in overloads.items():
            if many:
                yield f"{indent}@overload"
            yield f"{indent}def {name}({listed}) -> {returned}: ..."


def class_members(cls, generated):
    for name, value in sorted(vars(cls).items()):
        if name in generated or (name.startswith("__") and name in dir(object)):
            continue
        if type(value).__name__ == "getset_descriptor":
            yield f"    {name}: Any"
        elif callable(value) or type(value).__name__ in ("classmethod", "staticmethod"):
            yield f"    def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."


def main():
    ops = [op for op in _C._ops() if op["name"].startswith("aten::")]
    lines = [HEAD]
    for name in ("dtype", "layout", "memory_format", "qscheme", "device", "Generator", "finfo",
                 "iinfo", "StorageBase", "_Node", "_FunctionBase", "_GradMode", "no_grad",
                 "enable_grad", "set_grad_enabled", "inference_mode"):
        cls = getattr(_C, name)
        base = "(_GradMode)" if issubclass(cls, _C._GradMode) and cls is not _C._GradMode else ""
        lines.append(f"class {name}{base}:")
        lines.extend(class_members(cls, ()))
        if name in ("device", "Generator", "finfo", "iinfo", "StorageBase") or base:
            lines.append("    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...")
        lines.append("    ...\n")
    lines.append("class Size(tuple[int, ...]):\n    def numel(self) -> int: ...\n")
    methods = [op for op in ops if op["method"] and op["kind"] != "out"]
    names = {op["name"].partition("::")[2].partition(".")[0] for op in methods}
    lines.append("class Tensor:")
    lines.append("    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...")
    lines.extend(class_members(_C.Tensor, names))
    lines.extend(definitions(methods, True, "    "))
    lines.append("")
    for name, value in sorted(vars(_C).items()):
        if isinstance(value, (_C.dtype, _C.layout, _C.memory_format, _C.qscheme)):
            lines.append(f"{name}: {type(value).__name__}")
        elif type(value).__name__ == "builtin_function_or_method":
            lines.append(f"def {name}(*args: Any, **kwargs: Any) -> Any: ...")
    homes = {"": "_functions"}
    lines.append("")
    for home, space in homes.items():
        functions = [op for op in ops if op["function"]]
        lines.append(f"class {space}:")
        lines.extend(f"    @staticmethod\n{line}" if line.lstrip().startswith("def") else line
                     for line in definitions(functions, False, "    "))
    text = "\n".join(lines) + "\n"
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text() == text else "_C.pyi is out of date")
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
    del corten
