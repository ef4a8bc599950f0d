"""Files: their names, what is in them, what that stands for."""

from __future__ import annotations

import warnings

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import get_file_binaries_from_pathnames, get_file_pathnames_from_root
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler
from .utils import IterableWrapperIterDataPipe

__all__ = [
    "FileListerIterDataPipe", "FileOpenerIterDataPipe", "RoutedDecoderIterDataPipe",
    "StreamReaderIterDataPipe",
]


class _OfLength(IterDataPipe):
    """A pipe whose length is what its user says."""

    def __len__(self):
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_OfLength):
    """The names of the files in folders that are like one of the patterns ``masks``."""

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False,
                 non_deterministic=False, length=-1):
        super().__init__()
        root = [root] if isinstance(root, str) else root
        if not isinstance(root, IterDataPipe):
            root = IterableWrapperIterDataPipe(root)
        self.datapipe = root
        self.masks = masks
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = length

    def __iter__(self):
        for path in self.datapipe:
            yield from get_file_pathnames_from_root(
                path, self.masks, self.recursive, self.abspath, self.non_deterministic
            )


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(_OfLength):
    """Pairs of a name and the opened file."""

    def __init__(self, datapipe, mode="r", encoding=None, length=-1):
        super().__init__()
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe = datapipe
        self.mode = mode
        self.encoding = encoding
        self.length = length

    def __iter__(self):
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """Pairs of a name and what is read from its stream, all of it or ``chunk`` bytes at a time."""

    def __init__(self, datapipe, chunk=None):
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self):
        for name, stream in self.datapipe:
            while content := stream.read(self.chunk):
                yield name, content
            stream.close()


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe):
    """Deprecated: pairs of a name and the value that the file stands for."""

    def __init__(self, datapipe, *handlers, key_fn=extension_extract_fn):
        super().__init__()
        self.datapipe = datapipe
        handlers = handlers or (basichandlers, imagehandler("torch"))
        self.decoder = Decoder(*handlers, key_fn=key_fn)
        warnings.warn(
            f"`{type(self).__name__}()` and its functional API `.routed_decode()` are deprecated "
            "since 1.12 and will be removed in 1.13.\nSee "
            "https://github.com/pytorch/data/issues/163 for details.",
            FutureWarning, stacklevel=2,
        )

    def add_handler(self, *handler):
        """Adds handlers before the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self):
        for data in self.datapipe:
            yield data[0], self.decoder(data)[data[0]]

    def __len__(self):
        return self._length_of(self.datapipe)[0]
