"""Which version this is."""

from corten._C import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

cuda = None
hip = None
rocm = None
xpu = None
debug = False
git_version = ""
