"""Typed storages: a storage seen as elements of one dtype. Deprecated, and kept for files and old programs."""

from __future__ import annotations

import collections.abc
import copy
import numbers
import sys
import warnings

from corten import _C

#: Names that files use for the classes of storages, and the dtypes of their elements.
STORAGE_NAMES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64", "QInt8Storage": "qint8", "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
}

#: The methods that convert elements, and the dtypes that they convert to.
CONVERSIONS = {
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "bfloat16": "bfloat16",
    "complex_double": "complex128", "complex_float": "complex64", "float8_e5m2": "float8_e5m2",
    "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2fnuz": "float8_e5m2fnuz",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
}

#: The integers that quantised dtypes are stored as.
_INTEGERS = {
    _C.qint8: _C.int8, _C.quint8: _C.uint8, _C.qint32: _C.int32, _C.quint4x2: _C.uint8,
    _C.quint2x4: _C.uint8,
}

_warned = {"once": False, "always": False}


def _get_always_warn_typed_storage_removal():
    return _warned["always"]


def _set_always_warn_typed_storage_removal(always_warn):
    if not isinstance(always_warn, bool):
        raise TypeError(f"always_warn must be a bool, but got {type(always_warn).__name__}")
    _warned["always"] = always_warn


def _reset_warn_typed_storage_removal():
    _warned["once"] = False


def _warn_typed_storage_removal(stacklevel=2):
    if _warned["once"] and not _warned["always"]:
        return
    _warned["once"] = True
    warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
        "the only storage class. This should only matter to you if you are using storages "
        "directly.  To access UntypedStorage directly, use tensor.untyped_storage() instead of "
        "tensor.storage()",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


def _dtype_to_storage_type_map():
    return {getattr(_C, dtype): name for name, dtype in STORAGE_NAMES.items()}


def _storage_type_to_dtype_map():
    return {name: getattr(_C, dtype) for name, dtype in STORAGE_NAMES.items()}


def _get_dtype_from_pickle_storage_type(pickle_storage_type):
    try:
        return _storage_type_to_dtype_map()[pickle_storage_type]
    except KeyError:
        raise KeyError(
            f'pickle storage type "{pickle_storage_type}" is not recognized'
        ) from None


def _untyped_class():
    return sys.modules["corten.storage"].UntypedStorage


def untyped(storage):
    """The bytes of a storage, typed or not, without the warning of ``TypedStorage.untyped``."""
    return storage._untyped_storage if isinstance(storage, TypedStorage) else storage


def is_storage(obj, /):
    """Whether an object is a storage, typed or not."""
    return isinstance(obj, (_untyped_class(), TypedStorage))


def _is_sequence(obj):
    return isinstance(obj, collections.abc.Sequence)


def _check_wrapped(args, wrap_storage, prefix):
    """That a storage may be wrapped.

    Raises:
        RuntimeError: There are positional arguments beside it.
        TypeError: It is no ``UntypedStorage``.
    """
    if args:
        raise RuntimeError(
            f"{prefix}\nNo positional arguments should be given when using 'wrap_storage'"
        )
    if not isinstance(wrap_storage, _untyped_class()):
        raise TypeError(
            f"{prefix}\nArgument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}"
        )


def _check_content(args, prefix):
    """That positional arguments are a size or a sequence, or absent.

    Raises:
        RuntimeError: There are several.
        TypeError: It is neither.
    """
    if len(args) > 1:
        raise RuntimeError(f"{prefix}\nToo many positional arguments")
    if args and not isinstance(args[0], numbers.Integral) and not _is_sequence(args[0]):
        raise TypeError(f"{prefix}\nArgument type not recognized: {type(args[0])}")


def _of_sequence(sequence, dtype, device):
    """The storage of a tensor of a sequence's elements."""
    if isinstance(sequence, str):
        raise TypeError("new(): invalid data type 'str'")
    known = {int: "int64", float: "float32", bool: "bool", complex: "complex64"}
    first = _C.tensor(list(sequence), dtype=dtype) if dtype is not None else None
    if first is None:
        kind = known.get(type(sequence[0]) if sequence else None, "float32")
        first = _C.tensor(list(sequence), dtype=getattr(_C, kind))
    return first.to(device).untyped_storage() if device is not None else first.untyped_storage()


