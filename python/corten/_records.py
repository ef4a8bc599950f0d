"""Records of a saved file by name: PyTorch's low-level writer and reader of its zip format."""

from __future__ import annotations

import os
import struct
import sys
import zipfile
import zlib
from contextlib import contextmanager

from . import _C

_ALIGNMENT = 64
_LARGE = 2**31 - 1


def padding(position, name, size):
    """An extra field that makes a record's data begin at a multiple of the alignment."""
    wide = 20 if size * 1.05 > _LARGE else 0  # zipfile adds a 64-bit field to long records
    start = position + 30 + len(name.encode()) + wide + 4
    count = -start % _ALIGNMENT
    return b"FB" + struct.pack("<H", count) + b"Z" * count


class RecordWriter:
    """Writes records to a zip file, below one folder, uncompressed and aligned."""

    def __init__(self, file, root="archive"):
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._root, self._names, self._checks = root, set(), []

    def write_record(self, name, data, size=None):
        """Adds a record: bytes, text, or a storage on the CPU.

        Raises:
            RuntimeError: There is a record of that name.
        """
        if name in self._names:
            raise RuntimeError(f"Tried to serialize file twice: {name}")
        self._names.add(name)
        info = zipfile.ZipInfo(f"{self._root}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
        content = _content(data, size)
        info.extra = padding(self._zip.fp.tell(), info.filename, len(content))
        self._zip.writestr(info, content)
        self._checks.append(info.CRC)

    def write_record_metadata(self, name, size):
        """Adds a record of ``size`` bytes whose content is filled in later."""
        self.write_record(name, bytes(size))

    def serialization_id(self):
        """A number by which files of other contents differ."""
        joined = struct.pack(f"<{len(self._checks)}I", *self._checks)
        return f"{len(self._checks):020d}{zlib.crc32(joined):020d}"

    def get_all_written_records(self):
        """The names of the records so far."""
        return set(self._names)

    def write_end_of_file(self):
        """Adds what every file ends with, and closes it."""
        if self._zip.fp is None:
            return
        if "version" not in self._names:
            self.write_record("version", b"3\n")
        self.write_record(".data/serialization_id", self.serialization_id())
        self._zip.close()


    def abandon(self):
        """Forgets the file, which is left as it is."""
        # Otherwise the archive would be ended when it is collected, in a file that may be closed.
        self._zip.fp = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self.write_end_of_file()
        else:
            self.abandon()


def _content(data, size):
    from .storage import is_storage, untyped

    if is_storage(data):
        from ._utils import cpu_bytes

        data = cpu_bytes(untyped(data))
    elif isinstance(data, str):
        data = data.encode()
    data = memoryview(data).cast("B")
    return data if size is None else data[:size]


class RecordReader:
    """Reads records of a zip file by name."""

    def __init__(self, file):
        self._archive = _C._archive_of_file(file)

    def get_record(self, name):
        """The bytes of a record.

        Raises:
            RuntimeError: There is none of that name, or it is damaged.
        """
        return self._archive.read(name)

    def has_record(self, name):
        """Whether there is a record of that name."""
        return self._archive.has(name)

    def get_all_records(self):
        """The names of all records."""
        return self._archive.names()

    def get_record_offset(self, name):
        """Where the bytes of a record begin in the file."""
        return self._archive.place(name)

    def serialization_id(self):
        """The number that the file's writer gave it, or an empty text."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""


@contextmanager
def _open_file_like(name_or_buffer, mode):
    """A file of that name, closed at the end, or the file itself."""
    if isinstance(name_or_buffer, (str, os.PathLike)):
        with open(name_or_buffer, mode) as file:
            yield file
        return
    yield name_or_buffer
    if "w" in mode:
        name_or_buffer.flush()


@contextmanager
def _open_zipfile_writer(name_or_buffer):
    """A :class:`RecordWriter` over a file or a name, ended at the end."""
    root = "archive"
    if isinstance(name_or_buffer, (str, os.PathLike)):
        root = os.path.splitext(os.path.basename(os.fspath(name_or_buffer)))[0]
    with _open_file_like(name_or_buffer, "wb") as file:
        with RecordWriter(file, root) as writer:
            yield writer


@contextmanager
def _open_zipfile_reader(name_or_buffer):
    """A :class:`RecordReader` over a file or a name."""
    with _open_file_like(name_or_buffer, "rb") as file:
        yield RecordReader(file)


def _is_zipfile(f):
    """Whether a file begins, where it stands, as a zip file does."""
    start = f.tell()
    first = f.read(4)
    f.seek(start)
    return first == b"PK\x03\x04"


def write_start(writer, data, with_byte_order):
    """Writes what every saved file begins with: the pickle and how the rest is to be read."""
    writer.write_record("data.pkl", data)
    writer.write_record(".format_version", b"1")
    writer.write_record(".storage_alignment", str(_ALIGNMENT))
    if with_byte_order:
        writer.write_record("byteorder", sys.byteorder)
