"""Data sets as pipes: each takes the samples of the one before it."""

from __future__ import annotations

from . import iter as iter
from . import map as map
