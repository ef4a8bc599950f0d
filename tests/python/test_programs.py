"""Whole programs written for PyTorch, run with ``python -m corten.run``, against recorded output."""

import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPECTED = HERE.parent / "goldens" / "programs"
MODULE = os.environ.get("CORTEN_TEST_MODULE", "corten")


def same(a, b):
    """Whether words are equal, or numbers that rounding may tell apart."""
    try:
        return math.isclose(float(a.strip(",[]")), float(b.strip(",[]")), rel_tol=5e-3, abs_tol=5e-4)
    except ValueError:
        return a == b


def run(*arguments, **options):
    runner = [] if MODULE == "torch" else ["-m", f"{MODULE}.run"]
    command = [sys.executable, "-W", "ignore", *runner, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class Programs(unittest.TestCase):
    def test_losses(self):
        for program in sorted((HERE / "programs").glob("*.py")):
            with self.subTest(program=program.stem):
                words = run(str(program)).split()
                expected = (EXPECTED / f"{program.stem}.txt").read_text().split()
                self.assertEqual(len(words), len(expected), words)
                different = [pair for pair in zip(words, expected) if not same(*pair)]
                self.assertEqual(different, [])

    @unittest.skipIf(MODULE == "torch", "the runner's own way")
    def test_modules_and_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "inside"
            package.mkdir()
            (package / "__init__.py").write_text("import torch.nn as nn\n")
            (package / "main.py").write_text(
                "import sys, torch\nfrom . import nn\nif __name__ == '__main__':\n"
                "    print(torch.__name__, sys.argv[1:], nn.Linear(1, 2))\n"
            )
            printed = run("-m", "inside.main", "--x", "1", cwd=folder, env={
                **os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
            })
            self.assertIn("torch ['--x', '1'] Linear(in_features=1, out_features=2", printed)

    def test_new_processes(self):
        """A process that is started afresh runs the program with the same ``torch``."""
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "workers.py"
            program.write_text(
                "import torch, torch.onnx, torch.multiprocessing as mp\n"
                "def add(layer):\n"
                "    torch.optim.SGD(layer.parameters(), 0.1)\n"
                "    layer.weight.data += 1\n"
                "if __name__ == '__main__':\n"
                "    layer = torch.nn.Linear(1, 1).share_memory()\n"
                "    before = layer.weight.item()\n"
                "    worker = mp.get_context('spawn').Process(target=add, args=(layer,))\n"
                "    worker.start(); worker.join()\n"
                "    print(worker.exitcode, round(layer.weight.item() - before, 4))\n"
            )
            self.assertEqual(run(str(program)).split(), ["0", "1.0"])


if __name__ == "__main__":
    unittest.main()
