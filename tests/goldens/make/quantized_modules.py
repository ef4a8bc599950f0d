"""Writes tests/goldens/quantized_modules.json: what the programs of tests/python/quantized_module_cases.py give on
PyTorch, with the kernels of FBGEMM. Floats have 7 digits."""

import json
import sys
import warnings
from pathlib import Path

import torch
import torch.ao.nn.intrinsic.qat
import torch.ao.nn.intrinsic.quantized.dynamic
import torch.ao.nn.qat
import torch.ao.nn.quantizable
import torch.ao.nn.quantized.dynamic
import torch.ao.nn.quantized.reference
import torch.ao.quantization.fx._decomposed  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import quantized_module_cases as cases  # noqa: E402


def shortened(value):
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, list):
        return [shortened(part) for part in value]
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    return value


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines = []
    for case in cases.CASES:
        found = []
        torch.backends.quantized.engine = getattr(case, "engine", "fbgemm")
        for label, value in case(torch):
            found.append([label, shortened(cases.written(torch, value))])
        lines.append(f"{json.dumps(case.__name__)}: {json.dumps(found)}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (ROOT / "tests" / "goldens" / "quantized_modules.json").write_text(text)


if __name__ == "__main__":
    main()
