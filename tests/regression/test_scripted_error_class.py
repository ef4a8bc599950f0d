"""Errors of modules that were scripted or traced are those of compiled programs."""

import unittest

from module_under_test import torch


class Pick(torch.nn.Module):
    def forward(self, x):
        return x[..., 7]


class Checked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pick = Pick()

    def forward(self, x, n: int):
        assert n > 0, "n must be positive"
        if n == 5:
            raise ValueError("five")
        return self.pick(x)


class Errors(unittest.TestCase):
    def setUp(self):
        self.checked = torch.jit.script(Checked())

    def test_raised_by_the_program(self):
        with self.assertRaisesRegex(torch.jit.Error, "AssertionError: n must be positive"):
            self.checked(torch.ones(2, 3), 0)
        with self.assertRaisesRegex(torch.jit.Error, "builtins.ValueError: five"):
            self.checked(torch.ones(2, 3), 5)

    def test_refused_by_operators(self):
        for call in (
            lambda: self.checked(torch.ones(2, 3), 1), lambda: torch.jit.script(Pick())(torch.ones(2, 3)),
            lambda: torch.jit.trace(Pick(), torch.ones(2, 9))(torch.ones(2, 3)),
        ):
            with self.assertRaisesRegex(RuntimeError, "The following operation failed in the TorchScript") as caught:
                call()
            self.assertIs(type(caught.exception), RuntimeError)

    def test_others_as_before(self):
        self.assertEqual(self.checked(torch.ones(2, 9), 1).tolist(), [1.0, 1.0])
        with self.assertRaises(IndexError):
            Pick()(torch.ones(2, 3))
        with self.assertRaises(AssertionError):
            Checked()(torch.ones(2, 3), 0)


if __name__ == "__main__":
    unittest.main()
