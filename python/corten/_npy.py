"""Reading NumPy's files: ``.npy``, an array, and ``.npz``, a zip file of arrays."""

from __future__ import annotations

from corten import _C


def load_npy(path):
    """The array of a file, as a tensor.

    Raises:
        ValueError: It is no such file, or holds what no tensor can hold.
    """
    return _C._npy_load(path)


def load_npz(path):
    """The arrays of a file, by name, as tensors.

    Raises:
        ValueError: It is no such file, or holds what no tensor can hold.
    """
    return _C._npz_load(path)
