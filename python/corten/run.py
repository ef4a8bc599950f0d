"""``python -m corten.run script.py args``: runs a program written for PyTorch on this package."""

from __future__ import annotations

import runpy
import sys


def main(arguments):
    """Runs ``script.py`` or ``-m module`` with ``torch`` meaning ``corten``."""
    from corten._as_torch import install_as_torch

    if not arguments:
        sys.exit("usage: python -m corten.run [-m module | script.py] [arguments]")
    install_as_torch()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            sys.exit("argument expected for -m")
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    import os

    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
