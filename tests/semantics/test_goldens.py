"""The golden files themselves."""

import pathlib
import unittest

import golden


class Goldens(unittest.TestCase):
    def test_every_section_is_checked(self):
        for path in sorted(golden.DIRECTORY.glob("*.txt")):
            tests = (pathlib.Path(__file__).parent / f"test_{path.stem}.py").read_text()
            for section in golden.sections(path.stem):
                with self.subTest(path.stem):
                    self.assertIn(f'self.check("{section}")', tests)


if __name__ == "__main__":
    unittest.main()
