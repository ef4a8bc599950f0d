"""Type promotion: which dtype comes out."""

import unittest

from golden import Family, torch


class Promotion(Family):
    family = "promotion"

    def test_dimensions_come_before_numbers(self):
        """Numbers, and tensors without dimensions, lift the category: bool, int, float, complex."""
        x = torch.ones(1, dtype=torch.float16)
        self.assertEqual((x + torch.ones(1)).dtype, torch.float32)
        self.assertEqual((x + torch.tensor(1.0)).dtype, torch.float16)
        self.assertEqual((x + 1.0).dtype, torch.float16)
        self.assertEqual((torch.ones(1, dtype=torch.int8) + 1.0).dtype, torch.float32)
        self.check("tensor and 0-d tensor")
        self.check("0-d tensor and tensor")
        self.check("0-d tensors")
        self.check("numbers")

    def test_promote_types_is_a_table(self):
        self.check("promote_types")

    def test_casts_go_up_the_categories(self):
        self.check("can_cast")

    def test_operators_follow_the_table(self):
        """Division and functions of real numbers turn integers into the default dtype."""
        self.check("tensors")

    def test_every_dtype_can_be_copied_joined_and_chosen_from(self):
        self.check("operators for every dtype")

    def test_writes_keep_the_dtype_of_their_target(self):
        self.check("in-place and out=")

    def test_one_operand(self):
        self.check("one operand")

    def test_the_default_dtype_is_that_of_numbers(self):
        self.check("another default dtype")

    def test_the_dtype_of_data(self):
        self.check("inferred from data")

    def test_words(self):
        self.check("words")


if __name__ == "__main__":
    unittest.main()
