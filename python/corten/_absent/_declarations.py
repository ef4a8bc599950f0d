"""Reads the declarations of absent names, and makes functions, classes and constants of them."""

from __future__ import annotations

import collections
import enum
import functools
import importlib
import re
import sys
import typing
from pathlib import Path

from corten._absent import AbsentError

FOLDER = Path(__file__).parent / "names"


class Section:
    """What PyTorch has in one module: by name, the kind of a declaration and the rest of its line."""

    def __init__(self, package):
        self.package, self.names = package, {}


def _area(key):
    """The file with a module's section: that of its first name below ``torch``."""
    first = key.partition(".")[0]
    return first if (FOLDER / f"{first}.txt").exists() else "others"


@functools.cache
def _sections(area):
    """All sections of one file, by the name of their module below ``torch``."""
    found, current = {}, None
    for line in (FOLDER / f"{area}.txt").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if line.startswith("["):
            key = line.strip("[]*")
            current = found[key] = Section(line.endswith("*]"))
        elif kind in ("def", "object", "type", "typevar"):
            current.names.update((name, (kind, "")) for name in rest.split())
        elif kind == "class":
            for entry in re.findall(r"[^\s(]+(?:\([^)]*\))?", rest):
                name, _, bases = entry.partition("(")
                current.names[name] = kind, bases.rstrip(")")
        elif kind == "from":
            home, _, names = rest.partition(" import ")
            for entry in names.split():
                name, _, there = entry.partition("=")
                current.names[name] = kind, f"{home} {there or name}"
        elif kind:
            name, _, value = rest.partition(" ")
            current.names[name] = kind, value
    return found


def _below(fullname):
    """A module's name below ``torch`` or ``corten``."""
    return fullname.partition(".")[2]


def section_of(fullname):
    """The section of a module, or None."""
    key = _below(fullname)
    return _sections(_area(key)).get(key)


def kind_of_section(fullname):
    """``package`` or ``module`` for a module that has a section, else None."""
    section = section_of(fullname)
    return section and ("package" if section.package else "module")


def public_names(fullname):
    """What ``from module import *`` takes."""
    return [name for name in section_of(fullname).names if not name.startswith("_")]


def value(module, name):
    """The value of a name of a module, which is kept there.

    Raises:
        KeyError: PyTorch has no such name either.
    """
    section = section_of(module.__name__)
    if section is None:
        raise KeyError(name)
    if name not in section.names and section_of(f"{module.__name__}.{name}") is not None:
        return importlib.import_module(f"{module.__name__}.{name}")
    kind, rest = section.names[name]
    made = vars(module)[name] = _MAKERS[kind](module.__name__, name, rest)
    return made


def _sentence(full):
    return f"{full} is a name of PyTorch without behaviour here: Corten does not have this part of it"


def _full(module, name):
    return f"torch.{_below(module)}.{name}" if "." in module else f"torch.{name}"


def _function(module, name, _):
    message = _sentence(_full(module, name))

    def absent(*args, **kwargs):
        raise AbsentError(message)

    absent.__name__ = absent.__qualname__ = name
    absent.__module__ = module
    absent.__doc__ = f"Not available: {message}."
    absent.is_absent = True
    return absent


class _Object:
    """An object of PyTorch that is not here."""

    is_absent = True

    def __init__(self, full):
        self._full = full

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AbsentError(_sentence(f"{self._full}.{name}"))

    def __repr__(self):
        return f"<{self._full}, not available>"


