"""Modules of ``torch.ao.nn`` beside PyTorch's: results, states, representations, copies, errors."""

from __future__ import annotations

import json
import math
import unittest
import warnings
from pathlib import Path

import quantized_module_cases as cases
from module_under_test import torch

GOLDEN = json.loads((Path(__file__).parents[1] / "goldens" / "quantized_modules.json").read_text())


def difference(expected, found, tolerance=2e-5):
    """Where two values differ, or None. Floats may differ a little, all else may not."""
    if isinstance(expected, float) or isinstance(found, float):
        if not isinstance(expected, (int, float)) or not isinstance(found, (int, float)):
            return f"{expected!r} beside {found!r}"
        same = math.isclose(expected, found, rel_tol=tolerance, abs_tol=tolerance) or expected == found
        return None if same or (math.isnan(expected) and math.isnan(found)) else f"{expected} beside {found}"
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return f"{len(expected)} values beside {len(found)}: {expected} beside {found}"
        parts = (difference(a, b, tolerance) for a, b in zip(expected, found))
        return next((part for part in parts if part), None)
    if isinstance(expected, dict) and isinstance(found, dict):
        if expected.keys() != found.keys():
            return f"{sorted(expected)} beside {sorted(found)}"
        parts = ((key, difference(expected[key], found[key], tolerance)) for key in expected)
        return next((f"{key}: {part}" for key, part in parts if part), None)
    return None if expected == found else f"{expected!r} beside {found!r}"


class Modules(unittest.TestCase):
    def check(self, case):
        self.assertTrue(GOLDEN[case.__name__])
        seen = 0
        engine = torch.backends.quantized.engine
        self.addCleanup(setattr, torch.backends.quantized, "engine", engine)
        torch.backends.quantized.engine = getattr(case, "engine", "fbgemm")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for index, (label, value) in enumerate(case(torch)):
                expected_label, expected = GOLDEN[case.__name__][index]
                self.assertEqual(label, expected_label)
                with self.subTest(label=label):
                    self.assertIsNone(difference(expected, cases.written(torch, value)))
                seen += 1
        self.assertEqual(seen, len(GOLDEN[case.__name__]))


def _test(case):
    return lambda self: self.check(case)


for _case in cases.CASES:
    setattr(Modules, f"test_{_case.__name__}", _test(_case))


if __name__ == "__main__":
    unittest.main()
