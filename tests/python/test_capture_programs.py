"""Programs that compile, export, trace and script, written for PyTorch and run with ``python -m corten.run``, against
recorded output."""

import unittest
from pathlib import Path

from test_programs import run, same

HERE = Path(__file__).resolve().parent
EXPECTED = HERE.parent / "goldens" / "capture_programs"


class CapturePrograms(unittest.TestCase):
    """A test for each program."""

    maxDiff = None


def _test(program):
    def test(self):
        words = run(str(program)).split()
        expected = (EXPECTED / f"{program.stem}.txt").read_text().split()
        different = [pair for pair in zip(words, expected) if not same(*pair)]
        self.assertEqual(different, [])
        self.assertEqual(len(words), len(expected))

    return test


for _program in sorted((HERE / "capture_programs").glob("*.py")):
    setattr(CapturePrograms, f"test_{_program.stem}", _test(_program))


if __name__ == "__main__":
    unittest.main()
