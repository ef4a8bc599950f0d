"""Writes tests/goldens/functionalize.json: the calls that PyTorch makes in place of programs with writes.

Run with a Python that has PyTorch.
"""

import json
import pathlib
import sys

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.func import functionalize

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "python"))

from functionalize_cases import cases  # noqa: E402


def calls(function, x, remove):
    """The overloads that a program calls, with the numbers among their arguments, and its text."""
    graph = make_fx(functionalize(function, remove=remove))(x)
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"], graph.code


def main():
    """Writes the file."""
    found = {}
    for name, (function, size, dtype) in cases(torch).items():
        for remove in ("mutations", "mutations_and_views"):
            count = 1
            for one in size:
                count *= one
            x = torch.arange(float(count)).view(size).to(getattr(torch, dtype))
            made, text = calls(function, x, remove)
            made = [one for one in made if one != "<built-in function getitem>"]
            found[f"{name} {remove}"] = {"calls": made, "code": text}
    path = HERE.parents[1] / "functionalize.json"
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
