"""Storages: the memory that tensors share."""

from __future__ import annotations

import warnings

from corten import _C

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


class UntypedStorage(_C.StorageBase):
    """A block of bytes."""

    def __repr__(self):
        lines = "".join(f" {byte}\n" for byte in self.tolist())
        size = len(self)
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {size}]"

    __str__ = __repr__

    def __iter__(self):
        return (self[index] for index in range(len(self)))

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
        if device.type == self.device.type:
            return self
        return _bytes_tensor(self).to(device).untyped_storage()

    def cpu(self):
        """A copy on the host, or this storage."""
        return self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        """A copy on a GPU, or this storage."""
        return self.to(device="cuda" if device is None else device)

    def pin_memory(self, device=None):
        """A copy in pinned memory; without an accelerator there is none."""
        raise RuntimeError("pinned memory needs an accelerator")

    def share_memory_(self):
        """Moves the bytes to memory that other processes can map."""
        from corten import multiprocessing

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
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        data = bytearray(self._to_bytes())
        for start in range(0, len(data), size):
            data[start:start + size] = data[start:start + size][::-1]
        self._copy_bytes(0, bytes(data))
        return self

    @classmethod
    def from_buffer(cls, buffer, byte_order="native", offset=0, count=-1, dtype=None):
        """A storage with a copy of a buffer's bytes."""
        data = bytes(memoryview(buffer).cast("B"))[offset:]
        itemsize = 1 if dtype is None else dtype.itemsize
        return _from_bytes(data[:count * itemsize] if count >= 0 else data)

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """A storage over a file's bytes."""
        import mmap

        with open(filename, "r+b" if shared else "rb") as file:
            if shared and file.seek(0, 2) < nbytes:
                file.truncate(nbytes)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            return _C._storage_from_buffer(mmap.mmap(file.fileno(), nbytes, access=access))


def _convert_methods():
    """``storage.float()`` and the like: the bytes as elements of that dtype."""
    names = ("double", "float", "half", "long", "int", "short", "char", "byte", "bool", "bfloat16",
             "complex_double", "complex_float")
    dtypes = {"char": "int8", "byte": "uint8", "complex_double": "complex128",
              "complex_float": "complex64"}

    def method(name):
        def convert(self):
            dtype = getattr(_C, dtypes.get(name, name))
            return _bytes_tensor(self).to(dtype)._typed_storage()

        convert.__name__ = name
        convert.__doc__ = f"The bytes converted to {name}."
        return convert

    for name in names:
        setattr(UntypedStorage, name, method(name))


_convert_methods()
_C._set_storage_class(UntypedStorage)


def _bytes_tensor(storage):
    return _C._functions.empty((0,), dtype=_C.uint8, device=storage.device).set_(storage)


def _from_bytes(data):
    storage = UntypedStorage(len(data))
    storage._copy_bytes(0, data)
    return storage


def is_storage(obj, /):
    """Whether an object is a storage, typed or not."""
    return isinstance(obj, (UntypedStorage, TypedStorage))


def _warn_typed_storage_removal(stacklevel=2):
    if _warn_typed_storage_removal.done:
        return
    _warn_typed_storage_removal.done = True
    warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
        "the only storage class. This should only matter to you if you are using storages "
        "directly.  To access UntypedStorage directly, use tensor.untyped_storage() instead of "
        "tensor.storage()",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


_warn_typed_storage_removal.done = False


class TypedStorage:
    """A storage seen as elements of one dtype. Deprecated in favour of ``UntypedStorage``."""

    dtype = None

    def __init__(self, *args, device=None, dtype=None, wrap_storage=None, _internal=False):
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
            self.dtype = dtype if dtype is not None else type(self).dtype
            return
        self.dtype = dtype or type(self).dtype or _C.get_default_dtype()
        if not args:
            self._untyped_storage = UntypedStorage(device=device)
        elif isinstance(args[0], int):
            self._untyped_storage = UntypedStorage(args[0] * self.dtype.itemsize, device=device)
        else:
            data = _C.tensor(list(args[0]), dtype=self.dtype, device=device)
            self._untyped_storage = data.untyped_storage()

    def _tensor(self):
        made = _C._functions.empty((0,), dtype=self.dtype, device=self.device)
        return made.set_(self._untyped_storage, 0, (self._size(),), (1,))

    def _size(self):
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def __len__(self):
        return self._size()

    size = __len__

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        self._tensor()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __repr__(self):
        lines = "".join(f" {element}\n" for element in self.tolist())
        name = "torch.storage.TypedStorage"
        return f"{lines}[{name}(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    __hash__ = object.__hash__

    def __deepcopy__(self, memo):
        return self._new(self._untyped_storage.__deepcopy__(memo))

    def __reduce__(self):
        return _rebuild_typed, (self._untyped_storage, self.dtype)

    def _new(self, untyped):
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype, _internal=True)

    @property
    def device(self):
        """Where the memory is."""
        return self._untyped_storage.device

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    @property
    def is_cuda(self):
        """Whether the memory is on a GPU."""
        return self.device.type == "cuda"

    is_sparse = False

    def untyped(self):
        """The bytes."""
        return self._untyped_storage

    def tolist(self):
        """The elements."""
        return self._tensor().tolist()

    def clone(self):
        """A copy."""
        return self._new(self._untyped_storage.clone())

    def copy_(self, source, non_blocking=None):
        """Copies elements, converting them."""
        self._tensor().copy_(source._tensor())
        return self

    def fill_(self, value):
        """Sets every element."""
        self._tensor().fill_(value)
        return self

    def resize_(self, size):
        """Changes the number of elements."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def element_size(self):
        """Bytes per element."""
        return self.dtype.itemsize

    def nbytes(self):
        """Bytes in all."""
        return self._untyped_storage.nbytes()

    def data_ptr(self):
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    def is_shared(self):
        """Whether other processes may see the memory."""
        return self._untyped_storage.is_shared()

    def is_pinned(self, device=None):
        """Whether the memory is pinned."""
        return self._untyped_storage.is_pinned()

    def share_memory_(self):
        """Moves the memory to where other processes can map it."""
        self._untyped_storage = self._untyped_storage.share_memory_()
        return self

    _share_memory_ = share_memory_

    def cpu(self):
        """A copy on the host, or this storage."""
        return self._new(self._untyped_storage.cpu())

    def type(self, dtype=None):
        """The name of the class that this storage had before storages lost their dtype."""
        return self.pickle_storage_type()

    def pickle_storage_type(self):
        """The name by which files know this kind of storage."""
        from corten import _utils

        return _utils.NAME_OF_DTYPE[_utils.short_dtype(self.dtype)]


def _rebuild_typed(untyped, dtype):
    return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
