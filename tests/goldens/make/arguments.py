"""Writes what PyTorch makes of values of every kind as arguments: ../arguments.json."""

import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

from argument_cases import table  # noqa: E402  pylint: disable=wrong-import-position

with open(HERE.parent / "arguments.json", "w") as file:
    json.dump(table(torch), file, indent=0, separators=(",", ":"))
    file.write("\n")
