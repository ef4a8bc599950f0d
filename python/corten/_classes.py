"""``torch.classes``: the packed parameters of quantised layers. Libraries of C++ cannot add classes here."""

from __future__ import annotations

import types

__all__ = ["classes"]


class _Namespace(types.ModuleType):
    """The classes of one library."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        library = self.__name__.rpartition(".")[2]
        if library in ("quantized", "rnn"):
            from corten._quantized import embedding, packed, recurrent  # noqa: F401

            found = packed.CLASSES.get(f"__torch__.torch.classes.{library}.{name}")
            if found is not None:
                return found
        raise RuntimeError(
            f"Class {library}.{name} could not be instantiated: libraries of C++ classes are not loaded here"
        )


class _Classes(types.ModuleType):
    """What ``torch.classes`` is."""

    #: The paths of the libraries that were loaded.
    loaded_libraries = frozenset()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = _Namespace(f"torch.classes.{name}")
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path):
        """Refused: libraries are linked to PyTorch's own.

        Raises:
            OSError: Always.
        """
        raise OSError(f"{path}: libraries of C++ classes are linked to PyTorch and cannot be loaded here")


classes = _Classes("torch.classes")
