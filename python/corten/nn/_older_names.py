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
        module = importlib.import_module(part.name)
        inside = part.name[len(newer):]
        sys.modules[older + inside] = module
        if inside.startswith(".reference"):
            # The only part whose own name changed.
            sys.modules[f"{older}._reference{inside[len('.reference'):]}"] = module
            package._reference = package.reference
