"""Writes the files that test_file_kinds.py reads, with the real torch: every kind of tensor."""

import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE.parent / "python"))

from file_kinds import NEWER_DTYPES, kinds  # noqa: E402

if __name__ == "__main__":
    torch.save(kinds(torch), HERE / "kinds_saved_by_torch.pt")
    # The older format has no way to say these dtypes.
    older = {key: value for key, value in kinds(torch).items() if key not in NEWER_DTYPES}
    torch.save(older, HERE / "kinds_saved_by_torch_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"q": torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8)}, HERE / "quantised_saved_by_torch.pt")
