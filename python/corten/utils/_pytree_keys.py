"""Keys on the way from a tree to its leaves."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

KeyPath = tuple


class KeyEntry(Protocol):
    """One step on the way to a leaf."""

    def get(self, parent):
        """The child of a node at this step."""


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step to an element by its place."""

    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        """The element."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A step to the value of a key."""

    key: Any

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        """The value."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A step to an attribute."""

    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        """The attribute."""
        return getattr(obj, self.name)


for _class in (KeyEntry, SequenceKey, MappingKey, GetAttrKey):
    _class.__module__ = __name__.removesuffix("_keys")


def keystr(kp):
    """A path as the text that follows a variable: ``['a'][0].b``."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """What a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj
