"""What a checkpoint says of itself: the classes that its file ``.metadata`` holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional, Union

import corten

from .stateful import StatefulT

__all__ = [
    "ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata", "Metadata",
    "MetadataIndex", "TensorProperties", "StorageMeta",
]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor: where it begins in each dimension, and how long it is."""

    offsets: corten.Size
    sizes: corten.Size


class _MEM_FORMAT_ENCODING(Enum):  # noqa: N801
    """Memory formats as the file names them."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_ENCODINGS = {
    corten.contiguous_format: _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT,
    corten.channels_last: _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST,
    corten.preserve_format: _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT,
}
_FORMATS = {encoding: memory_format for memory_format, encoding in _ENCODINGS.items()}


@dataclass
class TensorProperties:
    """What a tensor is made with, beside its shape."""

    dtype: corten.dtype = field(default_factory=corten.get_default_dtype)
    layout: corten.layout = field(default=corten.strided)
    requires_grad: bool = False
    memory_format: corten.memory_format = field(default=corten.contiguous_format)
    pin_memory: bool = False
    strides: Optional[tuple[int, ...]] = None

    def __getstate__(self):
        encoding = _ENCODINGS.get(self.memory_format)
        if encoding is None:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        return (
            self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory, self.strides,
        )

    def __setstate__(self, state):
        # Older files have no strides.
        self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory = state[:5]
        self.strides = state[5] if len(state) > 5 else None
        if encoding not in _FORMATS:
            raise RuntimeError(f"Invalid torch.memory_format encoding: {encoding}")
        self.memory_format = _FORMATS[encoding]

    @staticmethod
    def create_from_tensor(tensor):
        """The properties of a tensor."""
        stride = getattr(tensor, "stride", None)
        return TensorProperties(
            dtype=tensor.dtype, layout=tensor.layout, requires_grad=tensor.requires_grad,
            memory_format=corten.contiguous_format, pin_memory=tensor.is_pinned(),
            strides=tuple(stride()) if callable(stride) else None,
        )


@dataclass
class TensorStorageMetadata:
    """A tensor: its shape, and the boxes in which it was saved."""

    properties: TensorProperties
    size: corten.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object that is no tensor."""


STORAGE_TYPES = Union[TensorStorageMetadata, BytesStorageMetadata]
STATE_DICT_TYPE = dict[str, Union[StatefulT, Any]]


@dataclass
class StorageMeta:
    """Which save wrote the checkpoint."""

    checkpoint_id: Union[str, os.PathLike, None] = None
    save_id: Optional[str] = None
    load_id: Optional[str] = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The content of ``.metadata``: what each key is, and where its bytes are."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: Optional[StorageMeta] = None
    version: Optional[str] = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of an object of a checkpoint, or of a box of a tensor. ``index`` is a hint, the place of the
    box among the tensor's, and no part of the identity."""

    fqn: str
    offset: Optional[corten.Size] = None
    index: Optional[int] = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Optional[Sequence[int]] = None, index: Optional[int] = None
    ):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", corten.Size(offset))
