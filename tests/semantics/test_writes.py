"""In-place operators and out=: sizes, casts, overlaps and versions."""

import unittest

from golden import Family, torch


class Writes(Family):
    family = "writes"

    def test_out_is_resized_with_a_warning_unless_it_is_empty(self):
        out = torch.empty(0)
        torch.add(torch.ones(2), 1, out=out)
        self.assertEqual(out.tolist(), [2, 2])
        with self.assertWarnsRegex(UserWarning, "An output with one or more elements was resized"):
            torch.add(torch.ones(3), 1, out=out)
        self.check("out= of every kind")
        self.check("out= of other shapes")

    def test_out_holds_the_values(self):
        self.check("values through out=")

    def test_out_comes_back_and_counts(self):
        self.check("out= is what comes back")

    def test_in_place_does_not_leave_the_category_of_the_dtype(self):
        with self.assertRaisesRegex(RuntimeError,
            "result type Float can't be cast to the desired output type Long"):
            torch.ones(1, dtype=torch.int64).add_(1.5)
        self.check("casts of in-place operators")

    def test_in_place_does_not_grow(self):
        self.check("shapes of in-place operators")

    def test_operands_may_be_the_same_memory_but_not_partly(self):
        a = torch.arange(4.)
        a.add_(a)
        with self.assertRaisesRegex(RuntimeError,
            "some elements of the input tensor and the written-to tensor"):
            a[1:].add_(a[:-1])
        self.check("overlaps")

    def test_what_counts_as_a_write(self):
        self.check("versions")

    def test_pythons_operators(self):
        self.check("operators of Python in place")


if __name__ == "__main__":
    unittest.main()
