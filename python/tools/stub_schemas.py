"""Python signatures of the registry's schemas, as text."""

from __future__ import annotations

import keyword

# Classes and modules of the package have members called `int`, `float` and so on.
TYPES = {
    "Tensor": "Tensor", "Scalar": "Number", "int": "_int", "SymInt": "_int", "float": "_float",
    "bool": "_bool", "str": "str", "complex": "_complex", "ScalarType": "_dtype",
    "Layout": "_layout", "Device": "DeviceLike", "MemoryFormat": "_memory_format",
    "Generator": "_Generator", "Storage": "StorageBase",
}


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


def python_type(text, result=False, scalar_too=False):
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
        if not result and base in ("int", "SymInt") and not text.endswith("[]"):
            found = f"_int | {found}"  # one number for all
    elif found == "Tensor" and not result and scalar_too:
        found = "Tensor | Number"
    return f"{found} | None" if optional else found


def default_text(text, kind):
    """A default, or dots where the schema's word is none of Python's."""
    number = text.lstrip("-").replace(".", "").isdigit() and kind.rstrip("?") in (
        "int", "SymInt", "float", "Scalar"
    )
    if number or text in ("None", "True", "False") or text.startswith(("'", '"')):
        return text
    return "..."


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
            outputs.append(name)
            continue
        if name == "self":
            if method:
                continue
            name = "input"
        if keyword.iskeyword(name):
            return None
        # The second operand of arithmetic may be a number, whichever overload that picks.
        text = f"{name}: {python_type(kind, scalar_too=name == 'other')}"
        parts.append(f"{text} = {default_text(default, kind)}" if default else text)
    if outputs and out:
        if "*" not in parts:
            parts.append("*")
        kind = "Tensor" if len(outputs) == 1 else "Sequence[Tensor]"
        parts.append(f"out: {kind} | None = None")
    if parts and parts[-1] == "*":
        parts.pop()
    if any(name in listed for name in ("ScalarType?", "Device?")) and "*" in parts:
        if "requires_grad" not in listed:
            parts.append("requires_grad: _bool = False")
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



def with_numbers(parameter_list):
    """``size: Sequence[int]`` as the only or the last positional parameter may be spread out:
    the same list with ``*size: int``; None where that is not so."""
    parts = split(parameter_list)
    places = [part for part in parts if part != "self"]
    if not places or not places[0].endswith(": Sequence[_int]"):
        return None
    if len(places) > 1 and places[1] != "*":
        return None
    name = places[0].partition(":")[0]
    spread = ["self"] * ("self" in parts) + [f"*{name}: _int"] + places[2:]
    return ", ".join(spread)
