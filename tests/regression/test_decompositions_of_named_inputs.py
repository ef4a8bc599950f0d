"""`run_decompositions` of a program whose input is named as a function of Python: copies of its graph name it otherwise."""

import unittest

import corten as torch
from corten.export import export


class NamedInputs(unittest.TestCase):
    def test_input(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()).eval()
        program = export(model, (torch.ones(3, 4),))
        x = torch.randn(3, 4)
        self.assertTrue(torch.equal(program.run_decompositions().module()(x), model(x)))


if __name__ == "__main__":
    unittest.main()
