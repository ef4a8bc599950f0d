"""Test cases and helpers that packages' tests take from the inside of ``torch.testing``."""

import importlib
import os
import unittest

import numpy as np

from module_under_test import torch

common = importlib.import_module(f"{torch.__name__}.testing._internal.common_utils")


class Comparison(unittest.TestCase):
    def setUp(self):
        self.case = common.TestCase()

    def test_equal(self):
        x = torch.tensor([1.0, float("nan")])
        for a, b in (
            (x, x + 1e-7), (x, x.numpy()), (1.0, 1.0 + 1e-7), (torch.tensor(3), 3), (torch.tensor([2.5]), 2.5),
            ([1, 2], torch.tensor([1, 2])), ({"a": [x, None]}, {"a": [x.clone(), None]}), ("ab", "ab"),
            ({1, 2}, {2, 1}), (None, None), ((1, "x"), (1, "x")), (torch.float32, torch.float32), (int, int),
            (np.float64(2), 2.0), (True, True), ([], []), (torch.Size([2]), (2,)),
        ):
            with self.subTest(a=a, b=b):
                self.case.assertEqual(a, b)
                self.assertRaises(AssertionError, self.case.assertNotEqual, a, b)

    def test_different(self):
        x = torch.tensor([1.0, 2.0])
        for a, b in (
            (x, x + 1e-3), (x, x.double()), (x, torch.tensor([1.0])), (1, 2), ([1], [1, 2]), ({"a": 1}, {"b": 1}),
            ({"a": x}, {"a": x + 1}), ("a", "b"), ({1}, {2}), (None, 1), (int, float), (x, None),
            (torch.tensor(3), 4), (True, False),
        ):
            with self.subTest(a=a, b=b):
                self.assertRaises((AssertionError, TypeError), self.case.assertEqual, a, b)
                if a is not x or b is not None:
                    self.case.assertNotEqual(a, b)

    def test_options(self):
        x = torch.tensor([1.0, 2.0])
        self.case.assertEqual(x, x + 0.1, atol=0.2, rtol=0)
        self.case.assertEqual(x, x.double(), exact_dtype=False)
        self.case.assertEqualIgnoreType(x, x.double())
        self.case.assertEqualBroadcasting(torch.ones(2, 2), 1)
        self.case.assertObjectIn(x, [1, x])
        self.assertRaises(AssertionError, self.case.assertObjectIn, x, [])
        self.assertRaises(AssertionError, self.case.assertEqual, torch.tensor(float("nan")),
                          torch.tensor(float("nan")), equal_nan=False)
        with self.assertRaisesRegex(AssertionError, "not close(.|\n)*why"):
            self.case.assertEqual(x, x + 1, "why")
        with self.assertRaisesRegex(AssertionError, r"item \['a'\]\[1\]"):
            self.case.assertEqual({"a": [1, x]}, {"a": [1, x + 1]})

        class Loose(common.TestCase):
            precision, rel_tol = 0.5, 0

        Loose().assertEqual(x, x + 0.4)


class Parameters(unittest.TestCase):
    def test_made(self):
        seen = []

        class Some(common.TestCase):
            @common.parametrize("a", [1, 2])
            @common.parametrize("b,c", [(3, 4), common.subtest((5, 6), name="five")])
            def test_all(self, a, b, c):
                seen.append((a, b, c))

        common.instantiate_parametrized_tests(Some)
        names = sorted(name for name in dir(Some) if name.startswith("test_"))
        self.assertEqual(len(names), 4)
        self.assertIn("test_all_a_1_b_3_c_4", names)
        self.assertIn("test_all_a_2_five", names)
        for name in names:
            getattr(Some("run"), name)()
        self.assertEqual(sorted(seen), [(1, 3, 4), (1, 5, 6), (2, 3, 4), (2, 5, 6)])


class Helpers(unittest.TestCase):
    def test_random_numbers(self):
        common.set_rng_seed(3)
        first = torch.rand(2)
        common.set_rng_seed(3)
        with common.freeze_rng_state():
            torch.rand(5)
        self.assertTrue(torch.equal(torch.rand(2), first))

    def test_for_a_while(self):
        with common.set_default_dtype(torch.float64):
            self.assertEqual(torch.ones(1).dtype, torch.float64)
        self.assertEqual(torch.ones(1).dtype, torch.float32)
        with common.TemporaryFileName() as name:
            self.assertTrue(os.path.exists(name))
        self.assertFalse(os.path.exists(name))
        with common.TemporaryDirectoryName() as name, common.set_cwd(name):
            self.assertEqual(os.path.realpath(os.getcwd()), os.path.realpath(name))

    def test_tensors(self):
        x = torch.arange(6.0).reshape(2, 3)
        spread = common.noncontiguous_like(x)
        self.assertFalse(spread.is_contiguous())
        self.assertTrue(torch.equal(spread, x))
        self.assertTrue(common.is_iterable_of_tensors([x, x]))
        self.assertFalse(common.is_iterable_of_tensors([x, 1]))
        self.assertEqual(common.dtype_name(torch.float16), "float16")
        self.assertGreater(common.find_free_port(), 0)

    def test_decorators(self):
        ran = []

        @common.skipIfRocm
        def plain():
            ran.append(1)

        @common.skipIfTorchDynamo("reason")
        def reasoned():
            ran.append(2)

        plain(), reasoned()
        self.assertEqual(ran, [1, 2])


if __name__ == "__main__":
    unittest.main()
