"""The safetensors format: a JSON header and raw little-endian data.

The functions are those of the ``safetensors.torch`` package.
"""

from __future__ import annotations

import json
import math
import os
import sys

import corten

from . import _atomic, _utils

__all__ = ["load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model"]

_NAMES = {name: dtype._file_name for name, dtype in _utils.dtypes().items() if dtype._file_name}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_LARGEST_HEADER = 100_000_000


class SafetensorError(Exception):
    """A file that does not follow the format."""


def _plan(tensors, metadata):
    """The header's bytes and the tensors in the order in which they are written."""
    shared = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, corten.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != corten.strided:
            raise ValueError(f"You are trying to save a sparse tensor: `{name}`.")
        if tensor.numel():
            key = (tensor.device, tensor.untyped_storage().data_ptr())
            shared.setdefault(key, []).append(name)
    doubled = [names for names in shared.values() if len(names) > 1]
    if doubled:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential "
            f"differences when loading them again: {doubled}."
        )
    # Wide dtypes first keeps every tensor aligned.
    order = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header, end = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, tensor in order:
        start, end = end, end + tensor.numel() * tensor.element_size()
        if _utils.short_dtype(tensor.dtype) not in _NAMES:
            raise ValueError(f"the format has no dtype {tensor.dtype}, which `{name}` has")
        header[name] = {
            "dtype": _NAMES[_utils.short_dtype(tensor.dtype)], "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, [tensor for _, tensor in order]


def _data(tensor):
    """The tensor's elements as contiguous little-endian bytes."""
    tensor = tensor.detach().cpu().contiguous()
    size = tensor.element_size()
    start = tensor.storage_offset() * size
    data = bytes(_utils.byte_view(tensor.untyped_storage())[start:start + tensor.numel() * size])
    return _swapped(data, size) if sys.byteorder == "big" else data


def _swapped(data, size):
    if size == 1:
        return data
    swapped = bytearray(len(data))
    for i in range(size):
        swapped[i::size] = data[size - 1 - i::size]
    return bytes(swapped)


def save(tensors, metadata=None):
    """The file's bytes."""
    head, order = _plan(tensors, metadata)
    return b"".join([head, *(_data(tensor) for tensor in order)])


def save_file(tensors, filename, metadata=None):
    """Writes a file; it appears under its name only when it is complete."""
    head, order = _plan(tensors, metadata)
    with _atomic.replaced(filename) as file:
        file.write(head)
        for tensor in order:
            file.write(_data(tensor))


def _invalid(what):
    return SafetensorError(f"Error while deserializing header: {what}")


def _without_doubles(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _invalid("invalid JSON in header: a name occurs twice")
    return found


def _parsed(head, total):
    """The header's entries, checked to be in order and without holes; `total` bytes of data."""
    try:
        header = json.loads(head.decode("utf-8"), object_pairs_hook=_without_doubles)
    except UnicodeDecodeError:
        raise _invalid("invalid UTF-8 in header") from None
    except (ValueError, RecursionError) as error:
        raise _invalid(f"invalid JSON in header: {error}") from None
    if type(header) is not dict:
        raise _invalid("invalid JSON in header: it is no object")
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not _is_text(metadata):
        raise _invalid("invalid JSON in header: metadata are strings by name")
    for name, entry in header.items():
        _check_entry(name, entry)
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        size = math.prod(entry["shape"]) * _itemsize(entry["dtype"])
        if start != end or stop - start != size:
            raise _invalid(f"invalid offset for tensor `{name[:100]}`")
        end = stop
    if end != total:
        raise _invalid("incomplete metadata, file not fully covered")
    return header, metadata


def _is_text(metadata):
    return type(metadata) is dict and all(type(value) is str for value in metadata.values())


def _check_entry(name, entry):
    """That a tensor's entry has the parts it should have, each of the type it should have."""
    name = name[:100]
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _invalid(f"`{name}` has not exactly a dtype, a shape and offsets")
    if type(entry["dtype"]) is not str or entry["dtype"] not in _DTYPES:
        raise _invalid(f"unknown dtype of tensor `{name}`")
    for part in ("shape", "data_offsets"):
        numbers = entry[part]
        if type(numbers) is not list or any(
            type(number) is not int or not 0 <= number < 2**63 for number in numbers
        ):
            raise _invalid(f"invalid {part} of tensor `{name}`")
    if len(entry["data_offsets"]) != 2:
        raise _invalid(f"invalid data_offsets of tensor `{name}`")
    if math.prod(size for size in entry["shape"] if size) >= 2**63:
        raise _invalid(f"the shape of tensor `{name}` overflows")


def _itemsize(name):
    return getattr(corten, _DTYPES[name]).itemsize


def _head_size(first):
    if len(first) < 8:
        raise SafetensorError("Error while deserializing header: header too small")
    size = int.from_bytes(first, "little")
    if size < 2:
        raise SafetensorError("Error while deserializing header: header too small")
    if size > _LARGEST_HEADER:
        raise SafetensorError("Error while deserializing header: header too large")
    return size


def _tensor(entry, fill):
    """A new tensor whose bytes `fill(view)` writes."""
    tensor = corten.empty(entry["shape"], dtype=getattr(corten, _DTYPES[entry["dtype"]]))
    if tensor.numel():
        view = _utils.byte_view(tensor.untyped_storage())[:tensor.numel() * tensor.element_size()]
        fill(view)
        if sys.byteorder == "big":
            tensor.untyped_storage().byteswap(tensor.dtype)
        _utils.only_truths(tensor.untyped_storage(), tensor.dtype)
    return tensor


def load(data):
    """The tensors of a file's bytes."""
    size = _head_size(bytes(data[:8]))
    if size > len(data) - 8:
        raise _invalid("invalid header length")
    header, _ = _parsed(bytes(data[8:8 + size]), len(data) - 8 - size)
    body = memoryview(data)[8 + size:]

    def fill(entry):
        start, stop = entry["data_offsets"]
        return lambda view: view.__setitem__(slice(None), body[start:stop])

    return {name: _tensor(entry, fill(entry)) for name, entry in header.items()}


def load_file(filename, device="cpu"):
    """The tensors of a file."""
    with safe_open(filename, framework="pt", device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}


class safe_open:  # noqa: N801
    """Opens a file and reads single tensors of it."""

    def __init__(self, filename, framework="pt", device="cpu"):
        self._file = open(filename, "rb")
        self._device = device
        try:
            size = _head_size(self._file.read(8))
            total = os.fstat(self._file.fileno()).st_size - 8 - size
            if total < 0:
                raise _invalid("invalid header length")
            self._header, self._metadata = _parsed(self._file.read(size), total)
        except BaseException as error:
            self._file.close()
            if isinstance(error, SafetensorError):
                raise SafetensorError(f"{error} (in the file {os.fsdecode(filename)!r})") from None
            raise
        self._start = 8 + size

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self._file.close()

    def keys(self):
        """The names, in alphabetical order."""
        return sorted(self._header)

    def metadata(self):
        """The strings saved with the tensors."""
        return self._metadata

    def get_tensor(self, name):
        """Reads one tensor."""
        if name not in self._header:
            raise SafetensorError(f"File does not contain tensor {name}")
        entry = self._header[name]

        def fill(view):
            self._file.seek(self._start + entry["data_offsets"][0])
            if self._file.readinto(view) != len(view):
                raise SafetensorError(f"the file ends within `{name}`")

        tensor = _tensor(entry, fill)
        return tensor if str(self._device) == "cpu" else tensor.to(self._device)


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