class _Absent(type):
    """The class of absent classes, whose members are not there either."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise AbsentError(_sentence(f"{cls.__module__}.{cls.__qualname__}.{name}"))


@functools.cache
def _metaclass(*kinds):
    """A metaclass of absent classes that goes with those of the bases."""
    kinds = {_Absent, *kinds}
    needed = [kind for kind in kinds if not any(other is not kind and issubclass(other, kind) for other in kinds)]
    return needed[0] if len(needed) == 1 else type("_Absent", tuple(needed), {})


def _class(module, name, rest):
    interface = rest.startswith("interface")
    named = rest.removeprefix("interface").split()
    bases = tuple(_resolve(module, base) for base in named) or (object,)
    if any(issubclass(base, BaseException) for base in bases):
        return type(name, bases, {"__module__": module, "__doc__": f"PyTorch's {name}."})
    message = _sentence(_full(module, name))

    def __new__(cls, *args, **kwargs):
        if interface and cls is not made:
            # Classes that only say what others must have do nothing on their own.
            return object.__new__(cls)
        raise AbsentError(message)

    members = {"__module__": module, "__doc__": f"Not available: {message}.", "__new__": __new__,
               "__class_getitem__": classmethod(lambda cls, item: cls), "is_absent": True}
    metaclass = _metaclass(*dict.fromkeys(map(type, bases)))
    try:
        made = metaclass(name, bases, members)
    except TypeError:
        # Bases whose own bases are left out may have no common order.
        made = metaclass(name, bases[:1], members)
    return made


def _resolve(module, dotted):
    """The class of a dotted name."""
    home, _, name = dotted.rpartition(".")
    return getattr(_module(module, home or "builtins"), name)


def _module(asking, home):
    """A module by PyTorch's name, under the name of the package that asks."""
    root = asking.partition(".")[0]
    if home == "torch" or home.startswith("torch."):
        home = root + home[len("torch"):]
    loaded = sys.modules.get(home)
    if loaded is not None:
        return loaded
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError:
        # Parts of the native module are attributes of it only.
        parent, _, name = home.rpartition(".")
        if not parent.startswith(root):
            raise
        return getattr(_module(asking, parent), name)


def _from(module, name, rest):
    home, there = rest.split()
    return getattr(_module(module, home), there)


def _enumeration(module, name, rest):
    base, _, members = rest.partition(" ")
    kinds = {"Enum": enum.Enum, "IntEnum": enum.IntEnum, "Flag": enum.Flag, "IntFlag": enum.IntFlag,
             "StrEnum": enum.Enum}
    made = kinds[base](name, _literal(members), module=module, type=str if base == "StrEnum" else None)
    return made


def _named_tuple(module, name, rest):
    fields, _, defaults = rest.partition(" ")
    defaults = _literal(defaults or "{}")
    made = collections.namedtuple(name, fields.split(",") if fields else [], module=module,
                                  defaults=tuple(defaults.values()))
    made.__doc__ = f"PyTorch's {name}."
    return made


def _literal(text):
    import ast

    return ast.literal_eval(text)


def _value(module, name, rest):
    return set() if rest == "set()" else _literal(rest)


def _dtype(module, name, rest):
    """A value with the attributes of a dtype, which no operator takes."""
    import corten

    itemsize, signed = rest.split()
    full = _full(module, name)
    members = {
        "__slots__": (), "__class__": property(lambda self: corten.dtype), "itemsize": int(itemsize),
        "is_floating_point": False, "is_complex": False, "is_signed": signed == "True",
        "__repr__": lambda self: full, "is_absent": True,
        "__doc__": f"Not available: {_sentence(full)}.",
    }
    return type(f"{full}, a dtype that Corten does not have", (), members)()


def _logger(module, name, _):
    import logging

    return logging.getLogger(_full(module, name).rpartition(".")[0])


_MAKERS = {
    "def": _function,
    "class": _class,
    "from": _from,
    "import": lambda module, name, rest: _module(module, rest),
    "enum": _enumeration,
    "tuple": _named_tuple,
    "value": _value,
    "object": lambda module, name, _: _Object(_full(module, name)),
    "type": lambda module, name, _: typing.Any,
    "typevar": lambda module, name, _: typing.TypeVar(name),
    "logger": _logger,
    "dtype": _dtype,
}
