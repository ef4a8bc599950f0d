"""Writes tests/goldens/programs/*.txt and capture_programs/*.txt: what the programs in tests/python/programs and
tests/python/capture_programs print on PyTorch, which needs a C++ compiler for some of them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def main():
    folders = [ROOT / "tests" / "python" / name for name in ("programs", "capture_programs")]
    for program in sorted(path for folder in folders for path in folder.glob("*.py")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True, check=True
        )
        (ROOT / "tests" / "goldens" / program.parent.name / f"{program.stem}.txt").write_text(done.stdout)


if __name__ == "__main__":
    main()
