"""The classes that an archive has for the modules of a program: their names, parameters, attributes and
methods, as text."""

from __future__ import annotations

import keyword

import corten
from corten.jit._types import BOOL, NONE, TENSOR, Type

OPTIONAL_BOOL = Type("Optional", [BOOL])


def qualifier_of(kind):
    """The module of a class, or function, as archives spell it."""
    module = getattr(kind, "__module__", None) or "__main__"
    if module == "corten" or module.startswith("corten."):
        module = "torch" + module[len("corten"):]
    if module in ("__main__", ""):
        return "__torch__"
    return "__torch__." + ".".join(part if is_name(part) else "_" + part for part in module.split("."))


def is_name(text):
    """Whether an attribute can stand behind a point."""
    return text.isidentifier() and not keyword.iskeyword(text)


def attribute(value, name):
    """``value.name``, or what stands for it where the name is no identifier."""
    return f"{value}.{name}" if is_name(name) else f'getattr({value}, "{name}")'


def short_name(kind):
    """The name of a class or function without what it is nested in."""
    name = getattr(kind, "__name__", "function")
    return name if is_name(name) else "_" + "".join(sign if sign.isalnum() else "_" for sign in name)


class ClassText:
    """One class of an archive."""

    def __init__(self, name, base="Module"):
        self.name, self.base = name, base
        self.parameters, self.buffers, self.attributes, self.methods = [], [], {}, {}
        self.fields = []  # lines of tuples with names and of enums

    @property
    def short(self):
        """The name without the module."""
        return self.name.rpartition(".")[2]

    def text(self):
        """The definition."""
        base = f"({self.base})" if self.base else ""
        lines = [f"class {self.short}{base}:"]
        if self.base == "Module":
            for what in ("parameters", "buffers"):
                lines.append(f"  __{what}__ = [{''.join(f'{quoted(name)}, ' for name in getattr(self, what))}]")
        for name, kind in self.attributes.items():
            lines.append(f"  {name} : {kind}" if is_name(name) else f"  __annotations__[{quoted(name)}] = {kind}")
        lines += [f"  {field}" for field in self.fields]
        for method in self.methods.values():
            lines += ["  " + line if line else line for line in method.rstrip("\n").split("\n")]
        if len(lines) == 1:
            lines.append("  pass")
        return "\n".join(lines) + "\n"


def quoted(text):
    """A string of TorchScript: its bytes of UTF-8, with escapes."""
    made = []
    for byte in text.encode():
        sign = chr(byte)
        if sign in "\\\"":
            made.append("\\" + sign)
        elif 32 <= byte < 127:
            made.append(sign)
        else:
            made.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(sign, f"\\{byte:03o}"))
    return '"' + "".join(made) + '"'


class Structure:
    """The classes and functions of a program that is being written, by the files that hold them."""

    def __init__(self):
        self.classes, self.functions, self.constants = {}, {}, []
        self._names, self._of_modules, self._kept = set(), {}, []

    def unique(self, qualifier, short):
        """A name that no other class or function has."""
        name, count = f"{qualifier}.{short}", 0
        while name in self._names:
            name = f"{qualifier}.___torch_mangle_{count}.{short}"
            count += 1
        self._names.add(name)
        return name

    def class_of(self, module):
        """The class of a module, begun when it is first asked for."""
        found = self._of_modules.get(id(module))
        if found is None:
            kind = original_class(module)
            found = ClassText(self.unique(qualifier_of(kind), short_name(kind)))
            self._of_modules[id(module)] = found
            self._kept.append(module)
            self.classes[found.name] = found
            self._fill(found, module)
        return found

    def _fill(self, found, module):
        """Parameters, buffers and modules inside."""
        for what, values in (("parameters", module._parameters), ("buffers", module._buffers)):
            for name, value in values.items():
                getattr(found, what).append(name)
                found.attributes[name] = NONE if value is None else TENSOR
        found.attributes["training"] = BOOL
        found.attributes["_is_full_backward_hook"] = OPTIONAL_BOOL
        for name, child in module._modules.items():
            if child is not None:
                found.attributes[name] = Type(self.class_of(child).name)

    def constant(self, tensor):
        """The name of a tensor that code refers to."""
        for number, one in enumerate(self.constants):
            if one is tensor:
                return f"CONSTANTS.c{number}"
        self.constants.append(tensor)
        return f"CONSTANTS.c{len(self.constants) - 1}"

    def sources(self):
        """The text of all files by name."""
        files = {}
        for name, found in self.classes.items():
            files.setdefault(name.rpartition(".")[0], []).append(found.text())
        for name, text in self.functions.items():
            files.setdefault(name.rpartition(".")[0], []).append(text)
        return {f"code/{name.replace('.', '/')}.py": "".join(texts) for name, texts in files.items()}

    def give_classes(self, unit, module):
        """Tells a module and those inside their classes."""
        give_class(module, unit.find_class(self._root_name(module)))

    def _root_name(self, module):
        """The class of the module that was compiled, or of a copy of it."""
        found = self._of_modules.get(id(module))
        return (found or next(iter(self._of_modules.values()))).name


def give_class(module, declared):
    """Tells a module its class, and those inside theirs."""
    before = vars(module).get("_script_type")
    # A module that was traced before keeps its methods where the new program has none of it.
    if before is None or all(name in declared.methods for name in before.methods):
        vars(module)["_script_type"] = declared
    for name, child in module._modules.items():
        kind = declared.attributes.get(name)
        if child is not None and kind is not None and kind.declared is not None:
            give_class(child, kind.declared)


def original_class(module):
    """The class that a module was made of."""
    from corten.jit._scripted import original_of

    return original_of(type(module))


def literal(value, base=None):
    """A value as code; ``base`` is the schema's type of a number."""
    from corten.jit._operators import number_of

    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return number(float(value)) if base == "float" else str(int(value))
    if isinstance(value, float):
        return number(value)
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (corten.dtype, corten.layout, corten.memory_format)):
        return str(number_of(value))
    if isinstance(value, corten.device):
        return f'torch.device("{value}")'
    if isinstance(value, tuple):
        return "(" + "".join(f"{literal(one, base)}, " for one in value).rstrip(" ") + ")" if value else "()"
    if isinstance(value, list):
        return "[" + ", ".join(literal(one, base) for one in value) + "]"
    raise RuntimeError(f"a {type(value).__name__} cannot be written as a constant of TorchScript")


def number(value):
    """A floating-point number."""
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return repr(value)
