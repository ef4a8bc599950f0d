"""``import torch`` means this package: the same module objects under PyTorch's names."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys

_OURS, _THEIRS = "corten", "torch"
_SPAWN = "multiprocessing.spawn"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch.x`` as ``corten.x``."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == _SPAWN:
            return _spec_of_spawn(path)
        if fullname != _THEIRS and not fullname.startswith(_THEIRS + "."):
            return None
        ours = _OURS + fullname[len(_THEIRS):]
        try:
            found = ours in sys.modules or importlib.util.find_spec(ours) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        module = importlib.import_module(_OURS + spec.name[len(_THEIRS):])
        # The import system is about to put its own attributes on the module.
        self._kept = {
            name: getattr(module, name, None)
            for name in ("__spec__", "__loader__", "__package__", "__path__", "__name__")
        }
        return module

    def exec_module(self, module):
        for name, value in self._kept.items():
            if value is not None:
                setattr(module, name, value)
            elif hasattr(module, name):
                delattr(module, name)


class _AsHere:
    """Part of what a new process is told first: there, too, ``import torch`` gives this package."""

    def __reduce__(self):
        return install_as_torch, ()


def _tell_new_processes(spawn):
    """Lets the processes that ``multiprocessing.spawn`` starts begin as this one."""
    prepare = spawn.get_preparation_data

    @functools.wraps(prepare)
    def get_preparation_data(name):
        return {"import torch": _AsHere(), **prepare(name)}

    spawn.get_preparation_data = get_preparation_data


def _spec_of_spawn(path):
    """Where the module is, with :func:`_tell_new_processes` to come after it."""
    spec = importlib.machinery.PathFinder.find_spec(_SPAWN, path)
    execute = spec.loader.exec_module

    def exec_module(module):
        execute(module)
        _tell_new_processes(module)

    spec.loader.exec_module = exec_module
    return spec


def install_as_torch():
    """From now on ``import torch`` gives this package.

    Raises:
        ImportError: The real PyTorch is loaded already.
    """
    import importlib.util  # noqa: F401

    loaded = sys.modules.get(_THEIRS)
    package = sys.modules[_OURS]
    if loaded is package:
        return
    if loaded is not None:
        raise ImportError("PyTorch is already imported in this process")
    sys.meta_path.insert(0, _Finder())
    if _SPAWN in sys.modules:
        _tell_new_processes(sys.modules[_SPAWN])
    sys.modules[_THEIRS] = package
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS + "."):
            sys.modules[_THEIRS + name[len(_OURS):]] = module
