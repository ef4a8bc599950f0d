"""Writes tests/goldens/semi_structured.txt: matrices of 2:4 sparsity as PyTorch compresses them, one a line.

Run by a Python that has PyTorch. A line is `dtype|rows|columns|kept elements|metadata`.
"""

from pathlib import Path

import torch
from torch.sparse._semi_structured_conversions import sparse_semi_structured_from_dense_cutlass

ROOT = Path(__file__).resolve().parents[3]
CASES = (("float16", 32, 64), ("bfloat16", 64, 32), ("int8", 32, 128), ("float32", 32, 48), ("float16", 96, 96))


def sample(rows, columns, group):
    """Whole numbers, in each group at most as many other than 0 as are kept, in changing places."""
    numbers = []
    for i in range(rows * columns // group):
        places = {(i * 5) % 7 % group} if group == 2 else {(i * 5) % 7 % 4, (i * 3) % 11 % 4}
        if i % 6 == 0:
            places = set()
        numbers += [(i + place) % 9 - 4 if place in places else 0 for place in range(group)]
    return torch.tensor(numbers, dtype=torch.float32).view(rows, columns)


def main():
    lines = []
    for dtype, rows, columns in CASES:
        dense = sample(rows, columns, 2 if dtype == "float32" else 4).to(getattr(torch, dtype))
        packed, meta = sparse_semi_structured_from_dense_cutlass(dense)
        texts = [",".join(str(int(x)) for x in part.flatten()) for part in (packed, meta)]
        lines.append(f"{dtype}|{rows}|{columns}|{'|'.join(texts)}\n")
    (ROOT / "tests" / "goldens" / "semi_structured.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
