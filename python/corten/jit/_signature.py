"""Signatures of compiled functions: how arguments of Python become those of a program."""

from __future__ import annotations

import ast
import textwrap

from corten.jit._types import Type, converted


class Signature:
    """The arguments of a compiled function, and how those of Python are made theirs."""

    def __init__(self, node, given, kinds, defaults, compiler):
        self.name, self.names, self.kinds = node.name, [one.arg for one in given], kinds
        self.returns = None if node.returns is None else compiler.kind(node.returns)
        self.count_of_defaults, self.node, self._compiler = defaults, node, compiler

    @property
    def code(self):
        """The source of the function."""
        source = self._compiler.unit.sources.get(self._compiler.filename)
        if source is None:
            return ast.unparse(self.node) + "\n"
        lines = source.split("\n")[self.node.lineno - 1:self.node.end_lineno]
        return textwrap.dedent("\n".join(lines)) + "\n"

    def convert(self, args, kwargs):
        """Arguments of Python as those of the program.

        Raises:
            RuntimeError: One is not of its type.
        """
        made, named = list(args), {}
        try:
            for place, (kind, value) in enumerate(zip(self.kinds, args)):
                made[place] = converted(kind, value, self.names[place])
            for name, value in kwargs.items():
                kind = self.kinds[self.names.index(name)] if name in self.names else Type("Any")
                named[name] = converted(kind, value, name)
            self._check_count(args, kwargs)
        except TypeError as error:
            raise RuntimeError(f"{self.name}() {error}\nDeclaration: {self}") from None
        return made, named

    def _check_count(self, args, kwargs):
        if len(args) > len(self.names):
            raise TypeError(f"expected at most {len(self.names)} argument(s) but received {len(args)} argument(s).")
        unknown = [name for name in kwargs if name not in self.names]
        if unknown:
            raise TypeError(f"Unknown keyword argument '{unknown[0]}' for operator '{self.name}'.")
        required = self.names[len(args):len(self.names) - self.count_of_defaults]
        missing = [name for name in required if name not in kwargs]
        if missing:
            raise TypeError(f"is missing value for argument '{missing[0]}'.")

    def __str__(self):
        arguments = ", ".join(f"{kind} {name}" for name, kind in zip(self.names, self.kinds))
        return f"{self.name}({arguments}) -> {self.returns or 'Tensor'}"
