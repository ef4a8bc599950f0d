"""Operators that write by an index were refused where the index or the values lie beside the target in one
storage; they overlap no element."""

import unittest

from module_under_test import torch


class Beside(unittest.TestCase):
    def test_values_in_the_same_storage(self):
        for name, expected in (
            ("index_add_", [[5.0, 6.0], [1.0, 2.0]]), ("index_copy_", [[4.0, 5.0], [1.0, 2.0]]),
        ):
            whole = torch.arange(6.0)
            target, values = whole[:4].view(2, 2), whole[4:].view(1, 2)
            target.copy_(torch.tensor([[1.0, 1.0], [1.0, 2.0]]))
            getattr(target, name)(0, torch.tensor([0]), values)
            self.assertEqual(target.tolist(), expected, name)

    def test_index_in_the_same_storage(self):
        whole = torch.tensor([10, 20, 30, 2, 0])
        target, index = whole[:3], whole[3:]
        self.assertEqual(target.scatter_(0, index, 7).tolist(), [7, 20, 7])
        self.assertEqual(target.index_fill_(0, index, 5).tolist(), [5, 20, 5])
        self.assertEqual(target.put_(index, torch.tensor([1, 2])).tolist(), [2, 20, 1])
        self.assertEqual(whole.tolist(), [2, 20, 1, 2, 0])


if __name__ == "__main__":
    unittest.main()
