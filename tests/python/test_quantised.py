"""Quantised tensors beside what PyTorch gives of the same programs."""

import json
import os
import unittest

import quantised_programs as programs

torch = __import__(os.environ.get("CORTEN_TEST_MODULE", "corten"))


class Programs(unittest.TestCase):
    def test_outcomes(self):
        goldens = json.loads((programs.GOLDENS / "quantised.json").read_text())
        expressions = dict(programs.programs())
        wrong = []
        for name, wanted in goldens.items():
            program, _, kind = name.partition(" ")
            found = programs.outcome(torch, kind, expressions[program])
            if not programs.agree(name, found, wanted):
                wrong.append(f"{name}:\n    {found[:300]}\n    {wanted[:300]}")
        self.assertFalse(wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong))


if __name__ == "__main__":
    unittest.main()
