"""Writes tests/goldens/losses.txt: what the programs of examples/python print with PyTorch, which those in Rust print too.

Run by a Python that has PyTorch and safetensors.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUNS = (
    "digits_cnn --epochs 1",
    "char_gpt --steps 6 --context 16 --batch 4",
    "sequence_lstm --steps 15 --length 16 --batch 8",
    "vae --epochs 1",
    "dqn --steps 60",
)


def losses(run):
    """The losses in the progress of a run, as they are printed."""
    name, *options = run.split()
    with tempfile.TemporaryDirectory() as folder:
        program = ROOT / "examples" / "python" / f"{name}.py"
        command = [sys.executable, str(program), "--torch", "--out", folder, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return re.findall(r"loss (\S+)", done.stderr)


def main():
    lines = [f"{run}|{' '.join(losses(run))}\n" for run in RUNS]
    (ROOT / "tests" / "goldens" / "losses.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
