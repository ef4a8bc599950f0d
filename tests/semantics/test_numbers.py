"""Casts and arithmetic, to the bit."""

import unittest

from golden import Family, torch


class Numbers(Family):
    family = "numbers"

    def test_floating_point_to_integers(self):
        """Towards zero; what does not fit keeps the low bits of a wider integer, as on x86-64."""
        x = torch.tensor([300.7, -1.5, float("nan")])
        self.assertEqual(x.to(torch.uint8).tolist(), [44, 255, 0])
        self.assertEqual(x.to(torch.int32).tolist(), [300, -1, -(2**31)])
        self.check("casts of floating-point numbers")

    def test_rounding_of_casts(self):
        """To the nearest, ties to even; float8_e4m3fn saturates."""
        self.check("bits of casts")

    def test_complex_numbers_lose_their_imaginary_part(self):
        self.check("complex to others")

    def test_integers_wrap_and_divide_towards_minus_infinity(self):
        x = torch.tensor([127], dtype=torch.int8)
        self.assertEqual((x + 1).item(), -128)
        self.assertEqual((-x // 2).item(), -64)
        self.check("integers")

    def test_integers_do_not_divide_by_zero(self):
        self.check("integers and zero")

    def test_floating_point_numbers(self):
        """Signs of zeros, infinities, and NaN, which is the greatest of all."""
        self.check("floating-point numbers")

    def test_sixteen_bits_are_computed_in_single_precision(self):
        self.check("rounding in 16 bits")

    def test_complex_numbers(self):
        self.check("complex numbers")

    def test_ranges(self):
        self.check("ranges")


if __name__ == "__main__":
    unittest.main()
