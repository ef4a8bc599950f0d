"""Names of PyTorch that have no behaviour here: they can be imported, and say so when they are used.

Note [Absent names]: programs import more names than they use. Which ones PyTorch has is written down in
``names/*.txt``, as declarations of functions, classes and constants by module. A module of the
package answers for its own section when a name is missing, and a module that only has a section is
made of it. Functions and classes raise :class:`AbsentError` when they are called; exceptions, enumerations,
named tuples and constants are real. Nothing of this is loaded before such a name is asked for.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types

from corten._absent._completed import COMPLETED, PACKAGES

__all__ = ["AbsentError"]


class AbsentError(NotImplementedError, AttributeError):
    """Something of PyTorch that this package does not have was used. It is an ``AttributeError`` too, so
    that ``hasattr`` answers for members of absent classes."""


def _table():
    from corten._absent import _declarations

    return _declarations


def value_of(module, name):
    """What stands for a name of PyTorch that a module does not have.

    Raises:
        AttributeError: PyTorch does not have it either.
    """
    if not name.startswith("__"):
        try:
            return _table().value(module, name)
        except KeyError:
            pass
    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")


def complete(module):
    """Lets a module answer for PyTorch's names that it does not have."""
    space = vars(module)
    own = space.get("__getattr__")
    if hasattr(own, "answers_for_absent"):
        return

    def __getattr__(name):
        if own is None:
            error = None
        else:
            try:
                return own(name)
            except AttributeError as missing:
                error = missing
        if name == "__path__" and module.__name__.partition(".")[2] in PACKAGES:
            return []
        try:
            return value_of(module, name)
        except AttributeError as missing:
            raise error or missing from None

    __getattr__.answers_for_absent = True
    space["__getattr__"] = __getattr__


def complete_where_needed(module):
    """Completes a module that lacks names. In all others the interpreter remembers where the names of
    a module are, which it does only where there is no ``__getattr__``."""
    if module.__name__.partition(".")[2] in COMPLETED:
        complete(module)


def complete_native(module):
    """Completes the native module and its parts."""

    def further(name):
        from corten import _native_functions

        if name.startswith("__") or name not in vars(_native_functions):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return getattr(_native_functions, name)

    vars(module)["__getattr__"] = further
    complete(module)
    vars(module._nn)["__getattr__"] = further
    for name in ("_fft", "_functions", "_linalg", "_nested", "_nn", "_sparse", "_special"):
        part = vars(module).get(name)
        if part is not None:
            complete(part)


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Executes a module of the package and completes it."""

    def exec_module(self, module):
        super().exec_module(module)
        complete_where_needed(module)


class _SectionLoader:
    """Makes a module of a section."""

    def create_module(self, spec):
        # Parts of the native module are there before anyone imports them.
        parent, _, name = spec.name.rpartition(".")
        self.there = vars(sys.modules[parent]).get(name)
        return self.there if isinstance(self.there, types.ModuleType) else None

    def exec_module(self, module):
        if module is self.there:
            return
        vars(module)["__doc__"] = f"Names of PyTorch's ``{_torch_name(module.__name__)}`` without behaviour."
        vars(module)["__all__"] = _table().public_names(module.__name__)
        complete(module)
        if module.__name__.rpartition(".")[2] == "config":
            from corten.utils._config_module import install_config_module

            install_config_module(module)


def _torch_name(name):
    return "torch" + name[len(name.partition(".")[0]):]


def find_module(fullname, path, target, loader):
    """The specification of a module, whose source a class of loaders executes, or of one that has nothing but
    a section, or None."""
    spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
    if spec is not None:
        if type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = loader(fullname, spec.loader.path)
        return spec
    inside = _table().kind_of_section(fullname)
    if inside is None:
        return None
    return importlib.machinery.ModuleSpec(fullname, _SectionLoader(), is_package=inside == "package")


class _Finder:
    """Finds modules of this package, and completes them."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if not fullname.startswith("corten."):
            return None
        return find_module(fullname, path, target, SourceLoader)


def install():
    """Makes modules of the package answer for absent names from now on."""
    sys.meta_path.insert(0, _Finder)
