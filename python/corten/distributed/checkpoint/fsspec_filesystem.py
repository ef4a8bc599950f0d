"""Checkpoints wherever the package ``fsspec`` can write: ``s3://…``, ``gs://…``, ``memory://…``."""

from __future__ import annotations

import importlib.util
import os
from contextlib import contextmanager

from .filesystem import FileSystemBase, FileSystemReader, FileSystemWriter, SerializationFormat

__all__ = ["FsspecWriter", "FsspecReader"]


class FileSystem(FileSystemBase):
    """The file system that a URL names."""

    def __init__(self):
        self.fs = None

    @contextmanager
    def create_stream(self, path, mode):
        path = os.fspath(path)
        try:
            with self.fs.open(path, mode) as stream:
                yield stream
        except BaseException:
            if any(letter in mode for letter in "w+a") and self.fs.exists(path):
                self.fs.rm_file(path)
            raise

    def concat_path(self, path, suffix):
        return os.path.join(path, suffix)

    def init_path(self, path, **kwargs):
        from fsspec.core import url_to_fs

        self.fs, _ = url_to_fs(path, **kwargs)
        return path

    def rename(self, path, new_path):
        self.fs.rename(path, new_path)

    def mkdir(self, path):
        self.fs.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        if isinstance(checkpoint_id, os.PathLike) or importlib.util.find_spec("fsspec") is None:
            return False
        from fsspec.core import url_to_fs

        try:
            url_to_fs(checkpoint_id)
        except ValueError:
            return False
        return True

    def exists(self, path):
        return self.fs.exists(path)

    def rm_file(self, path):
        self.fs.rm(path)

    def ls(self, path):
        """The paths of the files in a folder."""
        return self.fs.ls(path, detail=False)


class FsspecWriter(FileSystemWriter):
    """A :class:`FileSystemWriter` for URLs; further arguments are those of the file system."""

    def __init__(
        self, path, single_file_per_rank=True, sync_files=True, thread_count=1,
        per_thread_copy_ahead=10_000_000, cache_staged_state_dict=False, overwrite=True,
        _extensions=None, serialization_format=SerializationFormat.TORCH_SAVE, **kwargs,
    ):
        super().__init__(
            path, single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead,
            cache_staged_state_dict=cache_staged_state_dict, overwrite=overwrite,
            _extensions=_extensions, serialization_format=serialization_format,
        )
        self.fs = FileSystem()
        self.path = self.fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FsspecReader(FileSystemReader):
    """A :class:`FileSystemReader` for URLs; further arguments are those of the file system."""

    def __init__(self, path, **kwargs):
        super().__init__(path)
        self.fs = FileSystem()
        self.path = self.fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)
