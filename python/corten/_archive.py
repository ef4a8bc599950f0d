"""Reading records of the zip files that hold saved objects; nothing is ever extracted to disk.

What a file says of itself is checked before memory is asked for: a record lies inside the file and
overlaps no other, names occur once, and checksums are compared where they were written.
"""

from __future__ import annotations

import struct
import zipfile
import zlib

_STORED, _DEFLATED = 0, 8
_LOCAL_HEADER = 30
_ENCRYPTED = 0x1
_UTF8 = 0x800
#: A compressed record that grows more than a hundredfold, to more than this, is refused.
_LARGEST_INFLATED = 1 << 28
_LARGEST_RATIO = 100


def _broken(what):
    return RuntimeError(
        f"PytorchStreamReader failed reading zip archive: {what}. The file is corrupted: it was not "
        "saved or transferred as a whole, or was changed afterwards."
    )


class Archive:
    """The records of a file, by their names below the folder of the first; with ``folder=False``
    all of them, by their whole names.

    Raises:
        RuntimeError: The file, or the record asked for, is not what it should be.
    """

    def __init__(self, file, folder=True, largest_inflated=_LARGEST_INFLATED):
        self._file, self._largest_inflated = file, largest_inflated
        try:
            archive = zipfile.ZipFile(file)
            entries, self._end = archive.infolist(), archive.start_dir
        except (MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:  # the standard library raises a dozen classes here
            raise _broken(f"failed finding central directory ({error})") from None
        if not entries and folder:
            raise _broken("there are no records")
        self._folder = ""
        if folder:
            self._folder, slash, _ = entries[0].filename.partition("/")
            if not slash:
                raise _broken(f"file in archive is not in a subdirectory: {_shown(self._folder)}")
            self._folder += slash
        self._entries = self._indexed(entries)
        self._check_places(entries)

    def _indexed(self, entries):
        start, found = self._folder, {}
        for entry in entries:
            if entry.orig_filename != entry.filename:
                raise _broken(f"the name of the record {_shown(entry.filename)} is malformed")
            if not entry.filename.startswith(start):
                continue
            name = entry.filename[len(start):]
            if name in found:
                raise _broken(f"there are two records {_shown(entry.filename)}")
            found[name] = entry
        return found

    def _check_places(self, entries):
        end = 0
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            if entry.header_offset < end:
                raise _broken(f"the record {_shown(entry.filename)} overlaps another")
            end = entry.header_offset + _LOCAL_HEADER + entry.compress_size
            if end > self._end:
                raise _broken(f"the record {_shown(entry.filename)} reaches beyond the file")

    def __contains__(self, name):
        return name in self._entries

    def names(self):
        """The names of the records, in the order of the file."""
        return list(self._entries)

    def size(self, name):
        """The length of a record."""
        return self._entry(name).file_size

    def _entry(self, name):
        found = self._entries.get(name)
        if found is None:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file {_shown(name)}: file not found"
            )
        return found

    def _failed(self, name, why):
        return RuntimeError(f"PytorchStreamReader failed reading file {_shown(name)}: {why}")

    def _sought(self, name):
        """Moves to the data of a record; its entry and their place in the file."""
        entry = self._entry(name)
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (_STORED, _DEFLATED):
            raise self._failed(name, "it is encrypted, or compressed by an unknown method")
        if entry.compress_type == _STORED and entry.compress_size != entry.file_size:
            raise self._failed(name, "its two lengths differ")
        self._file.seek(entry.header_offset)
        header = self._file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise self._failed(name, "it has no header")
        count, extra = (int.from_bytes(header[at:at + 2], "little") for at in (26, 28))
        encoding = "utf-8" if entry.flag_bits & _UTF8 else "cp437"
        if self._file.read(count) != entry.filename.encode(encoding, "replace"):
            raise self._failed(name, "its header has another name")
        place = entry.header_offset + _LOCAL_HEADER + count + extra
        if place + entry.compress_size > self._end:
            raise self._failed(name, "it reaches beyond the file")
        self._file.seek(place)
        return entry, place

    def place(self, name):
        """Where the data of a record are in the file, or None if they are compressed."""
        entry, place = self._sought(name)
        return place if entry.compress_type == _STORED else None

    def drop_checksums(self, data):
        """Says in the writable bytes of the file that there are no checksums, because its data
        are about to change."""
        for entry in self._entries.values():
            data[entry.header_offset + 14:entry.header_offset + 18] = bytes(4)
        place = self._end
        while data[place:place + 4] == b"PK\x01\x02":
            data[place + 16:place + 20] = bytes(4)
            place += 46 + sum(struct.unpack("<HHH", data[place + 28:place + 34]))

    def read(self, name, largest_inflated=None):
        """The bytes of a record."""
        entry, _ = self._sought(name)
        if entry.compress_type == _DEFLATED:
            return self._inflated(name, entry, largest_inflated or self._largest_inflated)
        data = self._file.read(entry.file_size)
        if len(data) != entry.file_size:
            raise self._failed(name, "unexpected end of file")
        return self._checked(name, entry, data)

    def read_into(self, name, view):
        """Fills memory of the length of a record with its bytes."""
        entry, _ = self._sought(name)
        if entry.compress_type == _DEFLATED:
            view[:] = self._inflated(name, entry, self._largest_inflated)
            return
        read_into(self._file, view)
        self._checked(name, entry, view)

    def _inflated(self, name, entry, largest):
        largest = max(largest, _LARGEST_RATIO * entry.compress_size)
        if entry.file_size > largest:
            raise self._failed(name, f"it would grow to {entry.file_size} bytes")
        stream = zlib.decompressobj(-15)
        try:
            data = stream.decompress(self._file.read(entry.compress_size), entry.file_size + 1)
        except zlib.error as error:
            raise self._failed(name, str(error)) from None
        if len(data) != entry.file_size or not stream.eof:
            raise self._failed(name, "it has another length than the file says")
        return self._checked(name, entry, data)

    def _checked(self, name, entry, data):
        # Writers may leave checksums out, and put zero there.
        if entry.CRC and zlib.crc32(data) != entry.CRC:
            raise self._failed(name, "its checksum is wrong")
        return data


def _shown(name):
    return name if len(name) <= 80 else name[:77] + "..."


def read_into(file, view):
    """Fills memory from where a file is.

    Raises:
        RuntimeError: The file ends before.
    """
    fill, done = getattr(file, "readinto", None), 0
    while done < len(view):
        if fill is None:
            data = file.read(len(view) - done)
            view[done:done + len(data)] = data
            count = len(data)
        else:
            count = fill(view[done:])
        if not count:
            raise RuntimeError("unexpected end of file within a storage")
        done += count
