"""Saving objects with tensors to files, in PyTorch's formats, and loading them."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
from contextlib import contextmanager

import corten

from . import _utils, _weights_only
from ._serialization_settings import (
    LoadEndianness, SourceChangeWarning, StorageType, assumed_byte_order,
    check_module_version_greater_or_equal, default_restore_location, get_crc32_options,
    get_default_load_endianness, get_default_mmap_options, get_unsafe_globals_in_checkpoint,
    mkdtemp, normalize_storage_type, set_crc32_options, set_default_load_endianness,
    set_default_mmap_options, skip_data, skips_data, storage_to_tensor_type, validate_cuda_device,
    validate_hpu_device,
)
from ._weights_only import StorageClass, add_safe_globals

__all__ = [
    "LoadEndianness", "SourceChangeWarning", "StorageType", "add_safe_globals",
    "check_module_version_greater_or_equal", "clear_safe_globals", "default_restore_location",
    "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
    "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "location_tag", "mkdtemp",
    "normalize_storage_type", "register_package", "safe_globals", "save", "set_crc32_options",
    "set_default_load_endianness", "set_default_mmap_options", "skip_data",
    "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
]

_ALIGNMENT = 64
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_LARGE = 2**31 - 1


def get_safe_globals():
    """The functions and classes that were added to those a weights-only load may use."""
    return list(_weights_only._user_globals.values())


def clear_safe_globals():
    """Forgets them."""
    _weights_only._user_globals.clear()


@contextmanager
def safe_globals(objects):
    """Adds some for the length of a ``with`` block."""
    before = dict(_weights_only._user_globals)
    add_safe_globals(objects)
    try:
        yield
    finally:
        _weights_only._user_globals.clear()
        _weights_only._user_globals.update(before)


_packages = []


def register_package(priority, tagger, deserializer):
    """Adds a kind of device: how its storages are marked, and how they are brought back."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage):
    """The mark of the device that a storage is on."""
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag is not None:
            return tag
    device = storage.device
    return device.type if device.index is None else f"{device.type}:{device.index}"


# Saving


class _Pickler(pickle._Pickler):
    """Writes storages as references, and this package's names as PyTorch's."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file, protocol):
        super().__init__(file, protocol)
        self.storages = {}  # by address, in first-seen order: (key, storage)

    def persistent_id(self, obj):
        if not isinstance(obj, _utils.StorageRef):
            return None
        storage = obj.untyped
        address = storage.data_ptr() or id(storage)
        if address not in self.storages:
            self.storages[address] = (str(len(self.storages)), storage)
        key, storage = self.storages[address]
        if obj.dtype is None:
            name, count = "UntypedStorage", storage.nbytes()
        else:
            name = _utils.NAME_OF_DTYPE[obj.dtype]
            count = storage.nbytes() // getattr(corten, obj.dtype).itemsize
        return ("storage", StorageClass(name), key, location_tag(storage), count)

    def save_storage_class(self, obj):
        module = "torch.storage" if obj.name == "UntypedStorage" else "torch"
        self.write(pickle.GLOBAL + f"{module}\n{obj.name}\n".encode())

    dispatch[StorageClass] = save_storage_class

    def save_global(self, obj, name=None):
        if isinstance(obj, corten.dtype):
            module = "corten"
        else:
            name = name or getattr(obj, "__qualname__", obj.__name__)
            module = pickle.whichmodule(obj, name)
        if module != "corten" and not module.startswith("corten."):
            super().save_global(obj, name)
            return
        module = "torch" + module[len("corten"):]
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    for _kind in (type, type(save_storage_class)):
        dispatch[_kind] = save_global

    def reducer_override(self, obj):
        """Tensors and dtypes in the form that PyTorch reads."""
        if type(obj) is corten.Tensor:
            return _utils.reduce_tensor(obj)
        if isinstance(obj, corten.dtype):
            return _utils.short_dtype(obj)
        return NotImplemented

def save(
    obj, f, pickle_module=pickle, pickle_protocol=2, _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
):
    """Saves an object to a file name or a binary file.

    A dictionary of tensors goes to a safetensors file if the name ends in ``.safetensors``;
    anything else goes to PyTorch's zip format.
    """
    name = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if name is not None and name.endswith(".safetensors"):
        from . import safetensors

        safetensors.save_file(obj, name)
        return
    if not _use_new_zipfile_serialization:
        with _opened(f, "wb") as file:
            _save_legacy(obj, file, pickle_protocol)
        return
    root = "archive" if name is None else os.path.splitext(os.path.basename(name))[0]
    with _opened(f, "wb") as file:
        _save_zip(obj, file, root, pickle_protocol)


@contextmanager
def _opened(f, mode):
    if isinstance(f, (str, os.PathLike)):
        with open(f, mode) as file:
            yield file
    else:
        yield f


def _pickled(obj, protocol):
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, protocol)
    pickler.dump(obj)
    return buffer.getvalue(), pickler.storages.values()


def _cpu_bytes(storage):
    return _utils.byte_view(storage if storage.device.type == "cpu" else storage.cpu())


def _save_zip(obj, file, root, protocol):
    import zipfile

    data, storages = _pickled(obj, protocol)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        checks = []

        def record(name, content):
            info = zipfile.ZipInfo(f"{root}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
            info.extra = _padding(archive.fp.tell(), info.filename, len(content))
            archive.writestr(info, content)
            checks.append(info.CRC)

        record("data.pkl", data)
        record(".format_version", b"1")
        record(".storage_alignment", str(_ALIGNMENT).encode())
        record("byteorder", sys.byteorder.encode())
        for key, storage in storages:
            content = bytes(storage.nbytes()) if skips_data() else _cpu_bytes(storage)
            record(f"data/{key}", content)
        record("version", b"3\n")
        record(".data/serialization_id", _serialization_id(checks))


def _padding(position, name, size):
    """An extra field that makes a record's data begin at a multiple of the alignment."""
    wide = 20 if size * 1.05 > _LARGE else 0  # zipfile adds a 64-bit field to long records
    start = position + 30 + len(name.encode()) + wide + 4
    count = -start % _ALIGNMENT
    return b"FB" + struct.pack("<H", count) + b"Z" * count


