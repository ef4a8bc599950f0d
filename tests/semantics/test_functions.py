"""Sorting, counting, special functions, shape tools and images."""

import unittest

import golden


class Functions(golden.Family):
    family = "functions"

    def test_sorting(self):
        self.check("sorting")

    def test_counting(self):
        self.check("counting")

    def test_special_functions(self):
        self.check("special functions")

    def test_shape_tools(self):
        self.check("shape tools")

    def test_images(self):
        self.check("images")


if __name__ == "__main__":
    unittest.main()
