"""Modules made of parts that can be observed and quantized one by one."""

from .modules import *  # noqa: F401, F403
from .modules import __all__  # noqa: F401
