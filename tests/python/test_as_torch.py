"""The package under PyTorch's name, in a process and in an environment."""

import importlib.metadata
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from module_under_test import torch

HOME = str(Path(torch.__file__).resolve().parent.parent)


def python(text, path, *arguments):
    """What a new process prints that finds modules in ``path``."""
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    ).stdout.split("\n")[:-1]


def command(*arguments, check=True):
    return subprocess.run(
        [sys.executable, "-m", "corten", "as-torch", *arguments],
        env={**os.environ, "PYTHONPATH": HOME}, capture_output=True, text=True, check=check,
    )


@unittest.skipUnless(torch.__name__ == "corten", "the package's own command")
class OneProgram(unittest.TestCase):
    """``corten run``, where no environment has the distribution."""

    def test_metadata_and_functorch(self):
        program = """
        import importlib.metadata as m, importlib.util
        print(m.version("torch"), m.distribution("torch").metadata["Name"], m.version("Torch"))
        print(importlib.util.find_spec("torch").name, importlib.util.find_spec("functorch").name)
        print([d.version for d in m.distributions() if d.metadata["Name"] == "torch"])
        print("torch" in m.packages_distributions(), "functorch" in m.packages_distributions())
        import functorch, torch
        print(functorch.vmap is torch.func.vmap, functorch.__name__, functorch.__version__ == torch.__version__)
        try:
            m.version("torchabsent")
        except m.PackageNotFoundError as error:
            print(error.name)
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "program.py")
            file.write_text(textwrap.dedent(program))
            done = subprocess.run(
                [sys.executable, "-m", "corten.run", str(file)],
                env={**os.environ, "PYTHONPATH": HOME}, capture_output=True, text=True, timeout=300,
            )
        expected = ["2.15.0 torch 2.15.0", "torch functorch", "['2.15.0']", "True True", "True functorch True", "torchabsent"]
        self.assertEqual(done.stdout.split("\n")[:-1], expected, done.stderr)


@unittest.skipUnless(torch.__name__ == "corten", "the package's own command")
class Environments(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = Path(folder.name)

    def installed(self):
        command("install", "--target", str(self.site))
        return str(self.site)

    def test_modules_classes_and_functions_have_pytorch_s_names(self):
        lines = python(
            """
            import torch, torch.nn as nn, torch.nn.functional as F, torch.optim
            print(torch.__name__, torch.__version__, torch.Tensor.__module__, torch.dtype.__module__)
            print(nn.Linear.__module__, nn.__spec__.name, torch.optim.SGD.__module__, F.__name__)
            print(torch.add.__module__, torch.Tensor.backward.__module__)
            print(torch.Size.__module__, torch.finfo.__module__, torch.device.__module__)
            """,
            self.installed(),
        )
        self.assertEqual(lines, [
            "torch 2.15.0 torch torch",
            "torch.nn.modules.linear torch.nn torch.optim.sgd torch.nn.functional",
            "torch torch._tensor",
            "torch torch torch",
        ])

    def test_both_names_are_the_same_modules(self):
        lines = python(
            """
            import torch
            import corten
            import corten.nn.utils.prune
            import torch.nn.utils.prune
            import torch.utils.data as data
            from corten.utils.data import DataLoader
            print(corten is torch, corten.nn.utils.prune is torch.nn.utils.prune)
            print(data.DataLoader is DataLoader, torch.nn.Module is corten.nn.Module)
            import functorch
            print(functorch.vmap is torch.vmap)
            """,
            self.installed(),
        )
        self.assertEqual(lines, ["True True", "True True", "True"])

    def test_modules_loaded_before_are_renamed(self):
        lines = python(
            """
            import corten, corten.nn
            before = corten.nn.Linear
            corten.install_as_torch()
            import torch
            print(torch is corten, torch.nn.Linear is before, before.__module__, torch.nn.__name__)
            import torch.optim
            print(torch.optim.Adam.__module__)
            """,
            HOME,
        )
        self.assertEqual(lines, ["True True torch.nn.modules.linear torch.nn", "torch.optim.adam"])

    def test_metadata_and_specs(self):
        site = self.installed()
        lines = python(
            """
            import importlib.util, importlib.metadata as m
            print(importlib.util.find_spec("torch") is not None, m.version("torch"))
            import torch
            print(importlib.util.find_spec("torch").name, "torch" in m.packages_distributions())
            print(importlib.util.find_spec("torch.nn").name, importlib.util.find_spec("torch.absent"))
            """,
            site,
        )
        self.assertEqual(lines, ["True 2.15.0", "torch True", "torch.nn None"])
        found = next(iter(importlib.metadata.distributions(path=[site])))
        self.assertEqual(found.metadata["Name"], "torch")
        self.assertIn("Corten", found.metadata["Summary"])
        for file in found.files:
            self.assertTrue(file.locate().exists(), file)

    def test_processes_that_are_spawned(self):
        script = self.site / "program.py"
        script.write_text(textwrap.dedent(
            """
            import multiprocessing
            import torch

            def work(queue):
                queue.put((torch.__name__, torch.ones(2).sum().item()))

            if __name__ == "__main__":
                context = multiprocessing.get_context("spawn")
                queue = context.Queue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get(timeout=200))
                process.join()
            """
        ))
        run = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
        lines = python(run, self.installed())
        self.assertEqual(lines, ["('torch', 2.0)"])

    def test_removal_leaves_nothing(self):
        (self.site / "other.py").write_text("")
        self.installed()
        self.assertIn("corten", command("status", "--target", str(self.site)).stdout)
        # Installing twice is installing once.
        self.installed()
        command("remove", "--target", str(self.site))
        self.assertEqual([path.name for path in self.site.iterdir()], ["other.py"])
        again = command("remove", "--target", str(self.site), check=False)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("not installed", again.stderr)

    def test_pytorch_itself_is_left_alone(self):
        for theirs in ("torch/__init__.py", "torch-2.9.0.dist-info/METADATA"):
            with self.subTest(theirs):
                file = self.site / theirs
                file.parent.mkdir()
                file.write_text("text")
                refused = command("install", "--target", str(self.site), check=False)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn("PyTorch is installed there", refused.stderr)
                names = sorted(str(p.relative_to(self.site)) for p in self.site.rglob("*"))
                self.assertEqual(names, sorted([theirs.split("/")[0], theirs]))
                file.unlink()
                file.parent.rmdir()

    def test_pickles_name_pytorch_s_modules(self):
        text = """
            import pickle, sys, pickletools, torch
            model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
            objects = [torch.arange(3.0), torch.float16, torch.Size([2]), torch.device("cpu"), model]
            objects += [torch.nn.Parameter(torch.ones(2))]
            names = set()
            for item in objects:
                data = pickle.dumps(item, protocol=2)
                names |= {a for o, a, _ in pickletools.genops(data) if o.name == "GLOBAL"}
            print(sorted(n for n in names if "corten" in n))
            print("torch.storage _load_from_bytes" in names)
            print(pickle.loads(pickle.dumps(objects[0])).tolist())
            """
        self.assertEqual(python(text, self.installed()), ["[]", "True", "[0.0, 1.0, 2.0]"])


class Pickles(unittest.TestCase):
    def test_generators(self):
        generator = torch.Generator().manual_seed(7)
        torch.rand(3, generator=generator)
        again = pickle.loads(pickle.dumps(generator))
        expected, drawn = (torch.rand(5, generator=g).tolist() for g in (generator, again))
        self.assertEqual(expected, drawn)

    def test_storages(self):
        values = torch.arange(4, dtype=torch.int16)
        storage = pickle.loads(pickle.dumps(values.untyped_storage()))
        self.assertEqual(bytes(storage), bytes(values.untyped_storage()))
        again = pickle.loads(pickle.dumps(values[1:]))
        self.assertEqual((again.tolist(), again.storage_offset()), ([1, 2, 3], 1))


if __name__ == "__main__":
    unittest.main()
