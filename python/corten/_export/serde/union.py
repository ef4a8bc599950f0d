"""Values of one of several kinds."""

from __future__ import annotations

from corten._export.serde.schema import Union as _Union  # noqa: F401

__all__ = []


def _union_dataclass(cls):
    """A class of values of one of several kinds."""
    cls._fields = dict(cls.__annotations__)
    return cls


