"""Storages: the memory that tensors share."""

from __future__ import annotations

import sys

from corten import _C, _storage_sources

from ._typed_storage import (  # noqa: F401
    TypedStorage,
    _dtype_to_storage_type_map,
    _get_always_warn_typed_storage_removal,
    _get_dtype_from_pickle_storage_type,
    _LegacyStorage,
    _LegacyStorageMeta,
    _reset_warn_typed_storage_removal,
    _set_always_warn_typed_storage_removal,
    _storage_type_to_dtype_map,
    _warn_typed_storage_removal,
    add_conversions,
    is_storage,
    untyped,
)

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


class UntypedStorage(_C.StorageBase):
    """A block of bytes."""

    def __repr__(self):
        lines = "".join(f" {byte}\n" for byte in self.tolist())
        size = len(self)
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {size}]"

    __str__ = __repr__

    def _check_memory(self):
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")

    def __getitem__(self, index):
        self._check_memory()
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._check_memory()
        super().__setitem__(index, value)

    def tolist(self):
        """The bytes."""
        self._check_memory()
        return super().tolist()

    def copy_(self, source, non_blocking=None):
        """Copies the bytes of another storage."""
        _check_source(untyped(source))
        return super().copy_(source, non_blocking)

    def _write_file(self, f, is_real_file, save_size, element_size):
        """Writes the bytes to a file, after the number of elements where `save_size`."""
        _check_source(self)
        if save_size:
            f.write((self.nbytes() // element_size).to_bytes(8, sys.byteorder))
        f.write(self._to_bytes())

    def __iter__(self):
        return (self[index] for index in range(len(self)))

    def clone(self):
        """A copy on the same device."""
        if self.device.type in ("cpu", "meta"):
            return super().clone()
        return _bytes_tensor(self).clone().untyped_storage()

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        known = memo.setdefault("corten", {})
        if self._cdata not in known:
            known[self._cdata] = self.clone()
        return known[self._cdata]

    def __reduce__(self):
        return _from_bytes, (self._to_bytes(),)

    def __sizeof__(self):
        return super().__sizeof__() + self.size()

    @property
    def is_sparse(self):
        """Storages are dense."""
        return False

    is_sparse_csr = False
    is_hpu = False

    def untyped(self):
        """This storage."""
        return self

    def get_device(self):
        """The index of the device, or -1 on the host."""
        return -1 if self.device.type == "cpu" else self.device.index

    def type(self, dtype=None, non_blocking=False):
        """The name of the class."""
        if dtype is None:
            return "torch.storage.UntypedStorage"
        raise NotImplementedError("storages convert through tensors")

    def to(self, *, device, non_blocking=False):
        """A copy on another device, or this storage if it is there already."""
        device = _C.device(device)
        if device.type == self.device.type and device.index in (None, self.device.index):
            return self
        if device.type == self.device.type == "cpu":
            return self
        _check_source(self)
        return _bytes_tensor(self).to(device).untyped_storage()

    def cpu(self):
        """A copy on the host, or this storage."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """A copy on a GPU, or this storage."""
        if isinstance(device, int):
            device = _C.device("cuda", device)
        return self.to(device="cuda" if device is None else device)

    def pin_memory(self, device=None):
        """A copy in pinned memory, or this storage if it is there already."""
        if self.device.type != "cpu":
            raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
        return _bytes_tensor(self).pin_memory().untyped_storage()

    def _check_sharing(self, function):
        if self.device.type != "cpu":
            raise RuntimeError(f"{function}: only available on CPU")

    def share_memory_(self):
        """Moves the bytes to memory that other processes can map."""
        from corten import multiprocessing

        if self.device.type == "cuda":
            # Other processes can open memory of GPUs as it is.
            return self
        self._check_sharing("share_memory_")
        return multiprocessing._share_storage(self)

    @classmethod
    def _new_shared(cls, size, *, device="cpu"):
        """A storage of `size` bytes in shared memory."""
        return cls(size, device=device).share_memory_()

    @classmethod
    def _new_using_fd_cpu(cls, size):
        made = cls(size)
        made._share_fd_cpu_()
        return made

    @classmethod
    def _new_using_filename_cpu(cls, size):
        made = cls(size)
        made._share_filename_cpu_()
        return made

    def _share_fd_cpu_(self):
        """Moves the bytes to shared memory; returns its descriptor, which the storage keeps, and its size."""
        from corten.multiprocessing import reductions

        self._check_sharing("_share_fd_")
        reductions.close_all([reductions.descriptor_of(self)])
        return _C._descriptor_of_storage(self), self.nbytes()

    @classmethod
    def _new_shared_fd_cpu(cls, descriptor, size):
        """The storage over shared memory, of which a descriptor is given."""
        import os

        return _C._storage_from_descriptor(os.dup(descriptor), size)

    def _share_filename_cpu_(self):
        """Moves the bytes to shared memory with a name; returns a manager's address, which is empty as names need
        none, the name and the size."""
        from corten.multiprocessing import reductions

        self._check_sharing("_share_filename_")
        name = reductions.name_of(self)
        if name is None:
            raise RuntimeError("the storage is in shared memory without a name already")
        return b"", name.encode(), self.nbytes()

    @classmethod
    def _new_shared_filename_cpu(cls, manager, handle, size):
        """The storage over shared memory with a name."""
        from corten.multiprocessing import reductions

        made = reductions.rebuild_storage_segment(bytes(handle).decode(), "")
        if made.nbytes() < size:
            raise RuntimeError(f"shared memory of {made.nbytes()} bytes is too small for {size}")
        return made

    def _shared_incref(self):
        """Keeps the name of shared memory for a process that is about to be told of it."""
        from corten.multiprocessing import reductions

        reductions.announce(self)
        return self

    def _shared_decref(self):
        """Undoes :meth:`_shared_incref`, once the other process has the memory."""
        name = _C._share_storage_as(self)
        return self if name is None else _C._storage_from_segment(name, "queue")

    def byteswap(self, dtype):
        """Swaps the bytes of every element of a dtype."""
        self._copy_bytes(0, _storage_sources.byteswapped(self._to_bytes(), dtype))
        return self

    @classmethod
    def from_buffer(cls, buffer, byte_order=None, count=-1, offset=0, dtype=None):
        """A storage with a copy of a buffer's elements."""
        return _from_bytes(
            _storage_sources.bytes_of_buffer(buffer, byte_order, count, offset, dtype)
        )

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """A storage over the first bytes of a file; with ``shared`` writes reach the file, which is made
        where it is missing."""
        return _storage_sources.storage_of_file(filename, shared, nbytes)

    @property
    def filename(self):
        """The file that the bytes are shared with, or None."""
        return _C._storage_filename(self)


# The bytes count as elements of one byte.
add_conversions(
    UntypedStorage, lambda storage, dtype: _bytes_tensor(storage).to(dtype)._typed_storage()
)
_C._set_storage_class(UntypedStorage)


def _check_source(storage):
    """That a storage has bytes to be copied.

    Raises:
        NotImplementedError: It is a meta storage.
    """
    if storage.device.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


def _bytes_tensor(storage):
    return _C._functions.empty((0,), dtype=_C.uint8, device=storage.device).set_(storage)


def _from_bytes(data):
    storage = UntypedStorage(len(data))
    storage._copy_bytes(0, data)
    return storage


def _file_of(storage):
    """The bytes of a file that holds a storage alone, as pickles of PyTorch have them."""
    import io

    from corten.serialization import save

    file = io.BytesIO()
    save(storage, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def _load_from_bytes(data):
    """What pickles of storages call: the storage in a file's bytes."""
    import io

    from corten.serialization import _load_of_pickle

    return _load_of_pickle(io.BytesIO(data))


def only_truths(storage, dtype):
    """Makes bytes of booleans 0 or 1: other bytes mean true."""
    if dtype == _C.bool:
        values = _bytes_tensor(storage)
        values.copy_(values != 0)


TypedStorage.__module__ = _LegacyStorage.__module__ = __name__
