"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager


@contextmanager
def replaced(path):
    """A binary file to write, which takes the place of ``path`` when the block ends.

    If the block fails, ``path`` is what it was. The data reach the disk before the name does.
    """
    path = os.fsdecode(path)
    target = os.path.realpath(path)
    mode, (folder, name) = _mode(target), os.path.split(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
    if mode is not None and not (stat.S_ISREG(mode) and os.access(folder, os.W_OK)):
        # A device or a pipe has no content to keep, and some folders take no new file.
        with open(path, "wb") as file:
            yield file
        return
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    temporary = os.path.join(folder, f"{name[:60]}.{os.urandom(6).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def _mode(path):
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def sync_folder(folder):
    """Makes the name last, too, where the system lets folders be synchronised."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
