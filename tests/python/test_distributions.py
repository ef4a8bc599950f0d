"""Every distribution, transform and divergence against recorded answers."""

import json
import math
import unittest
import warnings
from pathlib import Path

from distribution_cases import CASES, TRANSFORMS, record_distribution, record_divergences
from distribution_cases import record_transform
from module_under_test import torch

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[1] / "goldens" / "distributions.json").read_text()
)
d = torch.distributions


def close(a, b, tolerance):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)
    numbers = (int, float)
    if isinstance(a, numbers) and isinstance(b, numbers) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance / 5)
    return a == b


class Recorded(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")

    def check(self, key, seen):
        expected = GOLDEN[key]
        self.assertEqual(seen.keys(), expected.keys())
        for part, value in seen.items():
            # Slopes of gamma quantiles are approximations, there more than here.
            tolerance = 5e-3 if part == "gradients" else 2e-5
            with self.subTest(case=key, part=part):
                right = close(value, expected[part], tolerance)
                self.assertTrue(right, f"{value} is not {expected[part]}")

    def test_distributions(self):
        for name, cases in CASES.items():
            for arguments in cases:
                key = f"{name}({arguments})"
                self.check(key, record_distribution(torch, d, name, arguments))

    def test_transforms(self):
        for name, x in TRANSFORMS.items():
            self.check(name, record_transform(torch, d, name, x))

    def test_divergences(self):
        self.check("divergences", record_divergences(torch, d))


if __name__ == "__main__":
    unittest.main()
