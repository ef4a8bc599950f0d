"""Classes, functions and constants of an archive of TorchScript, found by qualified names and compiled
when they are first needed."""

from __future__ import annotations

import ast
import collections
import enum

from corten.jit import _operators, _running
from corten.jit._language import Compiler, SourceError, parsed
from corten.jit._types import dotted, parse
from corten.jit._upgrades import upgraded


class Methods:
    """The methods of a class, compiled one by one."""

    def __init__(self, unit, filename, owner):
        self.nodes, self._made = {}, {}
        self._unit, self._filename, self._owner = unit, filename, owner

    def __contains__(self, name):
        return name in self.nodes

    def __iter__(self):
        return iter(self.nodes)

    def get(self, name):
        """A compiled method, or None."""
        found = self._made.get(name)
        if found is None and name in self.nodes:
            compiler = Compiler(self._unit, self._filename, self._owner)
            found = self._made[name] = compiler.function(self.nodes[name])
        return found

    __getitem__ = get


class Declared:
    """A class of the archive: what it is, its attributes with their types, its methods."""

    def __init__(self, unit, name, kind, filename):
        self.unit, self.name, self.kind = unit, name, kind
        self.attributes, self.constants, self.properties = {}, {}, {}
        self.parameters, self.buffers = (), ()
        self.methods = Methods(unit, filename, self)
        self.python = None

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Unit.find_class, (self.unit, self.name)

    @property
    def short(self):
        """The name without the module."""
        return self.name.rpartition(".")[2]

    def qualified_name(self):
        """The name with the module."""
        return self.name

    def empty(self):
        """An object without attributes."""
        if self.kind == "module":
            return self.unit.make_module(self)
        return _running.ScriptObject(self)

    def of_values(self, arguments):
        """An enum or a tuple with names, of its values; an object of a class, by ``__init__``."""
        if self.kind == "enum":
            return self.python(*arguments)
        if self.kind == "tuple":
            return self.python(*arguments)
        raise RuntimeError(f"{self.name[:100]} is no class that is made of values")

    def construct(self, *arguments, **named):
        """A call of the class."""
        if self.kind in ("enum", "tuple"):
            return self.python(*arguments, **named)
        made = self.empty()
        _running.method(made, "__init__", *arguments, **named)
        return made


_KINDS = {"Module": "module", "NamedTuple": "tuple", "Enum": "enum", "Interface": "interface", "ModuleInterface": "interface"}


