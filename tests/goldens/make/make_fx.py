"""Writes tests/goldens/make_fx.json: graphs that PyTorch records of programs, of operators with its decompositions, and
of both passes of compiled functions.

Run with a Python that has PyTorch.
"""

import json
import pathlib
import sys

import torch
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import default_partition
from torch.fx.experimental.proxy_tensor import make_fx

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "python"))

from make_fx_cases import CALLS, call, compiled_programs, operands, programs  # noqa: E402


def graphs():
    """Code, graph and readable text of every program."""
    found = {}
    for name, (function, args) in programs(torch).items():
        made = make_fx(function)(*args)
        found[name] = {
            "code": made.code, "graph": str(made.graph),
            "readable": made.print_readable(print_output=False, include_stride=True, include_device=True),
            "fake": make_fx(function, tracing_mode="fake")(*args).code,
        }
    return found


def decompositions():
    """The code of every call, decomposed."""
    table, values, found = core_aten_decompositions(), operands(torch), {}
    for text in CALLS:
        function, args = call(torch, text, values)
        found[text] = make_fx(function, decomposition_table=table)(*args).code
    return found


def passes():
    """The code of the passes of every compiled function."""
    found = {}
    for name, (function, args) in compiled_programs(torch).items():
        texts = found[name] = {}

        def keep(key, texts=texts):
            def compiler(module, inputs):
                texts[key] = module.code
                return module

            return compiler

        made = aot_function(function, keep("forward"), keep("backward"), default_partition)(*args)
        made = [one for one in (made if isinstance(made, (list, tuple)) else [made]) if one.requires_grad]
        if made:
            sum(one.sum() for one in made).backward()
    return found


def main():
    """Writes the file."""
    found = {"graphs": graphs(), "decompositions": decompositions(), "passes": passes()}
    (HERE.parents[1] / "make_fx.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
