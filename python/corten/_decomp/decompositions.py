"""All decompositions under one name."""

from __future__ import annotations

from ._register import opmath as pw_cast_for_opmath  # noqa: F401
from ._register import register_decomposition  # noqa: F401
from .images import *  # noqa: F403
from .pointwise import *  # noqa: F403
from .reductions import *  # noqa: F403
from .shapes import *  # noqa: F403
