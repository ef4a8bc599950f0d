"""``import torch`` means this package: one set of modules, which have PyTorch's names from then on.

Note [One set of modules]: programs compare classes by identity and look at ``__module__``, so each
module exists once, under both names. After :func:`install_as_torch` modules are executed with their
names of PyTorch, from which classes and functions take their ``__module__``; what was loaded before
is renamed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import sys
import types

from corten import _C, _absent

_OURS, _THEIRS = "corten", "torch"
_SPAWN = "multiprocessing.spawn"

#: The version of PyTorch whose semantics this package has.
TORCH_VERSION = "2.15.0"


def _theirs(name):
    """PyTorch's name of one of our modules."""
    return _THEIRS + name[len(_OURS):]


def _is_ours(name):
    return isinstance(name, str) and (name == _OURS or name.startswith(_OURS + "."))


class _Source(_absent.SourceLoader):
    """Executes a module of this package that both names have."""

    def exec_module(self, module):
        ours = _OURS + module.__name__[len(_THEIRS):]
        sys.modules[ours] = module
        try:
            super().exec_module(module)
        except BaseException:
            sys.modules.pop(ours, None)
            raise


class _Same:
    """Loads ``corten.x`` as the module ``torch.x``."""

    def create_module(self, spec):
        module = importlib.import_module(_theirs(spec.name))
        # The import system is about to put another one there.
        self.kept = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.kept


class _Finder:
    """Finds ``torch.x`` in the files of this package, and ``corten.x`` as ``torch.x``."""

    def __init__(self, tell_new_processes):
        self.tell = tell_new_processes

    def find_spec(self, fullname, path=None, target=None):
        if self.tell and fullname == _SPAWN:
            return _spec_of_spawn(path)
        if self.tell and fullname.partition(".")[0] == "functorch":
            from corten._torch_distribution import spec_of_functorch

            return spec_of_functorch(fullname)
        if fullname.startswith(_THEIRS + "."):
            return _absent.find_module(fullname, path, target, _Source)
        if fullname.startswith(_OURS + "."):
            try:
                found = importlib.util.find_spec(_theirs(fullname))
            except ModuleNotFoundError:
                found = None
            if found is not None:
                inside = found.submodule_search_locations is not None
                return importlib.machinery.ModuleSpec(fullname, _Same(), is_package=inside)
        return None

    def find_distributions(self, context=None):
        """The metadata of ``torch``, which packages ask for its version, where no file has it."""
        wanted = getattr(context, "name", None)
        if not self.tell or (wanted is not None and wanted.lower() != _THEIRS):
            return ()
        from corten._torch_distribution import Unwritten

        return (Unwritten(),)


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


def _rename(value):
    """Gives a class or function PyTorch's name of its module."""
    if not _is_ours(getattr(value, "__module__", None)):
        return
    try:
        value.__module__ = _theirs(value.__module__)
    except (AttributeError, TypeError):
        # Objects of classes without such an attribute of their own.
        return
    if isinstance(value, type):
        for member in list(vars(value).values()):
            if isinstance(member, (type, types.FunctionType)):
                _rename(member)


def _rename_module(name, module):
    """Gives a module that was executed before PyTorch's name, and what it defines."""
    theirs = _theirs(name)
    module.__name__ = theirs
    spec = module.__spec__
    if spec is not None:
        inside = spec.submodule_search_locations
        loader = spec.loader
        if isinstance(loader, importlib.machinery.SourceFileLoader):
            loader = module.__loader__ = _Source(theirs, loader.path)
        named = importlib.machinery.ModuleSpec(
            theirs, loader, origin=spec.origin, is_package=inside is not None
        )
        named.submodule_search_locations = inside
        named.has_location, named.cached = spec.has_location, spec.cached
        module.__spec__, module.__package__ = named, named.parent
    for value in list(vars(module).values()):
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            _rename(value)
        elif isinstance(value, types.ModuleType) and value.__name__.startswith("corten._C."):
            # The operators of a namespace.
            for function in vars(value).values():
                _rename(function)
    sys.modules[theirs] = module


def install_as_torch(instead_of=None):
    """From now on ``import torch`` gives this package.

    Args:
        instead_of: The module of this name whose place the package takes.

    Raises:
        ImportError: The real PyTorch is loaded already.
    """
    loaded = sys.modules.get(_THEIRS)
    package = sys.modules[_OURS]
    if loaded is package:
        return
    if loaded is not None and loaded is not instead_of:
        raise ImportError("PyTorch is already imported in this process")
    # Processes of an environment with such a module find it themselves.
    finder = _Finder(tell_new_processes=instead_of is None)
    sys.meta_path.insert(0, finder)
    if finder.tell and _SPAWN in sys.modules:
        _tell_new_processes(sys.modules[_SPAWN])
    for name, module in list(sys.modules.items()):
        if _is_ours(name):
            _rename_module(name, module)
    # Extension modules of packages are linked to libraries of PyTorch. Where those cannot be made, importing such
    # a module says so.
    with contextlib.suppress(RuntimeError):
        _C._provide_stable_abi()
    # New processes find this function before they know the other name.
    install_as_torch.__module__ = _OURS + "._as_torch"
    version = importlib.import_module("torch.torch_version")
    package.__version__ = version.__version__ = version.TorchVersion(TORCH_VERSION)
    if "torch.version" in sys.modules:
        sys.modules["torch.version"].__version__ = TORCH_VERSION
