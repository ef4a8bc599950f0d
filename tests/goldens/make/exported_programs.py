"""Writes tests/goldens/exported_programs.json and tests/goldens/exported/*.pt2: programs that PyTorch exports, as text
and as files with the results that they give.

Run with a Python that has PyTorch.
"""

import copy
import json
import pathlib
import re
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "python"))

from export_cases import functions, input_of, modules  # noqa: E402


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        """The function's result."""
        return self.function(x)


def targets(graph):
    """What the nodes of a graph are."""
    found = []
    for node in graph.nodes:
        name = str(node.target)
        found.append("getitem" if "getitem" in name else f"{node.op}:{name}" if isinstance(node.target, str) else name)
    return found


def text_of(program):
    """The text of a program without where its lines are."""
    return re.sub(r"\n +# File[^\n]*|\n +# No stacktrace[^\n]*", "", str(program))


def leaves(results):
    """Results as lists of numbers."""
    flat = torch.utils._pytree.tree_leaves(results)
    return [
        {"dtype": str(one.dtype), "shape": list(one.shape), "values": one.detach().double().flatten().tolist()}
        if isinstance(one, torch.Tensor) else one for one in flat
    ]


def without_origins(module):
    """Drops what says where the nodes of a graph come from."""
    for one in module.modules():
        for node in getattr(getattr(one, "graph", None), "nodes", ()):
            for key in ("stack_trace", "nn_module_stack", "torch_fn", "from_node"):
                node.meta.pop(key, None)


def main():
    """Writes the files."""
    warnings.simplefilter("ignore")
    found = {"functions": {}, "modules": {}}
    for name, function in functions(torch).items():
        try:
            found["functions"][name] = targets(torch.export.export(Called(function), (input_of(torch),)).graph)
        except Exception as error:  # noqa: BLE001
            print(name, type(error).__name__, str(error)[:100])
    folder = HERE.parents[1] / "exported"
    folder.mkdir(exist_ok=True)
    for name, (module, args, kwargs) in modules(torch).items():
        program = torch.export.export(module, args, kwargs)
        lowered = program.run_decompositions()
        cloned = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        results = leaves(copy.deepcopy(program).module()(*cloned[0], **cloned[1]))
        found["modules"][name] = {
            "text": text_of(program), "lowered": text_of(lowered), "code": program.module().code, "results": results,
        }
        without_origins(program.graph_module)
        without_origins(lowered.graph_module)
        extra = {"results.json": json.dumps(results)}
        torch.export.save(program, folder / f"{name}.pt2", extra_files=extra)
        torch.export.save(lowered, folder / f"{name}_lowered.pt2", extra_files=extra)
    path = HERE.parents[1] / "exported_programs.json"
    path.write_text(json.dumps(found, indent=0) + "\n")


main()
