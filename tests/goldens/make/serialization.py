"""Writes the files that test_serialization.py reads, with the real torch."""

from collections import OrderedDict
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent.parent


def contents():
    base = torch.arange(12.0).view(3, 4)
    return OrderedDict(
        base=base, view=base[1:, ::2], half=torch.tensor([0.5, -2], dtype=torch.float16),
        brain=torch.tensor([1.0, 3.0], dtype=torch.bfloat16), flags=torch.tensor([True, False]),
        words=torch.tensor([1, 2, 65535], dtype=torch.uint16), parameter=torch.nn.Parameter(torch.ones(2)),
        waves=torch.tensor([1 + 2j]), empty=torch.empty(0, 3), dtype=torch.float16, size=torch.Size([2, 3]),
        device=torch.device("cpu"), nested={"list": [1, 2.5, "x", None, True, (1, 2)], "big": 2**70},
    )


if __name__ == "__main__":
    torch.save(contents(), HERE / "saved_by_torch.pt")
    legacy = {key: value for key, value in contents().items() if key != "words"}
    torch.save(legacy, HERE / "saved_by_torch_legacy.pt", _use_new_zipfile_serialization=False)
