"""Event files: records with checksums, and the few protocol buffers that they hold."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

_CASTAGNOLI = 0x82F63B78


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _table()


def crc32c(data):
    """The CRC-32C of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked_crc(data):
    """The CRC-32C as records store it, so that checksums of checksums stay sound."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    """A record: length and bytes, each with a checksum."""
    length = struct.pack("<Q", len(data))
    return (
        length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))
    )


def varint(value):
    """A number in groups of seven bits; negative ones take ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field, value):
    """An integer, bool or enum field."""
    return varint(field << 3) + varint(int(value))


def double(field, value):
    """A double field."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field, value):
    """A float field."""
    return varint(field << 3 | 5) + struct.pack("<f", value)


def data(field, value):
    """A field of bytes, text or a message."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def doubles(field, values):
    """A packed field of doubles."""
    return data(field, struct.pack(f"<{len(values)}d", *values))


def event(wall_time, step, field, payload):
    """An event; ``field`` 3 is the version of the file, 5 a summary."""
    head = double(1, wall_time)
    if step:
        head += integer(2, step)
    return head + data(field, payload)


class EventFile:
    """A file of events in a folder, written from any thread."""

    def __init__(self, folder, suffix=""):
        os.makedirs(folder, exist_ok=True)
        host, pid = socket.gethostname(), os.getpid()
        name = f"events.out.tfevents.{time.time():.0f}.{host}.{pid}.{next(_numbers)}{suffix}"
        self.path = os.path.join(folder, name)
        self._lock = threading.Lock()
        self._file = open(self.path, "wb")
        self.add(event(time.time(), 0, 3, "brain.Event:2"))
        self.flush()

    def add(self, message):
        """Appends an event."""
        with self._lock:
            self._file.write(record(message))

    def flush(self):
        """Hands everything to the system."""
        with self._lock:
            if not self._file.closed:
                self._file.flush()

    def close(self):
        """Ends the file."""
        with self._lock:
            self._file.close()


def _counter():
    number = 0
    while True:
        yield number
        number += 1


_numbers = _counter()
