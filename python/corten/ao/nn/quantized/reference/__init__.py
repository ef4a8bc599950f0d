"""Reference modules: computations in float with weights that are quantized and dequantized."""

from .modules import *  # noqa: F401, F403
from .modules import __all__  # noqa: F401