class TypedStorage:
    """A storage seen as elements of one dtype. Deprecated in favour of ``UntypedStorage``."""

    is_sparse = False
    _fake_device = None
    dtype = None

    def __init__(self, *args, device=None, dtype=None, wrap_storage=None, _internal=False):
        if not _internal:
            _warn_typed_storage_removal()
        prefix = (
            f"{type(self)}.__init__ received an invalid combination of arguments. Expected one of:\n"
            " * (*, torch.device device, torch.dtype dtype)\n"
            " * (int size, *, torch.device device, torch.dtype dtype)\n"
            " * (Sequence data, *, torch.device device, torch.dtype dtype)\n"
            " * (*, UntypedStorage wrap_storage, torch.dtype dtype)"
        )
        if wrap_storage is not None:
            self._wrap(args, wrap_storage, dtype, device, prefix)
            return
        self.dtype = _C.get_default_dtype() if dtype is None else dtype
        device = _C.device("cpu" if device is None else device)
        if device.type not in ("cpu", "cuda", "meta"):
            raise RuntimeError(f"{prefix}\nStorage device not recognized: {device.type}")
        _check_content(args, prefix)
        if not args:
            self._untyped_storage = _untyped_class()(device=device)
        elif _is_sequence(args[0]):
            self._untyped_storage = _of_sequence(args[0], self.dtype, device)
        else:
            size = int(args[0]) * self.dtype.itemsize
            self._untyped_storage = _untyped_class()(size, device=device)

    def _wrap(self, args, wrap_storage, dtype, device, prefix):
        _check_wrapped(args, wrap_storage, prefix)
        if dtype is None:
            raise RuntimeError(f"{prefix}\nArgument 'dtype' must be specified")
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"{prefix}\nArgument 'dtype' must be torch.dtype, not {type(dtype)}")
        if device is not None:
            raise RuntimeError(
                f"{prefix}\nArgument 'device' should not be specified when 'wrap_storage' is given"
            )
        self.dtype = dtype
        self._untyped_storage = wrap_storage

    @property
    def _dtype(self):
        return self.dtype

    @property
    def filename(self):
        """The file that is mapped, or None."""
        _warn_typed_storage_removal()
        return self._untyped_storage.filename

    @property
    def device(self):
        """Where the memory is."""
        _warn_typed_storage_removal()
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        """Whether the memory is on a GPU."""
        _warn_typed_storage_removal()
        return self._untyped_storage.is_cuda

    is_hpu = False

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def _tensor(self):
        # Elements of quantised tensors are their integers.
        dtype = _INTEGERS.get(self.dtype, self.dtype)
        made = _C._functions.empty((0,), dtype=dtype, device=self._untyped_storage.device)
        return made.set_(self._untyped_storage, 0, (self._size(),), (1,))

    def _refuse_meta(self):
        if self._untyped_storage.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")

    def _size(self):
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def _nbytes(self):
        return self._untyped_storage.nbytes()

    def _element_size(self):
        return self.dtype.itemsize

    def _data_ptr(self):
        return self._untyped_storage.data_ptr()

    def _is_shared(self):
        return self._untyped_storage.is_shared()

    def _share_memory_(self):
        self._untyped_storage.share_memory_()
        return self

    def _resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def _pickle_storage_type(self):
        try:
            return _dtype_to_storage_type_map()[self.dtype]
        except KeyError:
            raise KeyError(f"dtype {self.dtype} is not recognized") from None

    def _maybe_wrap_index(self, index, is_stop=False):
        size = self._size()
        if index is None:
            return size if is_stop else 0
        if type(index) is not int:
            raise TypeError(f"can't index a {type(self)} with {type(index)}")
        if is_stop:
            return size if index > size else max(index + size, 0) if index < 0 else index
        if not -size <= index < size:
            raise IndexError(f"index {index} out of range for storage of size {size}")
        return index % size

    def _getitem(self, index):
        self._refuse_meta()
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        return self._tensor()[self._maybe_wrap_index(index)].item()

    def _setitem(self, index, value):
        self._refuse_meta()
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if is_storage(value):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        self._tensor()[index] = value

    def __setitem__(self, index, value):
        _warn_typed_storage_removal()
        self._setitem(index, value)

    def __iter__(self):
        _warn_typed_storage_removal()
        return iter([self._getitem(index) for index in range(self._size())])

    def __repr__(self):
        _warn_typed_storage_removal()
        where = f"(dtype={self.dtype}, device={self._untyped_storage.device}) of size {self._size()}"
        described = f"[torch.storage.TypedStorage{where}]"
        if self._untyped_storage.device.type == "meta":
            return f"...\n{described}"
        lines = "".join(f" {element}\n" for element in self._tensor().tolist())
        return lines + described

    __str__ = __repr__

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    __hash__ = object.__hash__

    def __copy__(self):
        return self._new_wrapped_storage(copy.copy(self._untyped_storage))

    def __deepcopy__(self, memo):
        _warn_typed_storage_removal()
        return self._deepcopy(memo)

    def _deepcopy(self, memo):
        return self._new_wrapped_storage(copy.deepcopy(self._untyped_storage, memo))

    def __sizeof__(self):
        _warn_typed_storage_removal()
        return super().__sizeof__() + self._nbytes()

    def __reduce__(self):
        from corten.storage import _file_of, _load_from_bytes

        return _load_from_bytes, (_file_of(self),)

    def _new_wrapped_storage(self, untyped):
        return TypedStorage(wrap_storage=untyped, dtype=self.dtype, _internal=True)

    def fill_(self, value):
        """Sets every element."""
        _warn_typed_storage_removal()
        self._setitem(slice(0, self._size()), value)
        return self

    def copy_(self, source, non_blocking=None):
        """Copies the bytes of a storage of the same number of bytes, or converts elements."""
        _warn_typed_storage_removal()
        if isinstance(source, TypedStorage) and source._untyped_storage.device.type != "meta":
            self._tensor().copy_(source._tensor())
        else:
            self._untyped_storage.copy_(untyped(source), non_blocking)
        return self

    def _write_file(self, *args, **kwargs):
        return self._untyped_storage._write_file(*args, **kwargs)

    def _share_fd_cpu_(self):
        return self._untyped_storage._share_fd_cpu_()

    def _share_filename_cpu_(self):
        return self._untyped_storage._share_filename_cpu_()

    def untyped(self):
        """The bytes."""
        _warn_typed_storage_removal()
        return self._untyped_storage

    def tolist(self):
        """The elements."""
        _warn_typed_storage_removal()
        self._refuse_meta()
        return self._tensor().tolist()

    def clone(self):
        """A copy."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.clone())

    def new(self):
        """An empty storage of the same dtype and device."""
        empty = _untyped_class()(device=self._untyped_storage.device)
        return self._new_wrapped_storage(empty)

    def is_pinned(self, device=None):
        """Whether the memory is pinned."""
        _warn_typed_storage_removal()
        return self._untyped_storage.is_pinned()

    def pin_memory(self, device=None):
        """A copy in pinned memory."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.pin_memory(device))

    def resizable(self):
        """Whether the number of elements can change."""
        _warn_typed_storage_removal()
        return self._untyped_storage.resizable()

    def get_device(self):
        """The index of the device, or -1 on the host."""
        _warn_typed_storage_removal()
        return self._untyped_storage.get_device()

    def cpu(self):
        """A copy on the host, or this storage."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False):
        """A copy on a GPU, or this storage."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.cuda(device, non_blocking))

    def to(self, *, device, non_blocking=False):
        """A copy on another device, or this storage."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.to(device=device))

    def type(self, dtype=None, non_blocking=False):
        """The name of the class that this storage had before storages lost their dtype."""
        _warn_typed_storage_removal()
        if dtype is not None:
            return self._untyped_storage.type(dtype, non_blocking)
        return f"torch.{self._pickle_storage_type()}"

    def _to(self, dtype):
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        converted = self._tensor().to(dtype)
        if converted.data_ptr() == self._data_ptr():
            converted = converted.clone()
        return TypedStorage(
            wrap_storage=converted.untyped_storage(), dtype=dtype, _internal=True
        )

    @classmethod
    def from_buffer(cls, *args, dtype=None, device=None, **kwargs):
        """A storage with a copy of a buffer's bytes, in native, little or big byte order."""
        _warn_typed_storage_removal()
        return cls._from_buffer(*args, dtype=dtype, device=device, **kwargs)

    @classmethod
    def _from_buffer(cls, *args, dtype=None, device=None, **kwargs):
        if cls is not TypedStorage:
            for name, value in (("dtype", dtype), ("device", device)):
                if value is not None:
                    raise RuntimeError(
                        f"from_buffer: '{name}' can only be specified in UntypedStorage.from_buffer "
                        "and TypedStorage.from_buffer"
                    )
            dtype = cls._dtype
        elif not isinstance(dtype, _C.dtype):
            raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        elif device is not None and _C.device(device).type != "cpu":
            raise RuntimeError(f"from_buffer: 'device' must be 'cpu', but got {device}")
        untyped = _untyped_class().from_buffer(*args, dtype=dtype, **kwargs)
        return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        """A storage over a file, written to where ``shared``; ``size`` counts elements."""
        _warn_typed_storage_removal()
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes")
        untyped = _untyped_class().from_file(filename, shared, size * cls._dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls._dtype, _internal=True)

    def _get_legacy_storage_class(self):
        from corten import _legacy

        return getattr(_legacy, _dtype_to_storage_type_map().get(self.dtype, ""), None)


