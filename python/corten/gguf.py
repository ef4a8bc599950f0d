"""GGUF, the format of GGML's language models: metadata, a table of tensors, data.

Files are mapped: of their data is read what is used, and writing to a tensor does not change the file.
Tensors of plain dtypes are tensors. Those of a quantised type, such as ``Q4_K``, are block-quantised tensors:
``linear``, ``embedding`` and ``x @ w.T`` multiply by their blocks, and ``to_dense`` gives their values.

    file = corten.gguf.load("model.gguf")
    file.metadata["general.architecture"]
    file.tensors["token_embd.weight"].block_format
    corten.gguf.save(file, "copy.gguf")
"""

from __future__ import annotations

import corten

from . import _C, _atomic, _blocks, _utils

__all__ = ["File", "load", "save"]


class File:
    """What a file holds.

    Attributes:
        metadata: Numbers, texts and lists of them, by name.
        tensors: The tensors by name, in the order of the file.
        types: The element type of each tensor, as GGML calls it: ``F32``, ``Q4_K``.
        shapes: The shape of each tensor in elements.
        quantized: The names of the tensors of quantised types.
    """

    def __init__(self, metadata, tensors, types, shapes, quantized, opened=None):
        self.metadata, self.tensors, self.types, self.shapes = metadata, tensors, types, shapes
        self.quantized, self._opened = quantized, opened

    def __repr__(self):
        return f"<GGUF file of {len(self.tensors)} tensors and {len(self.metadata)} entries of metadata>"


def load(filename, dequantize=False):
    """Maps a file.

    Args:
        filename: The file.
        dequantize: Whether tensors of quantised types become ``float32``. Without it they are block-quantised; those of
            the few types that have no kernels here (``IQ2_XXS``, ``TQ1_0`` …) are their bytes, tensors of ``uint8`` whose
            last dimension counts the bytes of a row.

    Raises:
        RuntimeError: The file is damaged, of another format, or of a version that is not known.
        NotImplementedError: With ``dequantize``, for the types without kernels.
    """
    opened = _C._gguf_open(filename)
    rows = opened.describe()
    read = opened.dequantized if dequantize else lambda name: _weights(opened, name, types[name])
    types = {name: kind for name, kind, *_ in rows}
    return File(
        opened.metadata(), {name: read(name) for name in types}, types, {name: shape for name, _, shape, _ in rows},
        frozenset(name for name, *_, has_dtype in rows if not has_dtype), opened,
    )


def _weights(opened, name, kind):
    return opened.weights(name) if kind in _blocks.FORMATS else opened.tensor(name)


def save(tensors, filename, metadata=None, model=None):
    """Writes tensors of plain dtypes and block-quantised ones, and numbers, texts and lists of them as metadata.

    The file appears under its name only when it is complete.

    Args:
        tensors: Tensors by name; or a :class:`File`, which is written with its metadata.
        filename: The file.
        metadata: The metadata by name.
        model: A :class:`File` whose metadata are written with the types of integers and floats that they have there,
            where their values are the same. Without it integers take 32 bits where they fit, and floats 32.

    Raises:
        TypeError: A tensor has a dtype, or an entry of metadata a type, that the format lacks.
    """
    if isinstance(tensors, File):
        model = model or tensors
        metadata, tensors = tensors.metadata if metadata is None else metadata, tensors.tensors
    for name, tensor in tensors.items():
        if not isinstance(tensor, corten.Tensor):
            raise TypeError(f"{name!r} is no tensor but {type(tensor).__name__}")
    with _atomic.replaced(filename) as file:
        opened = None if model is None else model._opened
        _C._gguf_write({} if metadata is None else metadata, tensors, _utils.writing_all(file), opened)