class Unit:
    """The code of an archive."""

    def __init__(self, sources, constants=(), version=10, make_module=None):
        self.sources, self.constants, self.version, self.make_module = dict(sources), constants, version, make_module
        self._trees, self._found, self._begun = {}, {}, set()
        self.parameters = {}  # while an archive is read, the parameters that its tensors became

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Unit, (self.sources, self.constants, self.version, self.make_module)

    def global_value(self, name):
        """Values of names that are not qualified: none."""
        return None

    def operator(self, qualified, overload):
        """An operator as it was in the archive's version."""
        found = upgraded(qualified, overload, self.version)
        if found is not None:
            return found
        try:
            return _operators.operator(qualified, overload)
        except RuntimeError as error:
            # Branches that are never taken may call what is not here.
            return _operators.missing(str(error))

    def constant_of(self, name):
        """``CONSTANTS.c0``."""
        number = name.removeprefix("CONSTANTS.c")
        if not number.isdecimal() or int(number) >= len(self.constants):
            raise SourceError(f"the archive has no constant {name[:80]!r}")
        return self.constants[int(number)]

    def find_class(self, name):
        """A class by its qualified name.

        Raises:
            RuntimeError: There is none.
        """
        found = self._find(name)
        if not isinstance(found, Declared):
            raise SourceError(f"Unknown type name '{name[:200]}'")
        return found

    def find_value(self, name):
        """A function, a class to be called, or the value of an enum."""
        found = self._find(name)
        if found is None:
            owner, _, member = name.rpartition(".")
            declared = self._find(owner)
            if isinstance(declared, Declared) and declared.kind == "enum" and member in declared.python.__members__:
                return declared.python[member]
            raise SourceError(f"the archive has no function or class {name[:200]!r}")
        return found.construct if isinstance(found, Declared) else found

    def _find(self, name):
        if name in self._found:
            return self._found[name]
        module, _, last = name.rpartition(".")
        filename = f"code/{module.replace('.', '/')}.py"
        node = self._definitions(filename).get(last)
        if node is None:
            return None
        if isinstance(node, ast.ClassDef):
            return self._declare(node, name, filename)
        if name in self._begun:
            raise SourceError(f"function '{name[:100]}' is called recursively. Recursive calls are not supported")
        self._begun.add(name)
        found = self._found[name] = Compiler(self, filename).function(node)
        return found

    def _definitions(self, filename):
        """The definitions of a file by name."""
        if filename not in self._trees:
            source = self.sources.get(filename)
            found = {}
            for node in parsed(source, filename).body if source is not None else ():
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    found[node.name] = node
                elif not _is_version(node):
                    raise SourceError(f"{filename}, line {node.lineno}: only functions and classes are defined here")
            self._trees[filename] = found
        return self._trees[filename]

    def _declare(self, node, name, filename):
        bases = [dotted(base) for base in node.bases]
        if len(bases) > 1 or node.decorator_list or node.keywords:
            raise SourceError(f"{filename}, line {node.lineno}: a class has one base")
        kind = _KINDS.get(bases[0].rpartition(".")[2]) if bases else "class"
        if kind is None:
            raise SourceError(f"{filename}, line {node.lineno}: {bases[0][:80]} is no base of classes")
        declared = self._found[name] = Declared(self, name, kind, filename)
        defaults = {}
        for statement in node.body:
            self._member(declared, statement, defaults, filename)
        if kind == "tuple":
            fields = [str(field) for field in declared.attributes]
            values = [defaults[field] for field in fields if field in defaults]
            declared.python = collections.namedtuple(node.name, fields, defaults=values)
            declared.python._script_name = name
        elif kind == "enum":
            declared.python = enum.Enum(node.name, list(defaults.items()))
            declared.python._script_enum = name
        return declared

    def _member(self, declared, node, defaults, filename):
        """One statement of the body of a class."""
        if isinstance(node, ast.FunctionDef):
            declared.methods.nodes[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self._attribute(declared, node, defaults)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Subscript):
            declared.attributes[_text(node.target.slice)] = parse(node.annotation, self.find_class)
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Subscript):
                declared.attributes[_text(target.slice)] = parse(node.value, self.find_class)
            elif target.id in ("__parameters__", "__buffers__"):
                setattr(declared, target.id.strip("_"), tuple(map(_text, node.value.elts)))
            elif declared.kind == "enum":
                defaults[target.id] = Compiler(self, filename).value_of(node.value)
            elif not target.id.startswith("__"):
                raise SourceError(f"{filename}, line {node.lineno}: attributes have types")
        elif not isinstance(node, (ast.Pass, ast.Expr)):
            raise SourceError(f"{filename}, line {node.lineno}: {type(node).__name__} is no part of a class")

    def _attribute(self, declared, node, defaults):
        """``name : type``, with a value for constants and the fields of tuples."""
        name, kind = node.target.id, parse(node.annotation, self.find_class)
        if name.startswith("__"):
            raise SourceError(f"the attribute {name[:80]!r} is reserved")
        if node.value is None:
            declared.attributes[name] = kind
            return
        value = Compiler(self, "code").value_of(node.value)
        if declared.kind == "tuple":
            declared.attributes[name], defaults[name] = kind, value
        else:
            declared.constants[name] = value


def _is_version(node):
    """Lines of old archives: ``op_version_set = 1`` and ``import __torch__.a``, which say nothing here."""
    if isinstance(node, ast.Import):
        return all(one.name.partition(".")[0] == "__torch__" for one in node.names)
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)


def _text(node):
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise SourceError("the name of an attribute is a string")
    return node.value


