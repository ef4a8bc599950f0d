"""Archives of TorchScript: the zip files that ``torch.jit.save`` writes."""

from __future__ import annotations

import os
import pickle

import corten
from corten import _weights_only
from corten._loading import Options, Storages, opened_archive
from corten.jit._classes import Unit
from corten.jit._modules import LoadedModule, with_state
from corten.jit._pickle import Global, Reader

#: The versions of files that are read.
OLDEST, NEWEST = 1, 10
_LARGEST = 1 << 26


class Archive:
    """An open archive."""

    def __init__(self, records, place, is_meta):
        self.records, self.place, self.is_meta = records, place, is_meta
        if not self.records.has("constants.pkl") and not self.records.has("data.pkl"):
            self._refuse()
        self.version = self._version()
        self.unit = None

    def _refuse(self):
        if self.records.has("model.json"):
            raise RuntimeError("archives of TorchScript from before version 1.2 of PyTorch, with a model.json, are not read")
        raise RuntimeError("PytorchStreamReader failed locating file constants.pkl: file not found")

    def _version(self):
        for name in ("version", ".data/version"):
            if self.records.has(name):
                text = bytes(self.records.read(name)).strip()
                if not text.isdigit() or len(text) > 6:
                    raise RuntimeError("the archive does not say its version")
                version = int(text)
                if version > NEWEST:
                    raise RuntimeError(
                        f"Attempted to read a PyTorch file with version {version}, but the maximum supported version for "
                        f"reading is {NEWEST}. Your PyTorch installation may be too old."
                    )
                return version
        raise RuntimeError("PytorchStreamReader failed locating file version: file not found")

    def sources(self):
        """The files of code by name."""
        found = {}
        for name in self.records.names():
            if name.startswith("code/") and name.endswith(".py"):
                try:
                    found[name] = bytes(self.records.read(name, _LARGEST)).decode()
                except UnicodeDecodeError:
                    raise RuntimeError(f"{name[:100]} is not text") from None
        return found

    def pickled(self, name):
        """The value of a pickle of the archive; its storages are in the folder of its name."""
        options = Options(self.place, self.is_meta, None, {})

        def read(key, nbytes, dtype):
            return self.records.storage(f"{name}/{key}", nbytes)

        storages = Storages(read, options)

        def storage(saved_id):
            if type(saved_id) is not tuple or len(saved_id) != 5 or not isinstance(saved_id[1], Global):
                raise RuntimeError("a reference to a storage has parts of wrong types")
            kind = _weights_only.torch_global(f"{saved_id[1].module}.{saved_id[1].name}")
            return storages((saved_id[0], kind, *saved_id[2:]))

        data = self.records.read(f"{name}.pkl", _LARGEST)
        try:
            return Reader(data, self.unit.find_class, with_state, storage).load()
        except (pickle.UnpicklingError, AssertionError) as error:
            raise RuntimeError(str(error)) from error

    def load(self):
        """The module."""
        self.unit = Unit({}, version=self.version, make_module=LoadedModule)
        constants = self.pickled("constants") if self.records.has("constants.pkl") else ()
        if not isinstance(constants, (tuple, list)):
            constants = (constants,)
        self.unit = Unit(self.sources(), tuple(constants), self.version, LoadedModule)
        module = self.pickled("data")
        self.unit.parameters.clear()
        if not isinstance(module, LoadedModule):
            raise RuntimeError("the archive holds no module")
        return module

    def extra_files(self, wanted):
        """Fills a dictionary with the files that a user added to the archive."""
        for name in wanted:
            record = f"extra/{name}"
            if self.records.has(record):
                wanted[name] = bytes(self.records.read(record))


def _place(map_location):
    from corten.serialization import _placer

    if isinstance(map_location, str):
        map_location = corten.device(map_location)
    return _placer(map_location), isinstance(map_location, corten.device) and map_location.type == "meta"


def module_of(records, place, is_meta):
    """The module of an archive that is open; ``place`` puts storages where they are wanted."""
    return Archive(records, place, is_meta).load()


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Loads a module that :func:`corten.jit.save` or PyTorch wrote. Its code is compiled to functions of
    Python that can call operators alone: nothing of an archive runs as Python that it holds.

    Args:
        f: A path, or a file that is open for reading.
        map_location: The device that tensors go to.
        _extra_files: A dictionary; the values of its names are read from the archive.

    Raises:
        ValueError: There is no such file.
        RuntimeError: It is no archive, or a damaged one, or holds code that is no TorchScript.
    """
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
    archive = Archive(opened_archive(f), *_place(map_location))
    module = archive.load()
    if _extra_files is not None:
        archive.extra_files(_extra_files)
    return module
