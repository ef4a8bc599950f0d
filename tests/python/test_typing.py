"""Generated stubs: they parse, they name what the package has, and checkers accept programs with them."""

import ast
import contextlib
import importlib
import importlib.util
import io
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from module_under_test import torch

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "tests" / "typing"
CHECKER = os.environ.get("CORTEN_TEST_MYPY")


def checker():
    """The command of mypy, or None where there is none; CORTEN_TEST_MYPY names one of elsewhere."""
    if CHECKER:
        return [CHECKER]
    return [sys.executable, "-m", "mypy"] if importlib.util.find_spec("mypy") else None


@unittest.skipUnless(torch.__name__ == "corten", "stubs of this package")
class Stubs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.package = Path(cls.folder.name, "corten")
        ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.pyi")
        shutil.copytree(ROOT / "python" / "corten", cls.package, ignore=ignored)
        tool = ROOT / "python" / "tools" / "make_stubs.py"
        environment = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parent.parent)}
        subprocess.run([sys.executable, "-W", "ignore", tool, cls.package], check=True, env=environment)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def names(self, path):
        """The names that a stub defines or imports."""
        found = set()
        for node in ast.parse((self.package / path).read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.AnnAssign):
                found.add(node.target.id)
        return found

    def test_names(self):
        self.assertTrue((self.package / "py.typed").exists())
        legacy = importlib.import_module(f"{torch.__name__}._legacy")
        for path, module in (("__init__.pyi", torch), ("fft.pyi", torch.fft), ("linalg.pyi", torch.linalg),
                             ("special.pyi", torch.special), ("nn/functional/__init__.pyi", torch.nn.functional)):
            public = {name for name in dir(module) if not name.startswith("_")}
            without = {"annotations", "TYPE_CHECKING", "NoneType", *legacy.__all__}
            self.assertEqual(public - without - self.names(path), set(), path)

    def test_members_of_tensor(self):
        tree = ast.parse((self.package / "_C.pyi").read_text())
        stub = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
        found = {getattr(node, "name", None) or node.target.id for node in stub.body}
        public = {name for name in vars(torch.Tensor) if not name.startswith("_")}
        self.assertEqual(public - found, set())

    def test_programs_run(self):
        for name in ("train", "tensors"):
            with contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")

    @unittest.skipUnless(checker(), "mypy is not installed")
    def test_programs(self):
        command = [*checker(), "--python-version", "3.11", "--follow-imports", "silent", "--no-error-summary",
                   "--cache-dir", os.path.join(self.folder.name, "cache"), *sorted(PROGRAMS.glob("*.py"))]
        environment = {**os.environ, "MYPYPATH": self.folder.name}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self.folder.name)
        lines = (PROGRAMS / "refused.py").read_text().splitlines()
        expected = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
        errors = [line for line in done.stdout.splitlines() if ": error:" in line]
        refused = {int(line.split(":")[1]) for line in errors if "refused.py" in line}
        self.assertEqual([line for line in errors if "refused.py" not in line], [])
        self.assertEqual(refused, expected)


if __name__ == "__main__":
    unittest.main()
