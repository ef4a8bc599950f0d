"""``corten ops --missing PACKAGE``: names of PyTorch that a package uses and this one lacks.

The package's files are read, not run: what is reached as ``torch.x.y``, under whatever name it was imported,
is looked up here.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import NamedTuple

__all__ = ["Use", "files_of", "main", "missing", "uses"]

#: Packages under whose names PyTorch is found.
_ROOTS = ("torch", "corten")
_GUARDS = frozenset((
    "ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException", "RuntimeError",
))


class Use(NamedTuple):
    """One place where a name is used."""

    name: str
    file: str
    line: int
    #: Whether the place is run when the module is imported.
    at_import: bool
    #: Whether the program goes on without the name, as after ``except ImportError``.
    guarded: bool


class _Reader(ast.NodeVisitor):
    """Collects the uses of one file."""

    def __init__(self, file, tree):
        self.file, self.found, self.known = file, [], {}
        self.depth = self.guards = 0
        self.lazy_annotations = any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names) for node in tree.body
        )
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.bind(node)
        self.visit(tree)

    def bind(self, node):
        """Remembers which names of the file mean modules or names of PyTorch."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in _ROOTS:
                    here = alias.asname or alias.name.partition(".")[0]
                    self.known[here] = alias.name if alias.asname else here
        elif _is_torch(node):
            for alias in node.names:
                self.known[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def add(self, name, node):
        self.found.append(Use(name, self.file, node.lineno, not self.depth, bool(self.guards)))

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.partition(".")[0] in _ROOTS:
                self.add(alias.name, node)

    def visit_ImportFrom(self, node):
        if _is_torch(node):
            for alias in node.names:
                self.add(node.module if alias.name == "*" else f"{node.module}.{alias.name}", node)

    def visit_Attribute(self, node):
        names, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.known:
            if isinstance(node.ctx, ast.Load):
                self.add(".".join((self.known[inner.id], *reversed(names))), node)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        arguments = node.args
        outer = [*node.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)]
        if not self.lazy_annotations:
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            outer += [one.annotation for one in every if one is not None and one.annotation is not None]
            outer += [node.returns] if node.returns is not None else []
        for part in outer:
            self.visit(part)
        self.inside(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.inside([node.body])

    def inside(self, body):
        """What a function does."""
        self.depth += 1
        for part in body:
            self.visit(part)
        self.depth -= 1

    def visit_AnnAssign(self, node):
        if not (self.lazy_annotations or self.depth):
            self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node):
        names = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
        names |= {part.attr for part in ast.walk(node.test) if isinstance(part, ast.Attribute)}
        if "TYPE_CHECKING" in names:
            for part in node.orelse:
                self.visit(part)
            return
        guard = "hasattr" in names
        self.visit(node.test)
        self.guards += guard
        for part in node.body:
            self.visit(part)
        self.guards -= guard
        for part in node.orelse:
            self.visit(part)

    def visit_Try(self, node):
        caught = set()
        for handler in node.handlers:
            kinds = ast.walk(handler.type) if handler.type is not None else ()
            caught |= {part.id for part in kinds if isinstance(part, ast.Name)} or {"BaseException"}
        guard = bool(caught & _GUARDS)
        self.guards += guard
        for part in node.body:
            self.visit(part)
        self.guards -= guard
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)


def _is_torch(node):
    return node.level == 0 and node.module is not None and node.module.partition(".")[0] in _ROOTS


def files_of(package):
    """The files of an installed package or module, or of a path.

    Raises:
        ModuleNotFoundError: There is none of this name.
    """
    if package.endswith(".py") or Path(package).is_dir():
        path = Path(package)
        return [path] if path.is_file() else sorted(path.rglob("*.py"))
    spec = importlib.util.find_spec(package.partition(".")[0])
    if spec is None:
        raise ModuleNotFoundError(f"there is no package {package!r}", name=package)
    if not spec.submodule_search_locations:
        return [Path(spec.origin)]
    folder = Path(next(iter(spec.submodule_search_locations)), *package.split(".")[1:])
    if not folder.is_dir():
        return [folder.with_suffix(".py")]
    return sorted(folder.rglob("*.py"))


def uses(path):
    """The places of a file where names of PyTorch are used; nothing where it is no Python."""
    text = Path(path).read_bytes()
    if not any(root.encode() in text for root in _ROOTS):
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    return _Reader(str(path), tree).found


def _look_up(name, _known={}):  # noqa: B006
    """``ok``, or the part of a name that is ``missing``, or that ``raises`` when it is used."""
    if name not in _known:
        _known[name] = _looked_up(name.split("."))
    return _known[name]


def _looked_up(parts):
    found = importlib.import_module("corten")
    for count, part in enumerate(parts[1:], 2):
        if not isinstance(found, (types.ModuleType, type)):
            break
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(".".join(["corten", *parts[1:count]]))
            except ImportError:
                return "missing", ".".join(["torch", *parts[1:count]])
        if getattr(found, "is_absent", False) is True:
            return "raises", ".".join(["torch", *parts[1:count]])
    return "ok", None


def missing(package):
    """The uses of names that are missing here or raise when they are used: pairs of that and the use."""
    rows = []
    for path in files_of(package):
        for use in uses(path):
            state, name = _look_up(use.name)
            if state != "ok":
                rows.append((state, use._replace(name=name)))
    return rows


def _show(rows, state, title):
    chosen = {}
    for kind, use in rows:
        if kind == state:
            chosen.setdefault(use.name, []).append(use)
    sys.stdout.write(f"{title}: {len(chosen)}\n")
    for name, places in sorted(chosen.items(), key=lambda pair: (not pair[1][0].at_import, pair[0])):
        first = min(places, key=lambda use: (not use.at_import, use.guarded))
        when = "at import" if first.at_import else "inside a function"
        also = f", and {len(places) - 1} more" if len(places) > 1 else ""
        guard = ", guarded" if first.guarded else ""
        sys.stdout.write(f"  {name}  {first.file}:{first.line}  {when}{guard}{also}\n")


def main(arguments):
    """Prints the names that packages lack."""
    as_json = "--json" in arguments
    packages = [one for one in arguments if not one.startswith("-")]
    if not packages:
        sys.exit("usage: corten ops --missing PACKAGE… [--json]")
    rows = []
    for package in packages:
        try:
            rows += missing(package)
        except ModuleNotFoundError as error:
            sys.exit(str(error))
    if as_json:
        json.dump([{"state": state, **use._asdict()} for state, use in rows], sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    _show(rows, "missing", "Names that are not there (of devices of other makers and of other versions, mostly)")
    _show(rows, "raises", "Names that can be imported and raise when they are used")
