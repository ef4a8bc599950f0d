"""The programs that come with the package."""

import argparse
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

from module_under_test import torch


@unittest.skipUnless(torch.__name__ == "corten", "the commands are Corten's own")
class Commands(unittest.TestCase):
    def output(self, *arguments):
        return subprocess.check_output([sys.executable, "-m", *arguments], text=True)

    def script(self, text):
        directory = self.enterContext(tempfile.TemporaryDirectory())
        path = pathlib.Path(directory) / "script.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_files(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        base = torch.arange(6.0).reshape(2, 3)
        torch.save({"a": base, "b": {"c": base[1], "d": torch.ones(2).bfloat16()}}, folder / "x.pt")
        lines = self.output("corten", "inspect", str(folder / "x.pt")).splitlines()
        self.assertEqual(lines[0], "a  float32  (2, 3)  24 B")
        self.assertEqual(lines[1], "b.c  float32  (3,)  12 B  shares memory with a")
        self.assertEqual(lines[-1], "3 tensors, 28 B")
        for ending in ("safetensors", "npz"):
            target = folder / f"x.{ending}"
            self.output("corten", "convert", str(folder / "x.pt"), str(target))
            back = folder / f"from_{ending}.pt"
            self.output("corten", "convert", str(target), str(back))
            loaded = torch.load(back)
            self.assertEqual(loaded["b.c"].tolist(), [3, 4, 5])
            self.assertEqual(loaded["b.d"].tolist(), [1, 1])
        wrong = subprocess.run(
            [sys.executable, "-m", "corten", "inspect", "nothing.xyz"], capture_output=True, text=True
        )
        self.assertIn("says no format", wrong.stderr)
        self.assertEqual(wrong.returncode, 1)

    def test_files_of_a_gpu(self):
        from test_absent_devices import saved_on

        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "gpu.pth").write_bytes(saved_on("cuda:0"))
        lines = self.output("corten", "inspect", str(folder / "gpu.pth")).splitlines()
        self.assertEqual(lines, ["a  float32  (4,)  16 B", "b.c  float32  (2, 2)  16 B", "2 tensors, 32 B"])
        for name in ("x.safetensors", "x.npz", "x.pt"):
            self.output("corten", "convert", str(folder / "gpu.pth"), str(folder / name))
            self.assertIn("b.c  float32", self.output("corten", "inspect", str(folder / name)))

    def test_files_of_any_kind(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        model = torch.nn.Sequential(torch.nn.Linear(2, 1))
        torch.save({"model": model, "args": argparse.Namespace(rate=0.1)}, folder / "whole.pth.tar")
        lines = self.output("corten", "inspect", str(folder / "whole.pth.tar")).splitlines()
        self.assertIn("model._modules.0._parameters.weight  float32  (1, 2)  8 B", lines)
        self.output("corten", "convert", str(folder / "whole.pth.tar"), str(folder / "x.pt"))
        self.assertEqual(len(torch.load(folder / "x.pt")), 2)
        held = [torch.ones(1)]
        held.append(held)
        torch.save([held, held], folder / "held.pt")
        lines = self.output("corten", "inspect", str(folder / "held.pt")).splitlines()
        self.assertEqual(len(lines), 3)
        (folder / "broken.pt").write_bytes(b"PK nothing")
        wrong = subprocess.run(
            [sys.executable, "-m", "corten", "inspect", str(folder / "broken.pt")], capture_output=True, text=True
        )
        self.assertTrue(wrong.stderr.startswith("corten inspect: "))

    def test_doctor(self):
        found = self.output("corten", "doctor")
        self.assertIn("a product of matrices: right", found)
        self.assertIn("CUDA: not used", found)
        self.assertRegex(found, "instruction sets that were found: \\w")
        self.assertRegex(found, "instruction sets that are used: [A-Z0-9]+ for elements, .* for products")
        if platform.machine() == "x86_64":
            self.assertRegex(found, "AMX: (used for products|found but not used|not found)")

    def test_operators_as_data(self):
        listed = json.loads(self.output("corten.ops", "--json"))
        add, = (op for op in listed if op["name"] == "aten::add.Tensor")
        self.assertIn("Scalar alpha=1", add["schema"])
        self.assertEqual(json.loads(self.output("corten", "ops", "--json")), listed)
        self.assertEqual(len(self.output("corten.ops").splitlines()), len(listed))

    def test_programs_written_for_torch(self):
        script = self.script(
            "import sys, torch\n"
            "from torch.nn import functional as F\n"
            "print(torch.__name__, F.relu(torch.tensor([-1.0, 2.0])).tolist(), sys.argv[1:])\n"
        )
        for command in (["corten.run"], ["corten"], ["corten", "run"]):
            self.assertEqual(self.output(*command, script, "-x"), "torch [0.0, 2.0] ['-x']\n")


if __name__ == "__main__":
    unittest.main()
