"""The text of tensors."""

import unittest

from module_under_test import torch

NAN, INF = float("nan"), float("inf")


class Text(unittest.TestCase):
    def check(self, tensor, text):
        self.assertEqual(repr(tensor), text)

    def test_numbers(self):
        t = torch.tensor
        for data, text in [
            (1.0, "tensor(1.)"),
            (3, "tensor(3)"),
            ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
            ([1.0, 2.0, 3.0], "tensor([1., 2., 3.])"),
            ([0.0], "tensor([0.])"),
            ([], "tensor([])"),
            ([True, False], "tensor([ True, False])"),
            ([-0.0, 1.0], "tensor([-0., 1.])"),
            ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
            ([1e-4, 1.0], "tensor([1.0000e-04, 1.0000e+00])"),
            ([1000.5, 1.0], "tensor([1.0005e+03, 1.0000e+00])"),
            ([1e8], "tensor([100000000.])"),
            ([1.5e8], "tensor([1.5000e+08])"),
            ([NAN, INF, -INF, 1.0], "tensor([nan, inf, -inf, 1.])"),
            ([NAN, 1.5], "tensor([   nan, 1.5000])"),
            ([123456.0, 0.5], "tensor([1.2346e+05, 5.0000e-01])"),
            ([1 + 2j, -0.5 - 1j], "tensor([ 1.0000+2.j, -0.5000-1.j])"),
            (1 + 1j, "tensor(1.+1.j)"),
            ([0.1, 100.0], "tensor([  0.1000, 100.0000])"),
            ([1.0, -1000.0], "tensor([    1., -1000.])"),
            ([99999.5, 200.5], "tensor([99999.5000,   200.5000])"),
            ([1e-10 + 1j], "tensor([1.0000e-10+1.j])"),
            ([12345678.0], "tensor([12345678.])"),
        ]:
            with self.subTest(text):
                self.check(t(data), text)

    def test_suffixes(self):
        self.check(torch.tensor([1, -20], dtype=torch.int8), "tensor([  1, -20], dtype=torch.int8)")
        self.check(
            torch.tensor([1.0, 2.0], dtype=torch.float64), "tensor([1., 2.], dtype=torch.float64)"
        )
        large = torch.tensor([1e200], dtype=torch.float64)
        self.check(large, "tensor([1.0000e+200], dtype=torch.float64)")
        self.check(torch.tensor([1.5], dtype=torch.float16), "tensor([1.5000], dtype=torch.float16)")
        self.check(torch.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)")
        self.check(
            torch.ones(2, requires_grad=True) * 2, "tensor([2., 2.], grad_fn=<MulBackward0>)"
        )
        self.check(torch.empty(3, device="meta"), "tensor(..., device='meta', size=(3,))")
        self.check(
            torch.empty(2, 0, device="meta", dtype=torch.int64),
            "tensor(..., device='meta', size=(2, 0), dtype=torch.int64)",
        )
        self.check(torch.empty(0, 3), "tensor([], size=(0, 3))")
        self.check(torch.empty(0, dtype=torch.bool), "tensor([], dtype=torch.bool)")
        self.check(
            torch.empty(0, 3, dtype=torch.int64), "tensor([], size=(0, 3), dtype=torch.int64)"
        )
        self.check(torch.tensor([], requires_grad=True), "tensor([], requires_grad=True)")

    def test_layout(self):
        self.check(torch.zeros(2, 2, 2), (
            "tensor([[[0., 0.],\n         [0., 0.]],\n\n        [[0., 0.],\n         [0., 0.]]])"
        ))
        self.check(torch.ones(14, requires_grad=True), (
            "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],\n"
            "       requires_grad=True)"
        ))
        self.check(torch.arange(30.0), (
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
            "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
            "        28., 29.])"
        ))

    def test_summary(self):
        self.check(torch.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])")
        self.assertEqual(repr(torch.zeros(100, 100)).count("..."), 7)


if __name__ == "__main__":
    unittest.main()
