"""Broken and hostile files: an exception each, no crash, no growth, no code run."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import hostile_files
from module_under_test import torch

HERE = Path(__file__).resolve().parent
#: What readers raise; nothing else may come out of them.
CLASSES = {
    "pt": {"RuntimeError", "UnpicklingError", "EOFError", "ValueError", "NotImplementedError",
           "SafetensorError"},
    "safetensors": {"SafetensorError"},
    "npy": {"ValueError"}, "npz": {"ValueError"},
}
LARGEST_GROWTH = 500  # MiB


def is_expected(way, verdict, outcome):
    """Whether a file was refused, or loaded, as it should be."""
    if verdict == "any":
        return True
    if verdict == "loads":
        return outcome == "loaded"
    return outcome != "loaded"


@unittest.skipUnless(torch.__name__ == "corten", "readers of this package")
class Corpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        files = os.path.join(cls.folder.name, "files")
        os.mkdir(files)
        cls.marker = os.path.join(cls.folder.name, "marker")
        cls.cases = {}
        for number, case in enumerate(hostile_files.corpus(torch, cls.marker)):
            name, reader, content, verdict = case
            file = f"{number:05}.{reader}"
            Path(files, file).write_bytes(content)
            cls.cases[file] = name, reader, verdict
        command = [sys.executable, str(HERE / "load_hostile_files.py"), torch.__name__, files]
        cls.done = subprocess.run(command, capture_output=True, text=True)
        cls.outcomes = [json.loads(line) for line in cls.done.stdout.splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_there_are_many(self):
        self.assertGreaterEqual(len(self.cases), 900)

    def test_nothing_crashes_or_hangs(self):
        last = self.outcomes[-1] if self.outcomes else None
        self.assertEqual(self.done.returncode, 0, f"after {last}: {self.done.stderr[-2000:]}")
        self.assertEqual({file for file, *_ in self.outcomes}, set(self.cases))

    def test_no_code_runs(self):
        self.assertFalse(os.path.exists(self.marker))

    def test_memory_does_not_grow(self):
        peaks = [peak for *_, peak in self.outcomes]
        grown = [(after - before, self.cases[row[0]][0])
                 for before, after, row in zip(peaks, peaks[1:], self.outcomes[1:])]
        self.assertLess(max(grown)[0], LARGEST_GROWTH, max(grown))

    def test_outcomes(self):
        for file, way, outcome, text, _ in self.outcomes:
            name, reader, verdict = self.cases[file]
            with self.subTest(name=name, way=way):
                # Files of the older format are not mapped, and nothing of the data is read for
                # the meta device.
                if way == "mmap" and "legacy" in name or way == "meta":
                    verdict = "any"
                self.assertTrue(is_expected(way, verdict, outcome), (verdict, outcome, text))
                if outcome != "loaded":
                    self.assertIn(outcome, CLASSES[reader], text)

    def test_texts_name_the_file(self):
        for file, way, outcome, text, _ in self.outcomes:
            if outcome != "loaded" and way != "buffer":
                with self.subTest(name=self.cases[file][0], way=way):
                    self.assertIn(file, text)


if __name__ == "__main__":
    unittest.main()
