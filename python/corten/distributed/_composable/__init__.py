"""Functions that change a module in place."""

from .checkpoint_activation import checkpoint  # noqa: F401
from .contract import _get_registry, contract  # noqa: F401
from .replicate import replicate  # noqa: F401
