"""The programs that come with the package."""

import json
import pathlib
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
            self.assertEqual(self.output(*command, script, "-x"), "corten [0.0, 2.0] ['-x']\n")


if __name__ == "__main__":
    unittest.main()
