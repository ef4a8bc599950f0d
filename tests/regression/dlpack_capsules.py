"""Capsules of DLPack made by hand, and memory between pages that nobody may touch."""

import ctypes
import mmap

PAGE = mmap.PAGESIZE


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [
        ("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    ]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_get = ctypes.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_NAMES = {Legacy: b"dltensor", Versioned: b"dltensor_versioned"}


class Maker:
    """Makes capsules, keeps what they point to, and counts the calls of their deleters."""

    #: Tensors may live longer than who made their capsules.
    makers = []

    def __init__(self):
        self.makers.append(self)
        self.kept = {}
        self.deleted = 0
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._delete)

    def _delete(self, address):
        self.deleted += 1
        del self.kept[address]

    def __call__(self, data, shape, strides=None, *, kind=Legacy, ndim=None, device=(1, 0),
                 dtype=(2, 32, 1), byte_offset=0, version=(1, 0), flags=0):
        """A capsule; without ``shape`` one that has none."""
        lists = [None if numbers is None else (ctypes.c_int64 * (len(numbers) or 1))(*numbers)
                 for numbers in (shape, strides)]
        managed = kind()
        tensor = managed.tensor
        tensor.data = data
        tensor.device_type, tensor.device_id = device
        tensor.ndim = len(shape) if ndim is None else ndim
        tensor.code, tensor.bits, tensor.lanes = dtype
        tensor.shape, tensor.strides = (
            None if numbers is None else ctypes.addressof(numbers) for numbers in lists
        )
        tensor.byte_offset = byte_offset
        managed.deleter = ctypes.cast(self._deleter, ctypes.c_void_p)
        if kind is Versioned:
            managed.major, managed.minor = version
            managed.flags = flags
        address = ctypes.addressof(managed)
        self.kept[address] = managed, lists
        return _new(address, _NAMES[kind], None)

    def forget(self, capsule):
        """Drops what a capsule that nobody took points to. Returns whether that is so."""
        for name in _NAMES.values():
            if _is_valid(capsule, name):
                del self.kept[_get(capsule, name)]
                return True
        return False


def content(capsule, kind):
    """The structure in a capsule that nobody took yet."""
    return kind.from_address(_get(capsule, _NAMES[kind]))


class Guarded:
    """Pages of memory between two that end the process when they are touched."""

    def __init__(self, pages=1):
        self._memory = mmap.mmap(-1, (pages + 2) * PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) + PAGE
        self.size = pages * PAGE
        self._memory[PAGE:PAGE + self.size] = bytes(n % 251 for n in range(self.size))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for page in (self.start - PAGE, self.start + self.size):
            if libc.mprotect(page, PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def bytes(self):
        """A copy of what is in the pages."""
        return self._memory[PAGE:PAGE + self.size]
