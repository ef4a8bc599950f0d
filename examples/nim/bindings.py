"""Turns `python -m corten.ops --json` into bindings for Nim: bindings.py OPS.json > corten.nim"""

import json
import pathlib
import re
import sys

#: Types of schemas in Nim: of an argument, and of a list of them.
TYPES = {
    "Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool", "Scalar": "Scalar",
    "str": "string", "ScalarType": "DType", "Layout": "Layout", "MemoryFormat": "MemoryFormat", "Device": "Device",
}
LISTS = {"Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool"}
RESULTS = {
    "Tensor": "Tensor", "Tensor[]": "seq[Tensor]", "int": "int", "SymInt": "int", "float": "float", "bool": "bool",
    "Scalar": "Scalar",
}
NAMES = {"Mean": "1", "Sum": "2", "contiguous_format": "contiguousFormat", "preserve_format": "preserveFormat",
         "strided": "strided", "long": "kInt64"}
#: Names that the prelude or the language takes.
TAKEN = {"result", "tensor", "handle"}


class Unsupported(Exception):
    """A type that the bindings leave out."""


def split(text):
    """The parts between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += letter in "[(" and 1 or letter in "])" and -1 or 0
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    rest = text[start:].strip()
    return parts + [rest] if rest else parts


def identifier(name):
    """A name that Nim takes: no underscore at either end, and no two in a row."""
    if name.startswith("_"):
        name = "internal" + name
    if name.endswith("_"):
        name = name.rstrip("_") + "Inplace"
    name = re.sub("_+", "_", name)
    return name + "Of" if name in TAKEN else name


def default(text, kind):
    """A default value as Nim writes it."""
    if text == "None":
        return f"none({kind[7:-1]})"
    inner = kind[7:-1] if kind.startswith("Option[") else kind
    if text in ("True", "False"):
        value = text.lower()
    elif text.startswith("["):
        items = [default(item, "int") for item in split(text[1:-1])]
        value = f"[{', '.join(items)}]" if items else f"newSeq[{inner[10:-1]}]()"
    elif text[0] in "\"'":
        value = '"' + text[1:-1] + '"'
    elif inner == "DType":
        value = f"DType({NAMES.get(text, text)})"
    elif inner == "MemoryFormat" and text.isdigit():
        value = f"MemoryFormat({text})"
    elif text in NAMES:
        value = NAMES[text]
    elif inner == "float":
        value = repr(float(text))
    elif inner == "Scalar":
        value = f"toScalar({int(text) if re.fullmatch('-?[0-9]+', text) else float(text)})"
    elif inner.startswith("openArray"):
        value = f"[{text}]"
    else:
        value = text
    return f"some({value})" if kind.startswith("Option[") else value


def argument(text):
    """Name, type and default of an argument of a schema."""
    declared, equals, given = text.partition("=")
    kind, name = re.sub(r"\([^)]*\)", "", declared).rsplit(" ", 1)
    optional = kind.endswith("?")
    kind = kind.rstrip("?")
    if found := re.fullmatch(r"(\w+)\[\d*\]", kind):
        if found[1] not in LISTS:
            raise Unsupported(kind)
        kind = f"Option[seq[{LISTS[found[1]]}]]" if optional else f"openArray[{LISTS[found[1]]}]"
        if optional and equals and given != "None":
            raise Unsupported(text)
    elif kind in TYPES:
        kind = f"Option[{TYPES[kind]}]" if optional else TYPES[kind]
    else:
        raise Unsupported(kind)
    return identifier(name), kind, default(given, kind) if equals else None


def procedure(entry, seen):
    """The procedure of an operator."""
    head, rest = entry["schema"].split("(", 1)
    arguments, returns = rest.rsplit(" -> ", 1)
    arguments = [argument(one) for one in split(arguments.rstrip()[:-1]) if one != "*"]
    returns = re.sub(r"\([a-z!|* >-]*\)", "", returns)
    results = [one.split(" ")[0] for one in split(returns.strip("()"))]
    if any(one not in RESULTS for one in results):
        raise Unsupported(returns)
    qualified, _, overload = head.partition(".")
    name = identifier(qualified.partition("::")[2])
    if entry["kind"] == "out":
        name += "Out"
    # Two overloads that Nim cannot tell apart: the second says which it is.
    kinds = tuple(kind for _, kind, _ in arguments)
    if (name.lower().replace("_", ""), kinds) in seen:
        name = identifier(f"{name}_{overload}") if overload else name + "2"
    seen.add((name.lower().replace("_", ""), kinds))
    taken = ", ".join(f"`{name}`: {kind}" + (f" = {value}" if value else "") for name, kind, value in arguments)
    kinds = [RESULTS[one] for one in results]
    one = len(kinds) == 1
    result = "" if not kinds else f": {kinds[0]}" if one else f": tuple[{', '.join(f'r{i}: {k}' for i, k in enumerate(kinds))}]"
    places = ["result"] if one else [f"result.r{i}" for i in range(len(kinds))]
    lines = [f"proc `{name}`*({taken}){result}{' {.discardable.}' if entry['kind'] in ('inplace', 'out') else ''} ="]
    if entry["doc"]:
        lines.append(f"  ## {entry['doc']}")
    lines.append(f"  var outputs: array[{len(kinds)}, Value]")
    values = ", ".join(f"toValue(`{name}`)" for name, _, _ in arguments)
    inputs = f"[{values}]" if values else "newSeq[Value]()"
    lines.append(f'  call("{qualified}", "{overload}", {inputs}, outputs)')
    lines += [f"  fromValue(outputs[{i}], {place})" for i, place in enumerate(places) if kinds]
    return "\n".join(lines)


def main(path):
    print((pathlib.Path(__file__).parent / "prelude.nim").read_text())
    left_out, seen = 0, set()
    for entry in json.loads(pathlib.Path(path).read_text()):
        try:
            print(procedure(entry, seen) + "\n")
        except Unsupported:
            left_out += 1
    print(f"bindings.py left {left_out} operators out, whose types Nim has no counterpart for here", file=sys.stderr)


main(*sys.argv[1:])
