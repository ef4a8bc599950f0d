"""Indexing that writes."""

import unittest

from golden import Family, torch


class Writing(Family):
    family = "writing"

    def test_values_are_broadcast_to_the_place(self):
        """Sizes of one in front of the value are dropped first."""
        t = torch.zeros(2, 3)
        t[0] = torch.ones(1, 1, 3)
        t[:, 2] = 5
        self.assertEqual(t.tolist(), [[1, 1, 5], [0, 0, 5]])
        self.check("places and values")
        self.check("odd values")

    def test_masks_choose_what_is_written(self):
        t = torch.arange(4)
        t[t > 1] = -1
        self.assertEqual(t.tolist(), [0, 1, -1, -1])
        self.check("masks")

    def test_numbers_are_cast_to_the_dtype(self):
        self.check("numbers into dtypes")

    def test_writes_to_memory_that_is_written_twice(self):
        """A number may fill an expanded tensor; other writes to it are errors."""
        t = torch.zeros(1).expand(3)
        t.fill_(2)
        with self.assertRaisesRegex(RuntimeError, "more than one element of the written-to tensor"):
            t.add_(1)
        self.check("expanded and overlapping")

    def test_bounds_and_words(self):
        self.check("errors")

    def test_every_write_counts(self):
        self.check("versions")

    def test_index_put_accumulates_where_an_index_comes_twice(self):
        t = torch.zeros(3)
        t.index_put_((torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
        self.assertEqual(t.tolist(), [2, 0, 0])
        self.check("index_put_")

    def test_masked_fill_and_masked_scatter(self):
        self.check("masked")

    def test_operators_that_write_along_one_dimension(self):
        self.check("index_add_, index_copy_, index_fill_")

    def test_scatter(self):
        self.check("scatter")

    def test_put_counts_through_the_whole_tensor(self):
        self.check("put_ and take")

    def test_functions_that_write_to_a_copy(self):
        self.check("scattering into views")


if __name__ == "__main__":
    unittest.main()
