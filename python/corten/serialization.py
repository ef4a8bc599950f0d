"""Saving objects with tensors to files, in PyTorch's formats, and loading them."""

from __future__ import annotations

import os
import pickle
import warnings
from contextlib import contextmanager

import corten

from . import _loading, _saving, _weights_only
from ._records import (  # noqa: F401
    _is_zipfile, _open_file_like, _open_zipfile_reader, _open_zipfile_writer,
)
from ._serialization_settings import (
    LoadEndianness, SourceChangeWarning, StorageType,
    check_module_version_greater_or_equal, get_crc32_options,
    get_default_load_endianness, get_default_mmap_options, get_unsafe_globals_in_checkpoint,
    mkdtemp, normalize_storage_type, set_crc32_options, set_default_load_endianness,
    set_default_mmap_options, skip_data, storage_to_tensor_type, validate_cuda_device,
    validate_hpu_device,
)
from ._weights_only import add_safe_globals
from .storage import untyped

__all__ = [
    "LoadEndianness", "SourceChangeWarning", "StorageType", "add_safe_globals",
    "check_module_version_greater_or_equal", "clear_safe_globals", "default_restore_location",
    "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
    "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "location_tag", "mkdtemp",
    "normalize_storage_type", "register_package", "safe_globals", "save", "set_crc32_options",
    "set_default_load_endianness", "set_default_mmap_options", "skip_data",
    "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
]


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


def _get_layout(name):
    """The layout of a name such as ``torch.strided``; a file may ask for nothing else by it."""
    found = getattr(corten, name.rpartition(".")[2], None)
    if not isinstance(found, corten.layout):
        raise pickle.UnpicklingError("a layout is expected")
    return found


def default_restore_location(storage, location):
    """A storage that was just read, on the device that its mark names.

    Raises:
        RuntimeError: There is no such device here.
    """
    if location == "cpu":
        return storage
    for _, _, deserializer in _packages:
        moved = deserializer(storage, location)
        if moved is not None:
            return moved
    kind = location.partition(":")[0]
    if kind == "cpu":
        return storage
    if kind == "meta":
        return storage.to(device="meta")
    if kind in ("cuda", "mps", "xpu") and not getattr(corten, kind).is_available():
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but torch.{kind}."
            "is_available() is False. If you are running on a CPU-only machine, please use "
            "torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
        )
    if kind == "cuda":
        validate_cuda_device(location)
    try:
        device = corten.device(location)
    except RuntimeError:
        raise RuntimeError(
            f"don't know how to restore data location of torch.UntypedStorage (tagged with "
            f"{location[:80]})"
        ) from None
    return corten.storage._bytes_tensor(storage).to(device).untyped_storage()


# Saving


def save(
    obj, f, pickle_module=pickle, pickle_protocol=2, _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
):
    """Saves an object to a file name or a binary file.

    A dictionary of tensors goes to a safetensors file if the name ends in ``.safetensors``;
    anything else goes to PyTorch's zip format. A file of that name is replaced when the new one is
    complete; if saving fails, it stays.
    """
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    name = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if name is not None and name.endswith(".safetensors"):
        from . import safetensors

        safetensors.save_file(obj, name)
        return
    legacy = not _use_new_zipfile_serialization
    data, pickler = _saving.pickled(obj, pickle_protocol, location_tag, legacy)
    root = "archive" if name is None else os.path.splitext(os.path.basename(name))[0]
    with _written(f) as file:
        if legacy:
            _saving.write_legacy(file, data, pickler, pickle_protocol)
        else:
            _saving.write_zip(file, root, data, pickler, not _disable_byteorder_record)


@contextmanager
def _written(f):
    if isinstance(f, (str, os.PathLike)):
        from . import _atomic

        with _atomic.replaced(f) as file:
            yield file
        return
    yield f
    if hasattr(f, "flush"):
        f.flush()


