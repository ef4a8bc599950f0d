"""Classes of tensors of the library itself."""

from __future__ import annotations

from corten._subclasses import fake_tensor  # noqa: F401

__all__ = []
