"""Archives of the interpreter for small devices, whose code is bytecode: they are not read."""

from __future__ import annotations


def _load_for_lite_interpreter(f, map_location=None):
    """Refused: :func:`corten.jit.load` reads the same file where it holds source as well.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(
        "archives of the lite interpreter hold bytecode, which is not run here; torch.jit.load reads archives that hold source"
    )
