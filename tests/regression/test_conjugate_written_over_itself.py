"""Operators that write to a lazily conjugated tensor read operands over the same memory after the write."""

import unittest

from module_under_test import torch


class Conjugated(unittest.TestCase):
    def test_operand_is_the_base(self):
        base = torch.tensor([1 + 2j, 3 - 1j])
        view = base.conj()
        view.add_(base)
        # (1 - 2j) + (1 + 2j) = 2, whose conjugate stands in memory.
        self.assertEqual(base.tolist(), [2 + 0j, 6 + 0j])
        self.assertEqual(view.tolist(), [2 + 0j, 6 + 0j])

    def test_out(self):
        base = torch.tensor([1 + 2j, 3 - 1j])
        torch.mul(base, base, out=base.conj())
        self.assertEqual(base.tolist(), [-3 - 4j, 8 + 6j])

    def test_copy(self):
        base = torch.tensor([1 + 2j])
        base.conj().copy_(base)
        self.assertEqual(base.tolist(), [1 - 2j])


if __name__ == "__main__":
    unittest.main()
