"""Random programs give compiled what they give without, bit for bit: views, in-place calls, control flow on values,
random numbers, gradients. CORTEN_TEST_FULL runs many more."""

import os
import unittest
import warnings

import random_programs as programs
from corten.compiler._regions import run_region
from module_under_test import torch

COUNT = 10_000 if os.environ.get("CORTEN_TEST_FULL") else 120


class Compiled(unittest.TestCase):
    def test_random_programs(self):
        compiled = torch.compile(lambda function, *args: function(*args))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in range(COUNT):
                eager = programs.outcome(seed, lambda function, *args: function(*args))
                later = programs.outcome(seed, compiled)
                self.assertIsNone(programs.difference(seed, eager, later))

    def test_large_values_that_are_computed_again(self):
        # Results of more than 16 KiB that are left for backward passes have no memory until somebody looks.
        options = {"length": 16, "sizes": (1, 48, 96), "largest": 1 << 14}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in range(COUNT // 3):
                eager = programs.outcome(2 * seed, lambda function, *args: function(*args), **options)
                later = programs.outcome(2 * seed, lambda function, *args: run_region(function, args, {}), **options)
                self.assertIsNone(programs.difference(seed, eager, later))


if __name__ == "__main__":
    unittest.main()
