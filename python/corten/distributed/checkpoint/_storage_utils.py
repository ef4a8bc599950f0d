"""Finding the storage for a checkpoint's name."""

from __future__ import annotations

from .filesystem import FileSystemReader, FileSystemWriter
from .fsspec_filesystem import FsspecReader, FsspecWriter


def _storage_setup(storage, checkpoint_id, reader=False):
    """The storage given, or the one that a checkpoint of that name is in.

    Raises:
        RuntimeError: There is neither, or no storage for such names.
    """
    if storage:
        if checkpoint_id is not None:
            storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError(
            "`checkpoint_id` must be specified if storage_reader/storage_writer is None."
        )
    kinds = (FileSystemReader, FsspecReader) if reader else (FileSystemWriter, FsspecWriter)
    for kind in kinds:
        if kind.validate_checkpoint_id(checkpoint_id):
            made = kind(checkpoint_id)
            made.reset(checkpoint_id)
            return made
    raise RuntimeError(
        "Cannot detect which StorageReader or StorageWriter to use. "
        "Please specify the storage_reader/storage_writer."
    )
