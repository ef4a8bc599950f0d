"""Classes of tensors of the library itself."""

from __future__ import annotations

from corten._subclasses import fake_tensor  # noqa: F401

from .fake_tensor import (
    DynamicOutputShapeException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException,
)

__all__ = ["DynamicOutputShapeException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]
