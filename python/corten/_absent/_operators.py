"""Operators of PyTorch that there are not here: they can be named, and say so when they are called."""

from __future__ import annotations

import functools

from corten._absent import AbsentError
from corten._absent._declarations import FOLDER


@functools.cache
def _names():
    """The overloads of each operator that is not here, by namespace and name."""
    found, packets = {}, None
    for line in (FOLDER / "operators.txt").read_text().splitlines():
        if line.startswith("["):
            packets = found[line.strip("[]")] = {}
        else:
            name, *overloads = line.split()
            packets[name] = overloads
    return found


class AbsentOverload:
    """One overload of an operator that is not here."""

    is_absent = True

    def __init__(self, space, name, overload):
        self.namespace, self._packet, self._overloadname = space, name, overload
        self.__name__ = f"{name}.{overload}"

    def __call__(self, *args, **kwargs):
        raise AbsentError(f"torch.ops.{self} is an operator of PyTorch that Corten does not have")

    @property
    def overloadpacket(self):
        """The operator that this is an overload of."""
        from corten import ops

        return getattr(getattr(ops, self.namespace), self._packet)

    def name(self):
        """``aten::add.Tensor``."""
        end = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self._packet}{end}"

    def __str__(self):
        return f"{self.namespace}.{self._packet}.{self._overloadname}"

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self._packet}', overload='{self._overloadname}')>"


class AbsentPacket:
    """An operator that is not here."""

    is_absent = True

    def __init__(self, space, name):
        self._qualified_op_name, self.__name__ = f"{space}::{name}", name
        self._overload_names = _names()[space][name]
        for overload in self._overload_names:
            setattr(self, overload, AbsentOverload(space, name, overload))

    def overloads(self):
        """The names of the overloads."""
        return list(self._overload_names)

    def __call__(self, *args, **kwargs):
        raise AbsentError(f"torch.ops.{self} is an operator of PyTorch that Corten does not have")

    def __str__(self):
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self}')>"


def packet(space, name):
    """An operator that is not here, or None where PyTorch has none of this name either."""
    return AbsentPacket(space, name) if name in _names().get(space, ()) else None


def overload(space, name, which):
    """An overload that is not here of an operator that is, or None."""
    known = _names().get(space, {}).get(name, ())
    return AbsentOverload(space, name, which) if which in known else None
