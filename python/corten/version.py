"""Which version this is."""

import corten
from corten import _C


__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = str(corten.__version__)
#: The version of CUDA that the back end is written for, where this build has it.
cuda = "13.0" if "_cuda_init" in vars(_C) else None
hip = None
rocm = None
xpu = None
debug = False
git_version = ""
