"""Settings of saving and loading, and the helpers around them."""

from __future__ import annotations

import enum
import re
import shutil
import tempfile
from contextlib import contextmanager

import corten

_state = {"endianness": None, "crc32": True, "mmap": 2, "skip": False}


class LoadEndianness(enum.Enum):
    """Byte orders of files."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """The source of a saved class has changed."""


class StorageType:
    """The class of storages of one dtype, by its old name."""

    def __init__(self, name):
        from . import _utils

        self._dtype = getattr(corten, _utils.STORAGE_NAMES[name])

    @property
    def dtype(self):
        """The dtype."""
        return self._dtype

    def __str__(self):
        return f"StorageType(dtype={self.dtype})"


def get_default_load_endianness():
    """The byte order of files that do not say theirs; ``None`` is little."""
    return _state["endianness"]


def set_default_load_endianness(endianness):
    """Sets the byte order of files that do not say theirs."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _state["endianness"] = endianness


def assumed_byte_order():
    """``little`` or ``big`` for files that do not say theirs."""
    import sys

    order = _state["endianness"]
    if order is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if order is LoadEndianness.BIG else "little"


def get_crc32_options():
    """Whether checksums of records are asked for; they are always written."""
    return _state["crc32"]


def set_crc32_options(compute_crc32):
    """Says whether checksums of records are asked for; they are always written."""
    _state["crc32"] = compute_crc32


def get_default_mmap_options():
    """How files are mapped: ``mmap.MAP_PRIVATE`` or ``mmap.MAP_SHARED``."""
    return _state["mmap"]


class set_default_mmap_options:
    """Sets how files are mapped, for good or for a ``with`` block."""

    def __init__(self, flags):
        import mmap

        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.prev, _state["mmap"] = _state["mmap"], flags

    def __enter__(self):
        pass

    def __exit__(self, kind, value, traceback):
        _state["mmap"] = self.prev


class skip_data:
    """A ``with`` block in which the bytes of storages are neither written (zeros are) nor read."""

    def __init__(self, materialize_fake_tensors=False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self._before, _state["skip"] = _state["skip"], True

    def __exit__(self, kind, value, traceback):
        _state["skip"] = self._before


def skips_data():
    """Whether a :class:`skip_data` block is open."""
    return _state["skip"]


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether ``module.__version__`` is at least a tuple of numbers."""
    try:
        found = tuple(
            type(required)(part)
            for required, part in zip(req_version_tuple, module.__version__.split("."))
        )
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and "
            f"cannot be compared with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        import warnings

        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True
    return found >= req_version_tuple


@contextmanager
def mkdtemp():
    """A folder that is removed at the end of a ``with`` block."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def normalize_storage_type(storage_type):
    """The storage class of this package with the name of another one."""
    return getattr(corten, storage_type.__name__)


def storage_to_tensor_type(storage):
    """The class of tensors over a kind of storage."""
    return getattr(corten, type(storage).__name__.replace("Storage", "Tensor"))


def validate_cuda_device(location):
    """The index of a GPU by its mark.

    Raises:
        RuntimeError: It cannot be used.
    """
    from corten import cuda

    if not cuda.is_available():
        return _validated(location, "cuda", "CUDA")
    index = cuda._get_device_index(location, optional=True)
    if index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is "
            f"{cuda.device_count()}. Please use torch.load with map_location to map your storages to an "
            "existing device."
        )
    return index


def validate_hpu_device(location):
    """The index of an HPU by its mark.

    Raises:
        RuntimeError: It cannot be used.
    """
    return _validated(location, "hpu", "HPU")


def _validated(location, kind, shown):
    raise RuntimeError(
        f"Attempting to deserialize object on a {shown} device but torch.{kind}.is_available() is "
        "False. If you are running on a CPU-only machine, please use torch.load with "
        "map_location=torch.device('cpu') to map your storages to the CPU."
    )


def get_unsafe_globals_in_checkpoint(f):
    """The functions and classes of a zip file that a weights-only load would refuse.

    Raises:
        ValueError: The file is none of that format.
    """
    import pickletools

    from . import _weights_only
    from ._loading import opened_archive
    from .serialization import _opened

    try:
        with _opened(f) as file:
            data = opened_archive(file).read("data.pkl")
    except RuntimeError:
        raise ValueError(
            "Expected input to be a checkpoint returned by torch.save but got a torchscript "
            "checkpoint or another file"
        ) from None
    found, strings = [], []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE", "UNICODE", "SHORT_BINSTRING"):
            strings.append(argument)
        elif opcode.name == "GLOBAL":
            found.append(argument)
        elif opcode.name == "STACK_GLOBAL":
            found.append(" ".join(strings[-2:]))
    unsafe = []
    for module, _, name in (re.sub(r"\s+", " ", full).partition(" ") for full in found):
        full = f"{module}.{name}"
        try:
            _weights_only._find(module, name)
        except Exception:
            if full not in unsafe:
                unsafe.append(full)
    return unsafe
