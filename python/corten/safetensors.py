"""The safetensors format: a JSON header and raw little-endian data.

The functions are those of the ``safetensors.torch`` package. Files are mapped: of their data is read what
is used, and writing to a tensor does not change the file.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

import corten

from . import _C, _atomic, _utils

__all__ = ["load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model"]


class SafetensorError(Exception):
    """A file that does not follow the format."""


def _checked(tensors):
    """The tensors, if they can be saved."""
    shared = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, corten.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != corten.strided:
            raise ValueError(f"You are trying to save a sparse tensor: `{name}`.")
        if not tensor.dtype._file_name:
            raise ValueError(f"the format has no dtype {tensor.dtype}, which `{name}` has")
        if tensor.numel():
            key = (tensor.device, tensor.untyped_storage().data_ptr())
            shared.setdefault(key, []).append(name)
    doubled = [names for names in shared.values() if len(names) > 1]
    if doubled:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential "
            f"differences when loading them again: {doubled}."
        )
    return tensors


def save(tensors, metadata=None):
    """The file's bytes."""
    pieces = []
    _C._safetensors_write(_checked(tensors), metadata, pieces.append)
    return b"".join(pieces)


def save_file(tensors, filename, metadata=None):
    """Writes a file; it appears under its name only when it is complete."""
    _checked(tensors)
    with _atomic.replaced(filename) as file:
        _C._safetensors_write(tensors, metadata, _utils.writing_all(file))


@contextmanager
def _refusing(filename=None):
    """A block in which errors about what a file holds are those of the format."""
    try:
        yield
    except RuntimeError as error:
        if type(error) is not RuntimeError:
            raise
        place = "" if filename is None else f" (in the file {os.fsdecode(filename)!r})"
        raise SafetensorError(f"{error}{place}") from None


def load(data):
    """The tensors of a file's bytes."""
    with _refusing():
        return _C._safetensors_read(data)


def load_file(filename, device="cpu"):
    """The tensors of a file."""
    with safe_open(filename, framework="pt", device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}


class safe_open:  # noqa: N801
    """Opens a file and reads single tensors of it, or parts of them."""

    def __init__(self, filename, framework="pt", device="cpu"):
        self._device = device
        with _refusing(filename):
            self._file = _C._safetensors_open(filename)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self._file = None

    def _open(self):
        if self._file is None:
            raise SafetensorError("File is closed")
        return self._file

    def keys(self):
        """The names, in alphabetical order."""
        return self._open().names()

    def offset_keys(self):
        """The names, in the order of the data in the file."""
        file = self._open()
        return sorted(file.names(), key=lambda name: file.describe(name)[2])

    def metadata(self):
        """The strings saved with the tensors."""
        return self._open().metadata()

    def _describe(self, name):
        try:
            return self._open().describe(name)
        except IndexError:
            raise SafetensorError(f"File does not contain tensor {name}") from None

    def get_tensor(self, name):
        """Reads one tensor."""
        self._describe(name)
        return self._placed(self._file.tensor(name))

    def get_slice(self, name):
        """A tensor of which parts can be read, by indexing."""
        return _Slice(self, name, *self._describe(name)[:2])

    def _placed(self, tensor):
        return tensor if str(self._device) == "cpu" else tensor.to(self._device)


class _Slice:
    """A tensor of a file: indexing reads a part of it."""

    def __init__(self, file, name, dtype, shape):
        self._opened, self._name, self._dtype, self._shape = file, name, dtype, shape

    def get_shape(self):
        """The sizes."""
        return list(self._shape)

    def get_dtype(self):
        """The dtype, as the format calls it."""
        return self._dtype._file_name

    def __getitem__(self, index):
        tensor = self._opened._open().tensor(self._name)
        return self._opened._placed(tensor[index].clone(memory_format=corten.contiguous_format))


def save_model(model, filename, metadata=None):
    """Saves a module's state; of tensors that share memory the first is kept."""
    tensors, seen = {}, set()
    for name, tensor in model.state_dict().items():
        key = (tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset())
        if tensor.numel() == 0 or key not in seen:
            tensors[name] = tensor
        seen.add(key)
    save_file(tensors, filename, metadata)


def load_model(model, filename, strict=True, device="cpu"):
    """Loads a module's state; returns the missing and the unexpected names."""
    given = load_file(filename, device)
    missing, unexpected = model.load_state_dict(given, strict=False)
    own = model.state_dict()
    held = {own[name].untyped_storage().data_ptr() for name in given if name in own}
    missing = {name for name in missing if own[name].untyped_storage().data_ptr() not in held}
    if strict and (missing or unexpected):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(model).__name__}: missing keys "
            f"{sorted(missing)}, unexpected keys {sorted(unexpected)}"
        )
    return missing, unexpected
