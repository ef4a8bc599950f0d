"""The rules of distributed tensors on four ranks, in one and in two dimensions."""

from __future__ import annotations

import unittest

from dtensor_cases import CASES
from dtensor_world import run_ranks
from test_dtensor_ops import failures


class Meshes(unittest.TestCase):
    """Families of operators on four ranks."""

    def check(self, shape, count):
        for family in CASES:
            with self.subTest(family):
                for found in run_ranks(4, lambda family=family: failures(shape, family, count)):
                    self.assertEqual(found, [])

    def test_one_dimension(self):
        self.check((4,), 3)

    def test_two_dimensions(self):
        self.check((2, 2), 3)


if __name__ == "__main__":
    unittest.main()
