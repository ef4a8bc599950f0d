"""Writes tests/goldens/quantized_modules_saved_by_torch.pt: quantised modules, pickled whole and as state dicts, with an
input and what they give for it on PyTorch with the kernels of FBGEMM. Results are written as dtype, parameters and
numbers."""

import sys
import warnings
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import quantized_module_cases as cases  # noqa: E402


def main():
    warnings.simplefilter("ignore")
    torch.backends.quantized.engine = "fbgemm"
    q, nnq, nnqd = torch.ao.quantization, torch.ao.nn.quantized, torch.ao.nn.quantized.dynamic
    model = nn.Sequential(
        q.QuantStub(), nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 1, groups=2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 3), q.DeQuantStub(),
    ).eval()
    cases.fill(torch, model)
    q.fuse_modules(model, [["1", "2"]], inplace=True)
    model.qconfig = q.get_default_qconfig("fbgemm")
    image = cases.filled(torch, 2, 2, 6, 6)
    prepared = q.prepare(model)
    prepared(image)
    converted = q.convert(prepared)
    rows = cases.filled(torch, 3, 2, 4)
    dynamic = {}
    for kind in ("LSTM", "GRU", "LSTMCell", "Linear"):
        made = cases.fill(torch, getattr(nn, kind)(4, 3))
        made.qconfig = q.default_dynamic_qconfig
        dynamic[kind] = getattr(nnqd, kind).from_float(made)
    table = cases.fill(torch, nn.Embedding(6, 8))
    table.qconfig = q.float_qparams_weight_only_qconfig
    table = nnq.Embedding.from_float(table)
    places = torch.tensor([0, 3, 5])
    saved = {
        "image": image, "state": converted.state_dict(), "result": converted(image), "linear": converted[6],
        "linear input": cases.quantized(torch, cases.filled(torch, 2, 4)), "rows": rows, "places": places,
        "table": table, "rows of the table": table(places), "table state": table.state_dict(),
    }
    saved["linear result"] = converted[6](saved["linear input"])
    for kind, module in dynamic.items():
        saved[kind] = module
        saved[f"{kind} result"] = module(rows[0] if kind == "LSTMCell" else rows)
        saved[f"{kind} state"] = module.state_dict()
    torch.save(saved, ROOT / "tests" / "goldens" / "quantized_modules_saved_by_torch.pt")


if __name__ == "__main__":
    main()
