"""The generated reference: pages of operators and modules with examples that ran."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from module_under_test import torch

TOOL = Path(__file__).resolve().parent.parent.parent / "python" / "tools" / "make_docs.py"


@unittest.skipUnless(torch.__name__ == "corten", "the reference of this package")
class Pages(unittest.TestCase):
    def test_a_sample(self):
        names = ("add", "softmax", "conv2d", "linalg_inv", "fft_rfft", "Linear", "LSTM")
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-W", "error", str(TOOL), folder, *names]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            pages = {path.stem: path.read_text() for path in Path(folder).rglob("*.md")}
        self.assertEqual(set(pages), {*names, "index"})
        for name in names:
            self.assertIn("## Example", pages[name])
            self.assertIn(f"[{name}](", pages["index"])
        self.assertIn("add_.Tensor(Tensor(a!) self", pages["add"])
        self.assertIn("Derivative: has a derivative", pages["add"])
        self.assertIn("Called as `torch.softmax`, `x.softmax`", pages["softmax"])
        self.assertIn("[0.1192, 0.0025]", pages["softmax"])
        self.assertIn("Devices: cpu, meta", pages["conv2d"])
        self.assertIn("torch.linalg.inv(x)", pages["linalg_inv"])
        self.assertIn("| `weight` | [2, 4] | float32 |", pages["Linear"])


if __name__ == "__main__":
    unittest.main()
