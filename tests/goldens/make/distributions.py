"""Writes tests/goldens/distributions.json: what PyTorch's distributions answer."""

import json
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "python"))
warnings.simplefilter("ignore")


def rounded(value):
    """Six digits say enough."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


def main():
    import torch
    from distribution_cases import record

    lines = [f"{json.dumps(k)}: {json.dumps(rounded(v))}" for k, v in record(torch).items()]
    path = ROOT / "tests" / "goldens" / "distributions.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
