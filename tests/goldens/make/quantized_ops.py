"""Writes tests/goldens/quantized_ops.npz: what quantised operators give on PyTorch.

Run with a Python that has PyTorch, on a processor with AVX-512 VNNI.
"""

import pathlib
import sys
import warnings

import numpy as np
import torch

GOLDENS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(GOLDENS.parent / "python"))

import quantized_cases as cases  # noqa: E402


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = {}
    for engine in ("x86", "fbgemm", "onednn"):
        torch.backends.quantized.engine = engine
        maker = cases.Maker(torch)
        for name, case in cases.all_cases().items():
            if (engine == "onednn") != ("onednn" in name or name in ("linear_leaky_relu", "linear_tanh")):
                continue
            if engine == "fbgemm" and not name.startswith("conv"):
                continue
            # PyTorch's transposed convolutions of oneDNN give other numbers than those of FBGEMM.
            if engine == "x86" and name.startswith("conv_transpose"):
                continue
            try:
                values, meta = cases.described(torch, case(maker))
            except Exception as error:
                sys.stderr.write(f"{engine} {name}: {str(error)[:200]}\n")
                continue
            found[f"{engine}/{name}"] = values
            if meta is not None:
                found[f"{engine}/{name}/meta"] = np.array(meta, dtype=np.float64)
    np.savez_compressed(GOLDENS / "quantized_ops.npz", **found)
    sys.stderr.write(f"{len(found)} arrays\n")


main()
