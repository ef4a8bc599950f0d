"""Comparisons of tests: what they accept and what they say."""

import importlib
import textwrap
import unittest

from module_under_test import torch

testing = importlib.import_module(f"{torch.__name__}.testing")
T = torch.tensor


class Close(unittest.TestCase):
    def fails(self, actual, expected, text, kind=AssertionError, **options):
        with self.assertRaises(kind) as caught:
            testing.assert_close(actual, expected, **options)
        said = str(caught.exception).replace("corten", "torch")
        self.assertEqual(said, textwrap.dedent(text).strip("\n"))

    def test_accepted(self):
        nan, inf = float("nan"), float("inf")
        for actual, expected, options in (
            (T([1.0]), T([1.0 + 1e-6]), {}), (1, 1, {}), (T([0.0]), T([1e-9]), {}),
            (T([1.0, nan]), T([1.0, nan]), {"equal_nan": True}), (T([inf]), T([inf]), {}),
            (T([1.0]), T([1.0]).double(), {"check_dtype": False}), (None, None, {}),
            (torch.empty(0), torch.empty(0), {}), (T([1.0]), T([2.0]), {"rtol": 1, "atol": 1}),
            ({"a": [T(1.0), 2]}, {"a": [T(1.0), 2]}, {}), (torch.nn.Parameter(T([1.0])), T([1.0]), {}),
        ):
            testing.assert_close(actual, expected, **options)

    def test_tensors(self):
        self.fails(T([1.0, 2.0, 3.0]), T([1.0, 2.0, 4.0]), """
            Tensor-likes are not close!

            Mismatched elements: 1 / 3 (33.3%)
            Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)
            Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)
        """)
        self.fails(T([[1, 2]]), T([[1, 3]]), """
            Tensor-likes are not equal!

            Mismatched elements: 1 / 2 (50.0%)
            Greatest absolute difference: 1 at index (0, 1)
            Greatest relative difference: 0.3333333432674408 at index (0, 1)
        """)
        self.fails([T(1.0), {"x": T(2.0)}], [T(1.0), {"x": T(4.0)}], """
            Scalars are not close!

            Expected 4.0 but got 2.0.
            Absolute difference: 2.0 (up to 1e-05 allowed)
            Relative difference: 0.5 (up to 1.3e-06 allowed)

            The failure occurred for item [1]['x']
        """)

    def test_attributes_and_kinds(self):
        self.fails(T([1.0]), T([1.0]).double(),
                   "The values for attribute 'dtype' do not match: torch.float32 != torch.float64.")
        self.fails(T([1.0, 2.0]), T([1.0]),
                   "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([1]).")
        self.fails(1, 1.0, "The (d)types do not match: <class 'int'> != <class 'float'>.")
        self.fails(T([1.0]), 1.0, "No comparison pair was able to handle inputs of type "
                   "<class 'torch.Tensor'> and <class 'float'>.", TypeError)
        self.fails([1], [1, 2], "The length of the sequences mismatch: 1 != 2")
        self.fails(T([1.0]), T([2.0]), "Both 'rtol' and 'atol' must be either specified or omitted, "
                   "but got no atol.", ValueError, rtol=1)
        self.fails(T([1.0]), T([2.0]), "mine", msg="mine")

    def test_make_tensor_of_one_value(self):
        for dtype in (torch.float32, torch.float16, torch.complex64):
            with self.assertWarnsRegex(FutureWarning, "low==high"):
                made = testing.make_tensor(2, dtype=dtype, device="cpu", low=-9, high=-9)
            self.assertEqual(made[0].real.item(), -9)
        for dtype in (torch.int64, torch.bool):
            with self.assertRaisesRegex(ValueError, "must be less than"):
                testing.make_tensor(2, dtype=dtype, device="cpu", low=1, high=1)

    def test_make_tensor(self):
        torch.manual_seed(0)
        made = testing.make_tensor(3, dtype=torch.float32, device="cpu")
        expected = [-0.06738138198852539, 4.8279924392700195, -7.407406330108643]
        self.assertEqual(made.tolist(), expected)
        torch.manual_seed(0)
        made = testing.make_tensor((2, 2), dtype=torch.int64, device="cpu")
        self.assertEqual(made.tolist(), [[6, -5], [-9, -9]])
        made = testing.make_tensor((3, 2), dtype=torch.float64, device="cpu", noncontiguous=True)
        self.assertEqual(made.stride(), (4, 2))
        with self.assertRaisesRegex(ValueError, "`low` must be less than `high`, but got 3 >= 2"):
            testing.make_tensor(3, dtype=torch.float32, device="cpu", low=3, high=2)


if __name__ == "__main__":
    unittest.main()