def _serialization_id(checks):
    import zlib

    joined = struct.pack(f"<{len(checks)}I", *checks)
    return f"{len(checks):020d}{zlib.crc32(joined):020d}".encode()


def _save_legacy(obj, file, protocol):
    data, storages = _pickled_legacy(obj, protocol)
    sizes = {"short": 2, "int": 4, "long": 4}
    info = {
        "protocol_version": _LEGACY_PROTOCOL, "little_endian": sys.byteorder == "little",
        "type_sizes": sizes,
    }
    for part in (_LEGACY_MAGIC, _LEGACY_PROTOCOL, info):
        pickle.dump(part, file, protocol=protocol)
    file.write(data)
    pickle.dump([key for key, _, _ in storages], file, protocol=protocol)
    for _, storage, count in storages:
        file.write(struct.pack("<q", count))
        file.write(_cpu_bytes(storage))


def _pickled_legacy(obj, protocol):
    counts = {}

    class Legacy(_Pickler):
        def persistent_id(self, obj):
            found = super().persistent_id(obj)
            if found is None:
                return None
            counts[found[2]] = found[4]
            return (*found, None)

    buffer = io.BytesIO()
    pickler = Legacy(buffer, protocol)
    pickler.dump(obj)
    return buffer.getvalue(), [(key, s, counts[key]) for key, s in pickler.storages.values()]


# Loading


