"""Writes tests/goldens/programs/*.txt: what the programs in tests/python/programs print on PyTorch."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def main():
    for program in sorted((ROOT / "tests" / "python" / "programs").glob("*.py")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True, check=True
        )
        (ROOT / "tests" / "goldens" / "programs" / f"{program.stem}.txt").write_text(done.stdout)


if __name__ == "__main__":
    main()
