"""What checkers are to find: every line with ``# wrong`` and no other."""

from __future__ import annotations

import corten as torch
from corten import Tensor


def wrong(x: Tensor) -> None:
    torch.zeros("two")  # wrong
    torch.exp(3)  # wrong
    torch.no_such_function(x)  # wrong
    x.no_such_method()  # wrong
    rows: str = x.size(0)  # wrong
    torch.cat(x.shape, "rows")  # wrong
    y: int = x + 1  # wrong
    x.transpose(0)  # wrong
    torch.linalg.no_such_function(x)  # wrong
    print(rows, y)
