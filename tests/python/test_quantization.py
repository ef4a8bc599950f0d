"""``torch.ao.quantization`` beside PyTorch's: observers, configurations, eager mode, graph mode, training."""

from __future__ import annotations

import json
import unittest
import warnings
from pathlib import Path

import quantization_cases as cases
from module_under_test import torch
from quantized_module_cases import written
from test_quantized_modules import difference

GOLDEN = json.loads((Path(__file__).parents[1] / "goldens" / "quantization.json").read_text())
#: Programs whose numbers are equal to the last bit.
EXACT = {"observers_of_tensors", "observers_of_channels", "histograms", "other_observers"}


class Quantization(unittest.TestCase):
    def check(self, case):
        name = case.__name__
        seen, tolerance = 0, 0.0 if name in EXACT else 1e-5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for index, (label, value) in enumerate(case(torch)):
                expected_label, expected = GOLDEN[name][index]
                self.assertEqual(label, expected_label)
                with self.subTest(label=label):
                    found = json.loads(json.dumps(written(torch, value)))
                    self.assertIsNone(difference(expected, found, tolerance))
                seen += 1
        self.assertEqual(seen, len(GOLDEN[name]))


def _test(case):
    return lambda self: self.check(case)


for _case in cases.CASES:
    setattr(Quantization, f"test_{_case.__name__}", _test(_case))


if __name__ == "__main__":
    unittest.main()
