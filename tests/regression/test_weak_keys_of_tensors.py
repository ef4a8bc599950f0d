"""Dictionaries whose keys are tensors that others own."""

import copy
import gc
import importlib
import unittest

from module_under_test import torch

weak = importlib.import_module(torch.__name__ + ".utils.weak")


class Dictionaries(unittest.TestCase):
    def setUp(self):
        self.keys = [torch.ones(2) for _ in range(3)]
        self.made = weak.WeakTensorKeyDictionary()
        for place, key in enumerate(self.keys):
            self.made[key] = place

    def test_keys_are_told_apart_by_identity(self):
        self.assertEqual([self.made[key] for key in self.keys], [0, 1, 2])
        self.assertNotIn(torch.ones(2), self.made)
        with self.assertRaises(KeyError):
            self.made[torch.ones(2)]

    def test_freed_keys_are_forgotten(self):
        del self.keys[1]
        gc.collect()
        self.assertEqual((len(self.made), sorted(self.made.values())), (2, [0, 2]))

    def test_walks(self):
        self.assertTrue(all(key is mine for key, mine in zip(self.made, self.keys)))
        self.assertEqual([value for _, value in self.made.items()], [0, 1, 2])
        self.assertEqual(len(list(self.made.keyrefs())), 3)

    def test_changes(self):
        first, second, third = self.keys
        self.assertEqual((self.made.pop(first), self.made.pop(first, 7)), (0, 7))
        self.assertEqual((self.made.setdefault(first, 5), self.made.setdefault(second, 5)), (5, 1))
        del self.made[second]
        self.assertIsNone(self.made.get(second))
        key, value = self.made.popitem()
        self.assertTrue(any(key is one for one in self.keys))
        self.assertIn(value, (2, 5))

    def test_copies_and_unions(self):
        first = self.keys[0]
        for made in (copy.copy(self.made), self.made | {}, {} | self.made):
            self.assertEqual(len(made), 3)
            made[first] = 9
            self.assertEqual(self.made[first], 0)
        self.assertEqual(copy.deepcopy(self.made)[first], 0)

    def test_references(self):
        first, second, _ = self.keys
        self.assertEqual(weak.WeakIdRef(first), weak.WeakIdRef(first))
        self.assertFalse(weak.WeakIdRef(first) == weak.WeakIdRef(second))
        reference = weak.TensorWeakRef(torch.ones(1))
        gc.collect()
        self.assertIsNone(reference())
        self.assertIs(weak.TensorWeakRef(first)(), first)


if __name__ == "__main__":
    unittest.main()
