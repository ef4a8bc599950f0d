"""How this build was made."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show():
    """A text about the build."""
    import corten

    return f"Corten {corten.__version__}: CPU kernels in Rust, instruction sets chosen at run time\n"


def _cxx_flags():
    """The flags of a C++ compiler: there are none, since no C++ is compiled."""
    return ""


def parallel_info():
    """A text about threads."""
    import corten

    return f"threads of one operator: {corten.get_num_threads()}\n"
