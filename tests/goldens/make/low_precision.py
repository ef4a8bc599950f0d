"""Writes tests/goldens/low_precision.npz with PyTorch: what calls of tests/python/low_precision_cases.py give."""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401 - defines operators

GOLDENS = Path(__file__).parent.parent
sys.path.insert(0, str(GOLDENS.parent / "python"))

from low_precision_cases import results  # noqa: E402


def array(tensor):
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


if __name__ == "__main__":
    made = {name: array(tensor.detach()) for name, tensor in results(torch).items()}
    np.savez_compressed(GOLDENS / "low_precision.npz", **made)
    print(len(made), "results")