# Loading


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Loads what :func:`save` (PyTorch's or this one) wrote, or a safetensors file.

    With ``weights_only``, the default, nothing in the file is run. With ``mmap`` the storages are
    maps of the file, of which the parts that are used are read; checksums are not compared then.

    Raises:
        UnpicklingError: The file asks for what is not on the list, or makes no sense.
        RuntimeError: A record, or a tensor, is not what the file says.
        EOFError: A stream ends too early.
    """
    weights_only = _decided(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    if not weights_only:
        warnings.warn(
            "`torch.load` with `weights_only=False` runs the functions that the file names: do it "
            "only with files from sources that you trust",
            stacklevel=2,
        )
    with _opened(f) as file:
        options = _loading.Options(
            _placer(map_location), _is_meta(map_location),
            None if weights_only else pickle_module or pickle, pickle_load_args,
        )
        try:
            return _read(f, file, options, map_location, mmap)
        except Exception as error:
            _tell(error, f, weights_only)
            raise


def _load_of_pickle(file):
    """What a file holds that is part of a pickle, which runs already what it names."""
    options = _loading.Options(_placer(None), False, pickle, {})
    return _read(file, file, options, None, None)


def _decided(weights_only, pickle_module):
    """Whether only weights are loaded: by the argument, unless an environment variable says so."""
    forced, freed = (
        os.getenv(name, "0").lower() in ("1", "y", "yes", "true")
        for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if forced and freed:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if forced:
        return True
    if weights_only is None:
        return pickle_module is None and not freed
    return bool(weights_only)


@contextmanager
def _opened(f):
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file
        return
    try:
        f.seek(f.tell())
    except (OSError, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the "
            "data into a buffer like io.BytesIO and try to load from it instead."
        ) from None
    yield f


def _read(f, file, options, map_location, mmap):
    """Chooses the format by the first bytes."""
    is_name = isinstance(f, (str, os.PathLike))
    position = file.tell()
    first = file.read(9)
    file.seek(position)
    if first[:4] == b"PK\x03\x04":
        if mmap and not is_name:
            raise ValueError("f must be a file path in order to use the mmap argument")
        return _loading.read_zip(f if is_name else file, options, bool(mmap))
    if first[8:9] == b"{" or is_name and os.fsdecode(f).endswith(".safetensors"):
        return _read_safetensors(file, map_location)
    if mmap:
        name = f"{f}, " if isinstance(f, str) else ""
        raise RuntimeError(
            f"mmap can only be used with files saved with `torch.save({name}_use_new_zipfile_serialization=True), "
            "please torch.save your checkpoint with this option in order to use mmap."
        )
    return _loading.read_legacy(file, options)


def _read_safetensors(file, map_location):
    from . import safetensors

    if map_location is not None and not isinstance(map_location, (str, bytes, corten.device)):
        kind = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(
            f"Loading safetensors file with {kind} map_location is not supported. Use a device "
            "string or torch.device instead."
        )
    tensors = safetensors.load(file.read())
    if map_location is None:
        return tensors
    return {name: tensor.to(map_location) for name, tensor in tensors.items()}


def _tell(error, f, weights_only):
    """Adds to the text of an exception what was done, and with which file."""
    if isinstance(error, OSError) or any(not isinstance(part, str) for part in error.args):
        return
    text = error.args[0] if error.args else ""
    if weights_only and isinstance(error, pickle.UnpicklingError):
        text = (
            "Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` "
            "will likely succeed, but it can result in arbitrary code execution. Do it only if you "
            f"got the file from a trusted source.\n\t{text}"
        )
    name = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
    if isinstance(name, (str, os.PathLike)):
        text = f"{text} (in the file {os.fsdecode(name)!r})".lstrip()
    error.args = (text,)


def _is_meta(map_location):
    if not isinstance(map_location, (str, corten.device)):
        return False
    return str(map_location).partition(":")[0] == "meta"


def _placer(map_location):
    """How a storage just read gets to the device it was saved from or where it is wanted."""

    def place(storage, location):
        if isinstance(map_location, dict):
            location = map_location.get(location, location)
        elif isinstance(map_location, bytes):
            location = map_location.decode("ascii")
        elif isinstance(map_location, (str, corten.device)):
            location = str(map_location)
        elif map_location is not None:
            moved = map_location(storage, location)
            if moved is not None:
                return untyped(moved)
        return default_restore_location(storage, location)

    return place
