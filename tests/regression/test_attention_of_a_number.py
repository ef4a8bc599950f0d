"""Attention of a tensor without dimensions was an internal error."""

import unittest

from module_under_test import torch


class Numbers(unittest.TestCase):
    def test_of_no_dimensions(self):
        one = torch.tensor(1.0)
        with self.assertRaises(IndexError):
            torch._scaled_dot_product_attention_math(one, one, one)

    def test_of_three(self):
        q = torch.tensor([[[1.0, 0.0]]])
        found, weights = torch._scaled_dot_product_attention_math(q, q, q)
        self.assertEqual((found.tolist(), weights.tolist()), ([[[1.0, 0.0]]], [[[1.0]]]))


if __name__ == "__main__":
    unittest.main()
