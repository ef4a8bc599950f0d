"""How this build was made."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show():
    """A text about the build."""
    import corten

    return f"Corten {corten.__version__}: CPU kernels in Rust, instruction sets chosen at run time\n"


def parallel_info():
    """A text about threads."""
    import corten

    return f"threads of one operator: {corten.get_num_threads()}\n"
