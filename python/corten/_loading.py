"""Reading PyTorch's two formats: the zip file and the older stream."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys

import corten

from . import _utils, _weights_only
from ._saving import LEGACY_MAGIC, LEGACY_PROTOCOL
from ._serialization_settings import assumed_byte_order, get_default_mmap_options, skips_data
from ._weights_only import StorageClass
from .storage import TypedStorage, _bytes_tensor, untyped

#: A compressed pickle that grows a hundredfold to more than this is refused: its objects take a
#: hundred times the memory again.
_LARGEST_INFLATED = 1 << 24


def _full_unpickler(pickle_module):
    class Unpickler(pickle_module.Unpickler):
        """Loads anything, with PyTorch's names read as this package's."""

        def find_class(self, module, name):
            special = _weights_only.torch_global(f"{module}.{name}")
            if special is not None:
                return special
            module = {"torch.tensor": "torch._tensor"}.get(module, module)
            if module == "torch" or module.startswith("torch."):
                module = "corten" + module[len("torch"):]
            return super().find_class(module, name)

    return Unpickler


class Options:
    """What the caller of ``load`` wants."""

    def __init__(self, place, is_meta, pickle_module, arguments):
        self.place = place  # (storage, location) -> storage where it shall be
        self.is_meta = is_meta  # everything goes to the meta device
        self.pickle_module = pickle_module  # None: weights only
        self.arguments = {"encoding": "utf-8", **arguments}

    def unpickle(self, file, persistent_load=None):
        """One pickle of a file, or in bytes."""
        weights_only = self.pickle_module is None
        if not weights_only and isinstance(file, bytes):
            file = io.BytesIO(file)
        cls = _weights_only.Unpickler if weights_only else _full_unpickler(self.pickle_module)
        unpickler = cls(file, **self.arguments)
        if persistent_load is not None:
            unpickler.persistent_load = persistent_load
        return unpickler.load()


class Storages:
    """Resolves references to storages; each is read once, by ``read(key, nbytes, dtype)``."""

    def __init__(self, read, options):
        self.read, self.options = read, options
        self.found = {}

    def __call__(self, saved_id):
        if type(saved_id) is not tuple:
            raise AssertionError(f"saved_id must be a tuple, got {type(saved_id).__name__}")
        dtype, key, location, nbytes = self._checked(saved_id)
        if (key, nbytes) not in self.found:
            if location == "meta" or self.options.is_meta:
                storage = corten.UntypedStorage(nbytes, device="meta")
            else:
                storage = self.read(key, nbytes, dtype)
                storage = self.options.place(storage, location)
            self.found[key, nbytes] = storage
        found = self.found[key, nbytes]
        return TypedStorage(wrap_storage=found, dtype=dtype, _internal=True)

    def _checked(self, saved_id):
        """The parts of a reference: dtype, key, device, bytes."""
        if len(saved_id) != 5:
            raise pickle.UnpicklingError(
                f"references to storages have 5 parts, not {len(saved_id)}"
            )
        kind, cls, key, location, count = saved_id
        if _text(kind) != "storage":
            raise AssertionError("Unknown typename for persistent_load, expected 'storage'")
        key, location = _text(key), _text(location)
        if not isinstance(cls, StorageClass) or type(key) is not str or type(location) is not str:
            raise pickle.UnpicklingError("a reference to a storage has parts of wrong types")
        dtype = corten.uint8 if cls.dtype is None else getattr(corten, cls.dtype)
        if type(count) is not int or not 0 <= count * dtype.itemsize < 2**63:
            raise pickle.UnpicklingError("a storage has an impossible size")
        return dtype, key, location, count * dtype.itemsize


def _text(value):
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def _with_checked_sparse(load):
    """The result of ``load()``; sparse tensors are checked when all their data are there."""
    pending, _utils.loading.sparse = getattr(_utils.loading, "sparse", None), []
    try:
        result = load()
        for check, parts in _utils.loading.sparse:
            check(*parts)
        return result
    finally:
        _utils.loading.sparse = pending


def read_zip(file, options, mapped=False):
    """The object of a zip file, which has a name or is open; if it has one, storages may be maps of it."""
    archive = opened_archive(file, mapped)
    if archive.has("constants.pkl"):
        return _read_program(archive, options)
    data = archive.read("data.pkl", _LARGEST_INFLATED)
    order = assumed_byte_order()
    if archive.has("byteorder"):
        order = archive.read("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order[:40].decode('latin-1')}")
        order = order.decode()

    def read(key, nbytes, dtype):
        if skips_data():
            return corten.UntypedStorage(nbytes)
        storage = archive.storage(f"data/{key}", nbytes)
        _utils.only_truths(storage, dtype)
        return storage if order == sys.byteorder else storage.byteswap(dtype)

    storages = Storages(read, options)
    return _with_checked_sparse(lambda: options.unpickle(data, storages))


def _read_program(archive, options):
    """The module of an archive of TorchScript.

    Raises:
        RuntimeError: Only weights are to be loaded.
    """
    import warnings

    from corten.jit._archive import module_of

    warnings.warn(
        "'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' (call "
        "'torch.jit.load' directly to silence this warning)", UserWarning, stacklevel=5,
    )
    if options.pickle_module is None:
        raise RuntimeError(
            "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. `torch.jit.load` reads "
            "them, of which nothing runs as Python"
        )
    return module_of(archive, options.place, options.is_meta)


def opened_archive(file, mapped=False):
    """The records of a zip file, which has a name or is open."""
    if not isinstance(file, (str, os.PathLike)):
        return corten._C._archive_of_file(file)
    if not mapped:
        return corten._C._archive_of_path(file)
    import mmap

    return corten._C._archive_of_path(file, get_default_mmap_options() == mmap.MAP_SHARED)


def read_into(file, view):
    """Fills memory from where a file is.

    Raises:
        RuntimeError: The file ends before.
    """
    fill, done = getattr(file, "readinto", None), 0
    while done < len(view):
        if fill is None:
            data = file.read(len(view) - done)
            view[done:done + len(data)] = data
            count = len(data)
        else:
            count = fill(view[done:])
        if not count:
            raise RuntimeError("unexpected end of file within a storage")
        done += count


class _Reserved:
    """Storages of a stream: their data come behind the pickle that asks for them."""

    def __init__(self, room):
        self.room = room  # bytes that the file has left, None where files do not say
        self.reserved = {}  # by key: (storage, dtype)
        self.views = {}

    def reserve(self, key, nbytes, dtype):
        """Memory for the data of a storage."""
        if key in self.reserved:
            raise RuntimeError(f"the storage {key[:80]} has two sizes")
        if self.room is not None:
            self.room -= nbytes
            if self.room < 0:
                raise RuntimeError("unexpected end of file: it is shorter than its storages")
        storage = corten.UntypedStorage(nbytes)
        self.reserved[key] = storage, dtype
        return storage

    def view(self, storage, metadata):
        """A part of a storage, which very old files refer to."""
        kinds = [type(part) for part in metadata] if type(metadata) is tuple else []
        if kinds[1:] != [int, int] or kinds[0] not in (str, bytes):
            raise pickle.UnpicklingError("a view of a storage has parts of wrong types")
        key, offset, count = metadata
        itemsize = storage.dtype.itemsize
        _utils.check_bounds(untyped(storage), itemsize, offset, (count,), (1,))
        if key not in self.views:
            part = untyped(storage)[offset * itemsize:(offset + count) * itemsize]
            self.views[key] = TypedStorage(wrap_storage=part, dtype=storage.dtype, _internal=True)
        return self.views[key]

    def fill(self, file, keys, swap):
        """Reads the data of all storages."""
        named = type(keys) is list and all(type(key) in (str, bytes) for key in keys)
        if not named or sorted(map(_text, keys)) != sorted(self.reserved):
            raise RuntimeError("the file's list of storages is not that of its tensors")
        for key in map(_text, keys):
            storage, dtype = self.reserved[key]
            head = file.read(8)
            if len(head) != 8:
                raise RuntimeError("unexpected end of file within a storage")
            count = struct.unpack("<q", head)[0]
            if count * dtype.itemsize != storage.nbytes():
                raise RuntimeError(
                    f"storage has wrong byte size: expected {storage.nbytes()} got "
                    f"{count * dtype.itemsize}"
                )
            read_into(file, _utils.byte_view(storage))
            _utils.only_truths(storage, dtype)
            if swap:
                storage.byteswap(dtype)


def _room(file):
    try:
        here = file.tell()
        file.seek(0, 2)
        end = file.tell()
        file.seek(here)
    except (OSError, ValueError):  # compressed files
        return None
    return end - here


def read_legacy(file, options):
    """The object of a stream."""
    _refuse_tar(file)
    if options.unpickle(file) != LEGACY_MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = options.unpickle(file)
    if type(protocol) is not int or protocol != LEGACY_PROTOCOL:
        raise RuntimeError("Invalid protocol version")
    info = options.unpickle(file)
    if type(info) is not dict or type(info.get("little_endian")) is not bool:
        raise RuntimeError("the file does not say its byte order")
    return _with_checked_sparse(lambda: _read_stream(file, options, info["little_endian"]))


def _read_stream(file, options, is_little):
    waiting = _Reserved(_room(file))
    moved = []

    def place(storage, location):
        found = options.place(storage, location)
        if found is not storage:
            moved.append((storage, found))
        return found

    direct = Options(place, options.is_meta, options.pickle_module, options.arguments)
    storages = Storages(waiting.reserve, direct)

    def persistent_load(saved_id):
        if type(saved_id) is tuple and saved_id and _text(saved_id[0]) == "module":
            return saved_id[1]
        metadata = saved_id[5] if type(saved_id) is tuple and len(saved_id) == 6 else None
        found = storages(saved_id[:5])
        return found if metadata is None else waiting.view(found, metadata)

    result = options.unpickle(file, persistent_load)
    keys = options.unpickle(file)
    if not (skips_data() or options.is_meta):
        waiting.fill(file, keys, is_little != (sys.byteorder == "little"))
    for source, target in moved:
        if target.device.type != "meta" and target.nbytes() == source.nbytes():
            _bytes_tensor(target).copy_(_bytes_tensor(source))
    return result


def _refuse_tar(file):
    here = file.tell()
    head = file.read(512)
    file.seek(here)
    if head[257:262] == b"ustar":
        raise RuntimeError(
            "Cannot use ``weights_only=True`` with files saved in the legacy .tar format, which is "
            "not read at all: load the file with PyTorch and save it again"
        )
