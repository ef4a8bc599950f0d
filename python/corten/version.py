"""Which version this is."""

import corten


__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = str(corten.__version__)
cuda = None
hip = None
rocm = None
xpu = None
debug = False
git_version = ""