def _deprecated_methods():
    """The public names of private methods, with the warning."""
    names = {
        "__len__": "_size", "size": "_size", "__getitem__": "_getitem", "nbytes": "_nbytes",
        "element_size": "_element_size", "data_ptr": "_data_ptr", "is_shared": "_is_shared",
        "share_memory_": "_share_memory_", "resize_": "_resize_",
        "pickle_storage_type": "_pickle_storage_type",
    }

    def method(public, private):
        def call(self, *args):
            _warn_typed_storage_removal()
            return getattr(self, private)(*args)

        call.__name__ = public
        call.__doc__ = f"See ``UntypedStorage.{public}``; sizes count elements."
        return call

    for public, private in names.items():
        setattr(TypedStorage, public, method(public, private))


def add_conversions(storage_class, convert):
    """``storage.float()`` and the like, which are ``convert(storage, dtype)``."""

    def method(name, dtype):
        def conversion(self):
            return convert(self, getattr(_C, dtype))

        conversion.__name__ = name
        conversion.__doc__ = f"A typed storage of {dtype}, of the values that this one holds."
        return conversion

    for name, dtype in CONVERSIONS.items():
        setattr(storage_class, name, method(name, dtype))


def _converted(storage, dtype):
    _warn_typed_storage_removal(stacklevel=3)
    return storage._to(dtype)


