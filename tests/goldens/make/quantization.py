"""Writes tests/goldens/quantization.json: what the programs of tests/python/quantization_cases.py give on PyTorch, with
the kernels of FBGEMM."""

import json
import sys
import warnings
from pathlib import Path

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import quantization_cases as cases  # noqa: E402
from quantized_module_cases import written  # noqa: E402


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "fbgemm"
    lines = []
    for case in cases.CASES:
        found = [[label, written(torch, value)] for label, value in case(torch)]
        lines.append(f"{json.dumps(case.__name__)}: {json.dumps(found)}")
    (ROOT / "tests" / "goldens" / "quantization.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
