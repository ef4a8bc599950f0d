"""Writes tests/goldens/traced_functions.json: graphs that PyTorch's `make_fx` records of programs with `cond`, `map`, `scan`
and `while_loop`.

Run with a Python that has PyTorch.
"""

import json
import pathlib
import sys

import torch
from torch.fx.experimental.proxy_tensor import make_fx

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "python"))

from traced_functions_cases import codes, programs  # noqa: E402

found = {
    name: {mode: codes(make_fx(function, tracing_mode=mode)(*args)) for mode in ("real", "fake")}
    for name, (function, args) in programs(torch).items()
}
(HERE.parents[1] / "traced_functions.json").write_text(json.dumps(found, indent=1) + "\n")
