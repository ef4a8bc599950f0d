"""Writes what ``__torch_function__`` is told of every call that it takes over: ../overrides.json."""

import json
import sys
import warnings
from pathlib import Path

import torch
from torch.overrides import get_testing_overrides, is_tensor_method_or_property, resolve_name
from torch.testing._internal.generated.annotated_fn_args import annotated_args

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

from override_cases import arguments, call, described, lookup  # noqa: E402  pylint: disable=wrong-import-position

warnings.simplefilter("ignore")
rows = {}
for func, override in get_testing_overrides().items():
    name = resolve_name(func)
    if name is None or name.endswith(".__set__"):
        continue
    args, kwargs = arguments(torch, func, override, annotated_args)
    if func is torch.sym_sum:
        args = ["TT"]
    if name in ("torch.functional.einsum", "torch.histogramdd"):
        continue  # asked by way of other functions, as these arguments make no sense
    if args[2:] and name in ("torch.addmm", "torch.baddbmm", "torch.bmm", "torch.spmm"):
        args = [one for one in args if one == "T"]  # another dtype is for GPUs
    if name == "torch.Tensor.__rmatmul__":
        continue
    if name.startswith("torch.Tensor.__r") and len(args) == 2:
        args = ["T", 3.5]
    if "solve_triangular" in name:
        kwargs["upper"] = True
    for of_tensors in (True, False):
        if not of_tensors and is_tensor_method_or_property(func):
            continue
        found = call(torch, name, args, kwargs, of_tensors)
        if isinstance(found, tuple):
            told = described(resolve_name, found)
            if told[0] is not None and lookup(torch, told[0]) == found[0]:
                rows.setdefault(name, [args, kwargs, {}])[2]["tensor" if of_tensors else "other"] = told
        else:
            print(name, of_tensors, type(found).__name__, str(found)[:80])
with open(HERE.parent / "overrides.json", "w") as file:
    lines = (f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in rows.items())
    file.write("{\n" + ",\n".join(lines) + "\n}\n")
print(len(rows))
