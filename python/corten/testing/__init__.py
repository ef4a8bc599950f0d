"""Comparisons for tests, and tensors of random numbers."""

from __future__ import annotations

from corten.testing._comparison import assert_allclose, assert_close
from corten.testing._creation import make_tensor
from corten.testing._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