_deprecated_methods()
add_conversions(TypedStorage, _converted)


class _LegacyStorageMeta(type):
    """The class of legacy storage classes, which recognise storages by dtype."""

    _dtype = None

    @property
    def dtype(cls):
        """The dtype of the elements."""
        _warn_typed_storage_removal()
        return cls._dtype

    def __instancecheck__(cls, instance):
        return (
            type(instance) is TypedStorage
            and instance.dtype == cls._dtype
            and instance._untyped_storage.device.type == "cpu"
        )


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What ``FloatStorage`` and the like derive from: they make typed storages of their dtype."""

    def __new__(cls, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if not _internal:
            _warn_typed_storage_removal()
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        prefix = (
            f"{cls}.__new__ received an invalid combination of arguments. Expected one of:\n"
            " * no arguments\n * (int size)\n * (Sequence data)\n"
            " * (*, UntypedStorage wrap_storage)"
        )
        if device is not None:
            raise RuntimeError(f"{prefix}\nKeyword argument 'device' cannot be specified")
        if dtype is not None:
            raise RuntimeError(f"{prefix}\nKeyword argument 'dtype' cannot be specified")
        if wrap_storage is None:
            _check_content(args, prefix)
            return TypedStorage(*args, dtype=cls._dtype, device="cpu", _internal=True)
        _check_wrapped(args, wrap_storage, prefix)
        if wrap_storage.device.type != "cpu":
            raise RuntimeError(
                f"{prefix}\nDevice of 'wrap_storage' must be cpu, but got {wrap_storage.device.type}"
            )
        return TypedStorage(wrap_storage=wrap_storage, dtype=cls._dtype, _internal=True)

    @classmethod
    def _new_shared(cls, size):
        """A storage of ``size`` elements in shared memory."""
        untyped = _untyped_class()._new_shared(size * cls._dtype.itemsize)
        return cls(wrap_storage=untyped)
