"""The programs of examples/python print the losses that PyTorch prints for the same seed."""

import importlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "goldens" / "losses.txt"
# What takes long in a debug build; examples/python/compare_with_torch.py runs these.
LONG = ("digits_cnn", "char_gpt")
MODULE = os.environ.get("CORTEN_TEST_MODULE", "corten")


class Examples(unittest.TestCase):
    def test_losses(self):
        for line in GOLDEN.read_text().splitlines():
            run, expected = line.split("|")
            if run.startswith(LONG):
                continue
            with self.subTest(run=run), tempfile.TemporaryDirectory() as folder:
                name, *options = run.split()
                framework = ["--torch"] if MODULE == "torch" else []
                program = str(ROOT / "examples" / "python" / f"{name}.py")
                command = [sys.executable, program, *framework, "--out", folder, *options]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stderr)
                found = [float(loss) for loss in re.findall(r"loss (\S+)", done.stderr)]
                wanted = [float(loss) for loss in expected.split()]
                self.assertEqual(len(found), len(wanted))
                for step, (a, b) in enumerate(zip(found, wanted)):
                    # Four digits are printed; rounding may turn the last one.
                    self.assertAlmostEqual(a, b, delta=1.5e-4, msg=f"step {step}")


class TablesOfBothLanguages(unittest.TestCase):
    def test_names_in_python_exist(self):
        package = importlib.import_module(MODULE)
        page = (ROOT / "docs" / "modules.md").read_text()
        for heading in ("Modules and losses", "Optimizers", "Schedules"):
            section = page.split(f"## {heading}\n")[1].split("\n#")[0]
            rows = [line.split("|")[2].strip(" `") for line in section.splitlines() if line.startswith("| `")]
            self.assertGreater(len(rows), 14)
            for path in rows:
                self.assertTrue(has(package, path.removeprefix("corten.")), f"{heading}: {path}")


def has(place, path):
    """Whether a dotted path leads somewhere."""
    for name in path.split("."):
        place = getattr(place, name, None)
    return place is not None


if __name__ == "__main__":
    unittest.main()
