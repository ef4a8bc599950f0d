"""Writing PyTorch's two formats: the zip file and the older stream."""

from __future__ import annotations

import io
import pickle
import struct
import sys

import corten

from . import _utils
from ._records import RecordWriter, write_start
from ._serialization_settings import skips_data
from ._weights_only import StorageClass
from .storage import TypedStorage, UntypedStorage, untyped

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001


class _Pickler(pickle._Pickler):
    """Writes storages as references, and this package's names as PyTorch's."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file, protocol, tag):
        super().__init__(file, protocol)
        self.storages = {}  # by identity, in first-seen order: (key, storage)
        self._dtypes = {}  # by address
        self._tag = tag

    def persistent_id(self, obj):
        if not isinstance(obj, (TypedStorage, UntypedStorage)):
            return None
        storage = untyped(obj)
        name, itemsize = "UntypedStorage", 1
        if isinstance(obj, TypedStorage):
            name, itemsize = obj._pickle_storage_type(), obj.dtype.itemsize
            address = storage.data_ptr()
            if address and self._dtypes.setdefault(address, obj.dtype) != obj.dtype:
                raise RuntimeError(
                    "Cannot save multiple tensors or storages that view the same data as "
                    "different types"
                )
        key, storage = self.storages.setdefault(
            storage._cdata, (str(len(self.storages)), storage)
        )
        count = storage.nbytes() // itemsize
        return ("storage", StorageClass(name), key, self._tag(storage), count)

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
        if type(obj) is corten.Tensor and not obj.__dict__:
            return _utils.reduce_tensor(obj)
        if isinstance(obj, corten.dtype):
            return _utils.short_dtype(obj)
        if isinstance(obj, corten.layout):
            from .serialization import _get_layout

            return _get_layout, (str(obj),)
        return NotImplemented


class _LegacyPickler(_Pickler):
    """References in the stream have a sixth part, for views of storages."""

    def __init__(self, file, protocol, tag):
        super().__init__(file, protocol, tag)
        self.counts = {}

    def persistent_id(self, obj):
        found = super().persistent_id(obj)
        if found is None:
            return None
        self.counts[found[2]] = found[4]
        return (*found, None)


def pickled(obj, protocol, tag, legacy=False):
    """The pickle of an object and the pickler, which knows its storages; ``tag`` says of a storage
    where it is."""
    buffer = io.BytesIO()
    pickler = (_LegacyPickler if legacy else _Pickler)(buffer, protocol, tag)
    pickler.dump(obj)
    return buffer.getvalue(), pickler


def write_zip(file, root, data, pickler, with_byte_order=True):
    """Writes the zip format: records in the folder ``root``."""
    with RecordWriter(file, root) as writer:
        write_start(writer, data, with_byte_order)
        for key, storage in pickler.storages.values():
            if storage.device.type == "meta":
                continue
            if skips_data():
                writer.write_record_metadata(f"data/{key}", storage.nbytes())
            else:
                writer.write_record(f"data/{key}", storage)


def write_legacy(file, data, pickler, protocol):
    """Writes the stream: numbers that tell the format, the pickle, the storages."""
    sizes = {"short": 2, "int": 4, "long": 4}
    info = {
        "protocol_version": LEGACY_PROTOCOL, "little_endian": sys.byteorder == "little",
        "type_sizes": sizes,
    }
    for part in (LEGACY_MAGIC, LEGACY_PROTOCOL, info):
        pickle.dump(part, file, protocol=protocol)
    file.write(data)
    storages = list(pickler.storages.values())
    pickle.dump([key for key, _ in storages], file, protocol=protocol)
    for key, storage in storages:
        file.write(struct.pack("<q", pickler.counts[key]))
        file.write(_utils.cpu_bytes(storage))
