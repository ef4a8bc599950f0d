"""The functions of :mod:`corten.optim.functional` by their older place."""

from __future__ import annotations

from .functional import *  # noqa: F403
from .functional import __all__  # noqa: F401
