"""What a writer and a reader of checkpoints need of a file system, and the files of this machine."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from pathlib import Path


class FileSystemBase(ABC):
    """What a writer and a reader need of a file system."""

    @abstractmethod
    @contextlib.contextmanager
    def create_stream(self, path, mode):
        """An open file, which is closed when the block ends."""

    @abstractmethod
    def concat_path(self, path, suffix):
        """The path of ``suffix`` in the folder ``path``."""

    @abstractmethod
    def rename(self, path, new_path) -> None:
        """Gives a file another name; where it can, in place of the file that has it."""

    @abstractmethod
    def init_path(self, path):
        """The path in the form of this file system."""

    @abstractmethod
    def mkdir(self, path) -> None:
        """Makes a folder, if it is not there."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        """Whether a checkpoint of that name can be here."""

    @abstractmethod
    def exists(self, path) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def rm_file(self, path) -> None:
        """Removes a file."""


class FileSystem(FileSystemBase):
    """The files of this machine."""

    @contextlib.contextmanager
    def create_stream(self, path, mode):
        with Path(path).open(mode) as stream:
            yield stream

    def concat_path(self, path, suffix):
        return Path(path) / suffix

    def init_path(self, path):
        return Path(path)

    def rename(self, path, new_path):
        os.replace(path, new_path)

    def mkdir(self, path):
        Path(path).mkdir(parents=True, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        if isinstance(checkpoint_id, Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        return any(
            parent.exists() and os.access(parent, os.W_OK) for parent in Path(checkpoint_id).parents
        )

    def exists(self, path):
        return Path(path).exists()

    def rm_file(self, path):
        Path(path).unlink()

    def ls(self, path):
        """The paths of the files in a folder."""
        return [str(found) for found in Path(path).iterdir()]
