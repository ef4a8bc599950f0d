"""GGUF, the format of GGML's language models: metadata, a table of tensors, data.

Files are mapped: of their data is read what is used, and writing to a tensor does not change the file.
Tensors of plain dtypes are tensors. Those of a quantised type, such as ``Q4_K``, are their bytes: tensors
of ``uint8`` whose last dimension counts the bytes of a row's blocks; the file says which type that is.

    file = corten.gguf.load("model.gguf")
    file.metadata["general.architecture"]
    file.tensors["token_embd.weight"], file.types["token_embd.weight"], file.shapes["token_embd.weight"]
"""

from __future__ import annotations

import corten

from . import _C, _atomic, _utils

__all__ = ["File", "load", "save"]


class File:
    """What a file holds.

    Attributes:
        metadata: Numbers, texts and lists of them, by name.
        tensors: The tensors by name, in the order of the file.
        types: The element type of each tensor, as GGML calls it: ``F32``, ``Q4_K``.
        shapes: The shape of each tensor in elements.
        quantized: The names of the tensors of quantised types, whose tensors are bytes.
    """

    def __init__(self, metadata, tensors, types, shapes, quantized):
        self.metadata, self.tensors, self.types, self.shapes = metadata, tensors, types, shapes
        self.quantized = quantized

    def __repr__(self):
        return f"<GGUF file of {len(self.tensors)} tensors and {len(self.metadata)} entries of metadata>"


def load(filename):
    """Maps a file.

    Raises:
        RuntimeError: The file is damaged, of another format, or of a version that is not known.
    """
    opened = _C._gguf_open(filename)
    rows = opened.describe()
    return File(
        opened.metadata(), {name: opened.tensor(name) for name, *_ in rows},
        {name: kind for name, kind, *_ in rows}, {name: shape for name, _, shape, _ in rows},
        frozenset(name for name, *_, has_dtype in rows if not has_dtype),
    )


def save(tensors, filename, metadata=None):
    """Writes tensors of plain dtypes, and numbers, texts and lists of them as metadata.

    The file appears under its name only when it is complete.

    Raises:
        TypeError: A tensor has a dtype, or an entry of metadata a type, that the format lacks.
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, corten.Tensor):
            raise TypeError(f"{name!r} is no tensor but {type(tensor).__name__}")
    with _atomic.replaced(filename) as file:
        _C._gguf_write({} if metadata is None else metadata, tensors, _utils.writing_all(file))
