"""Operators that give sizes: in traces they are the nodes of numbers that are not known."""

from __future__ import annotations

from corten import ops
from corten._schemas import parse_schema

__all__ = ["packet"]

_SCHEMAS = {
    "sym_size": {"int": "(Tensor self, int dim) -> SymInt", "default": "(Tensor self) -> SymInt[]"},
    "sym_stride": {"int": "(Tensor self, int dim) -> SymInt", "default": "(Tensor self) -> SymInt[]"},
    "sym_storage_offset": {"default": "(Tensor self) -> SymInt"},
    "sym_numel": {"default": "(Tensor self) -> SymInt"},
}
_FUNCTIONS = {
    "sym_size": lambda self, *dim: self.size(*dim), "sym_stride": lambda self, *dim: self.stride(*dim),
    "sym_storage_offset": lambda self: self.storage_offset(), "sym_numel": lambda self: self.numel(),
}


class _SizeOverload(ops.Overload):
    """One overload: a function of Python."""

    def __init__(self, name, overload):
        super().__init__(f"aten::{name}" + ("" if overload == "default" else f".{overload}"))
        self._function = _FUNCTIONS[name]
        self.__dict__["schema"] = parse_schema(self._qualified + _SCHEMAS[name][overload])
        self.__dict__["_is_composite"] = False

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __reduce__(self):
        packet_name, _, overload = self.__name__.partition(".")
        return _overload, (packet_name, overload)


def _overload(name, overload):
    return getattr(packet(name), overload)


class _SizePacket(ops.Packet):
    """The overloads of one operator."""

    def __init__(self, name):
        self._qualified_op_name, self.__name__ = f"aten::{name}", name
        self._overloads = ["" if one == "default" else one for one in _SCHEMAS[name]]
        for one in _SCHEMAS[name]:
            setattr(self, one, _SizeOverload(name, one))

    def __call__(self, *args, **kwargs):
        return _FUNCTIONS[self.__name__](*args, **kwargs)

    def __reduce__(self):
        return packet, (self.__name__,)


_packets = {}


def packet(name):
    """The operator of a name, or nothing."""
    if name not in _SCHEMAS:
        return None
    if name not in _packets:
        _packets[name] = _SizePacket(name)
    return _packets[name]
