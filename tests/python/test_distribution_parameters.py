"""Parameters of distributions that are computed from others are validated too."""

import unittest

from module_under_test import torch


class Parameters(unittest.TestCase):
    def test_properties_are_validated(self):
        kinds = torch.distributions
        for df in (-1.0, 0, torch.tensor(-2.0), torch.tensor([1.0, -1])):
            with self.assertRaisesRegex(ValueError, "Expected parameter df"):
                kinds.Chi2(df, validate_args=True)
        self.assertRaises(ValueError, kinds.StudentT, -1.0)
        self.assertEqual(kinds.Chi2(torch.tensor(-2.0), validate_args=False).df.item(), -2)
        self.assertEqual(kinds.Chi2(torch.tensor([2.0])).expand((3,)).df.tolist(), [2, 2, 2])


if __name__ == "__main__":
    unittest.main()
