"""Packages that moved to ``torch.ao.nn``, under their older names."""

from __future__ import annotations

import importlib
import pkgutil
import sys

__all__ = ["stand_in"]


def stand_in(older, newer):
    """Makes a package, with all that is in it, be found under an older name as well."""
    package = importlib.import_module(newer)
    sys.modules[older] = package
    for part in pkgutil.walk_packages(package.__path__, f"{newer}."):
        # Under PyTorch's name the modules are the same.
        sys.modules[older + part.name[len(newer):]] = importlib.import_module(part.name)
