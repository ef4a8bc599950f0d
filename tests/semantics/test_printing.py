"""The text of tensors."""

import unittest

from golden import Family, torch


class Printing(Family):
    family = "printing"

    def test_numbers_share_one_format(self):
        """Integral values get a point only; a ratio over 1000 turns on the exponent."""
        self.assertEqual(repr(torch.tensor([1.0, 2.0])), "tensor([1., 2.])")
        self.assertEqual(repr(torch.tensor([1.0, 0.5])), "tensor([1.0000, 0.5000])")
        self.assertEqual(repr(torch.tensor([1.0, 1000.5])), "tensor([1.0000e+00, 1.0005e+03])")
        self.check("floating-point numbers")

    def test_dtypes_are_shown_unless_they_are_the_default(self):
        self.check("dtypes")

    def test_integers(self):
        self.check("integers")

    def test_complex_numbers(self):
        self.check("complex numbers")

    def test_lines_are_eighty_characters_wide(self):
        self.check("lines")

    def test_more_than_a_thousand_elements_are_summarised(self):
        self.check("summaries")

    def test_suffixes(self):
        self.check("suffixes")

    def test_options(self):
        self.check("options")

    def test_str_and_format(self):
        self.check("str and format")


if __name__ == "__main__":
    unittest.main()
