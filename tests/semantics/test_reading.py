"""Indexing that reads."""

import unittest

from golden import Family, torch


class Reading(Family):
    family = "reading"

    def test_basic_places_give_views_and_tensors_give_copies(self):
        t = torch.arange(6).view(2, 3)
        self.assertIs(t[0, 1:]._base, t._base)
        self.assertIsNone(t[[0]]._base)
        self.check("views and copies")

    def test_one_place(self):
        """Numbers, slices, None, "...", truth values, sequences, tensors and arrays."""
        self.check("one place")

    def test_index_tensors_side_by_side_stay_in_their_place(self):
        t = torch.zeros(2, 3, 4)
        self.assertEqual(tuple(t[:, [0, 1, 2], [1, 1, 1]].shape), (2, 3))
        self.check("two places")

    def test_index_tensors_apart_move_to_the_front(self):
        t = torch.zeros(2, 3, 4)
        self.assertEqual(tuple(t[[0, 1], :, [1, 1]].shape), (2, 3))
        self.assertEqual(tuple(t[0, :, [1, 1]].shape), (3, 2), "a number is no index tensor")
        self.check("three places")
        self.check("four places")

    def test_rare_places(self):
        self.check("rare places among others")

    def test_layouts(self):
        self.check("layouts")

    def test_bounds_and_words(self):
        self.check("bounds and words")

    def test_operators_that_read_by_index(self):
        self.check("select, take, gather")

    def test_where_promotes_its_branches(self):
        self.check("where")

    def test_tensors_as_numbers_and_sequences_of_python(self):
        self.check("Python's protocols")


if __name__ == "__main__":
    unittest.main()
