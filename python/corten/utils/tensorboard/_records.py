"""Event files."""

from __future__ import annotations

import os

from corten import _C

crc32c, masked_crc = _C._crc32c, _C._masked_crc32c


class EventFile:
    """A file of events in a folder, written from any thread."""

    def __init__(self, folder, suffix=""):
        os.makedirs(folder, exist_ok=True)
        self._file = _C._event_file(folder, suffix)
        self.path = self._file.path()

    def add(self, summary, step, wall_time):
        """Appends a summary."""
        self._file.add(summary, step, wall_time)

    def flush(self):
        """Hands everything to the system."""
        self._file.flush()

    def close(self):
        """Ends the file."""
        self._file.close()