class _FullUnpickler(pickle.Unpickler):
    """Loads anything, with PyTorch's names read as this package's."""

    def find_class(self, module, name):
        special = _weights_only.torch_global(f"{module}.{name}")
        if special is not None:
            return special
        if module == "torch" or module.startswith("torch."):
            module = "corten" + module[len("torch"):]
        return super().find_class(module, name)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Loads what :func:`save` (PyTorch's or this one) wrote, or a safetensors file.

    With ``weights_only``, the default, nothing in the file is run.
    """
    if weights_only is None:
        weights_only = pickle_module is None
    with _opened(f, "rb") as file:
        position = file.tell()
        first = file.read(9)
        file.seek(position)
        if first[:4] == b"PK\x03\x04":
            return _load_zip(file, map_location, weights_only, pickle_load_args)
        if first[8:9] == b"{":
            from . import safetensors

            tensors = safetensors.load(file.read())
            return {name: _moved(tensor, map_location) for name, tensor in tensors.items()}
        if first[:1] == b"\x80":
            return _load_legacy(file, map_location, weights_only, pickle_load_args)
    raise RuntimeError("Invalid magic number; corrupt file?")


def _moved(tensor, map_location):
    if isinstance(map_location, (str, corten.device)):
        return tensor.to(map_location)
    return tensor


def _placed(storage, location, map_location):
    """A storage just read, on the device it was saved from or where `map_location` wants it."""
    if map_location is not None and callable(map_location):
        moved = map_location(storage, location)
        if moved is not None:
            return moved
    elif isinstance(map_location, dict):
        location = map_location.get(location, location)
    elif map_location is not None:
        location = str(map_location)
    if location == "cpu" or location.startswith("cpu:"):
        return storage
    for _, _, deserializer in _packages:
        moved = deserializer(storage, location)
        if moved is not None:
            return moved
    if location.startswith("cuda") and not corten.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    if location.partition(":")[0] == "meta":
        return storage.to(device="meta")
    device = corten.device(location)
    bytes_there = corten.tensor([], dtype=corten.uint8).set_(storage).to(device)
    return bytes_there.untyped_storage()


class _Storages:
    """Resolves references to storages; each is read once."""

    def __init__(self, read, map_location):
        self.read, self.map_location = read, map_location
        self.found = {}

    def __call__(self, saved_id):
        kind, cls, key, location, count = saved_id[:5]
        if _text(kind) != "storage":
            raise RuntimeError(f"Unknown typename for persistent_load, expected 'storage' but got '{kind}'")
        key, location = _text(key), _text(location)
        dtype = cls.dtype if isinstance(cls, StorageClass) else None
        if key not in self.found:
            itemsize = 1 if dtype is None else getattr(corten, dtype).itemsize
            storage = self.read(key, count * itemsize, itemsize)
            self.found[key] = _placed(storage, location, self.map_location)
        return _utils.StorageRef(self.found[key], dtype)


def _text(value):
    return value.decode("ascii") if isinstance(value, bytes) else value


def _unpickle(file, weights_only, persistent_load, options):
    cls = _weights_only.Unpickler if weights_only else _FullUnpickler
    options = {"encoding": "utf-8", **options}
    unpickler = cls(file, **options)
    if persistent_load is not None:
        unpickler.persistent_load = persistent_load
    try:
        return unpickler.load()
    except pickle.UnpicklingError as error:
        if not weights_only:
            raise
        raise pickle.UnpicklingError(
            "Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` "
            "will likely succeed, but it can result in arbitrary code execution. Do it only if you "
            f"got the file from a trusted source.\n\t{error}"
        ) from None


def _load_zip(file, map_location, weights_only, options):
    import zipfile

    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise RuntimeError(
            "PytorchStreamReader failed reading zip archive: failed finding central directory "
            f"({error})"
        ) from None
    with archive:
        names = set(archive.namelist())
        pickles = [name for name in names if name.split("/", 1)[-1] == "data.pkl"]
        if not pickles:
            raise RuntimeError("PytorchStreamReader failed locating file data.pkl: file not found")
        root = pickles[0].split("/", 1)[0]
        if f"{root}/constants.pkl" in names:
            raise RuntimeError("TorchScript archives hold programs, not only tensors, and are not read")
        order = assumed_byte_order()
        if f"{root}/byteorder" in names:
            order = archive.read(f"{root}/byteorder").decode()

        def read(key, size, itemsize):
            storage = corten.UntypedStorage(size)
            if skips_data():
                return storage
            view = _utils.byte_view(storage)
            with archive.open(f"{root}/data/{key}") as record:
                _read_into(record, view)
            if order != sys.byteorder:
                _swap_bytes(view, itemsize)
            return storage

        data = io.BytesIO(archive.read(f"{root}/data.pkl"))
        return _unpickle(data, weights_only, _Storages(read, map_location), options)


def _read_into(file, view):
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise RuntimeError("unexpected end of file within a storage")
        done += count


def _swap_bytes(view, itemsize):
    from .safetensors import _swapped

    view[:] = _swapped(bytes(view), itemsize)


def _load_legacy(file, map_location, weights_only, options):
    def part(persistent_load=None):
        return _unpickle(file, weights_only, persistent_load, options)

    if part() != _LEGACY_MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = part()
    if protocol != _LEGACY_PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {protocol}")
    swap = part()["little_endian"] != (sys.byteorder == "little")
    sizes = {}

    def reserve(key, size, itemsize):
        sizes[key] = itemsize
        return corten.UntypedStorage(size)

    # Data come behind the pickle, so that devices are chosen only when they are there.
    storages = _Storages(reserve, lambda storage, location: storage)
    result = part(storages)
    for key in map(_text, part()):
        count = struct.unpack("<q", file.read(8))[0]
        storage = storages.found[key]
        view = _utils.byte_view(storage)
        if count * sizes[key] != len(view):
            raise RuntimeError(f"storage {key} has {len(view)} bytes but the file has {count * sizes[key]}")
        _read_into(file, view)
        if swap:
            _swap_bytes(view, sizes[key])
    return result if map_location is None else _moved_all(result, map_location)


def _moved_all(value, map_location):
    if isinstance(value, corten.Tensor):
        return _moved(value, map_location)
    if isinstance(value, dict):
        return type(value)((key, _moved_all(item, map_location)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(_moved_all(item, map_location) for item in value)
    return value
