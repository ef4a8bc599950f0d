"""Transformations of the streams that checkpoints are written to."""

from __future__ import annotations

import abc
import importlib
import importlib.util
import io

__all__ = ["Extension", "StreamTransformExtension", "ZStandard", "ExtensionRegistry"]


class Extension(abc.ABC):
    """Something that a checkpoint names, so that a reader can find it."""

    @staticmethod
    @abc.abstractmethod
    def registry_name() -> str:
        """The name by which it is found."""

    @staticmethod
    @abc.abstractmethod
    def from_descriptor(version: str) -> Extension:
        """The extension for what stands after the ``/`` in a descriptor."""

    @abc.abstractmethod
    def get_descriptor(self) -> str:
        """The name, and after a ``/`` the version."""


class StreamTransformExtension(Extension):
    """Changes the bytes of each item on their way to the file."""

    @abc.abstractmethod
    def transform_to(self, output):
        """A stream whose writes go to ``output``, changed."""

    @abc.abstractmethod
    def transform_from(self, input):
        """A stream that reads what :meth:`transform_to` wrote."""


class ZStandard(StreamTransformExtension):
    """Compression by the package ``pyzstd`` or ``zstandard``."""

    @staticmethod
    def is_available() -> bool:
        """Whether one of the packages is installed."""
        return any(map(importlib.util.find_spec, ("zstandard", "pyzstd")))

    @staticmethod
    def from_descriptor(version: str) -> ZStandard:
        if version.partition(".")[0] != "1":
            raise ValueError(f"Unknown extension version={version!r}")
        return ZStandard()

    @staticmethod
    def registry_name() -> str:
        return "stream.zstd"

    def __init__(self):
        if not ZStandard.is_available():
            raise ValueError("zstandard is not installed: pip install zstandard")

    def get_descriptor(self) -> str:
        return f"{self.registry_name()}/1"

    def transform_to(self, output):
        if importlib.util.find_spec("zstandard"):
            return importlib.import_module("zstandard").ZstdCompressor().stream_writer(output)
        return importlib.import_module("pyzstd").ZstdFile(output, "wb")

    def transform_from(self, input):
        if importlib.util.find_spec("zstandard"):
            return importlib.import_module("zstandard").ZstdDecompressor().stream_reader(input)
        return importlib.import_module("pyzstd").ZstdFile(io.BytesIO(input.read()), "rb")


class ExtensionRegistry:
    """Finds extensions by what checkpoints say of them."""

    def __init__(self):
        self.extensions = {cls.registry_name(): cls for cls in (ZStandard,)}

    def register(self, cls):
        """Lets checkpoints name ``cls``."""
        self.extensions[cls.registry_name()] = cls

    def from_descriptor_list(self, descriptors):
        """The extensions of a list of descriptors.

        Raises:
            ValueError: One is not known.
        """
        found = []
        for descriptor in descriptors:
            name, _, version = descriptor.partition("/")
            if name not in self.extensions:
                raise ValueError(f"Unknown extension name={name!r}")
            found.append(self.extensions[name].from_descriptor(version or "0"))
        return found
