"""Writes tests/goldens/quantised.json with PyTorch: what each program of quantised_programs.txt gives, each in a
process of its own, since some of them end it."""

import json
import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import quantised_programs as programs


def apart(kind, expression):
    """The outcome in a forked process; ``crash`` where it dies."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, programs.outcome(torch, kind, expression).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else "crash"


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {}
    for name, expression in programs.programs():
        kinds = list(programs.tensors(torch)) if " q" in f" {expression}".replace("(", " ") else [""]
        for kind in kinds:
            found[f"{name} {kind}".strip()] = apart(kind, expression)
    kinds = programs.tensors(torch)
    kinds["again"] = kinds["quint8"]
    kinds["part"] = kinds["quint8"][1:]
    kinds["turned"] = kinds["qint8"].t()
    torch.save(kinds, programs.GOLDENS / "quantised_kinds_saved_by_torch.pt")
    torch.save(
        kinds, programs.GOLDENS / "quantised_kinds_saved_by_torch_legacy.pt",
        _use_new_zipfile_serialization=False,
    )
    (programs.GOLDENS / "quantised.json").write_text(json.dumps(found, indent=0) + "\n")
