"""Functions that PyTorch reads the default Mean of as no reduction took the mean; operators by their schema take it."""

import math
import unittest

from module_under_test import torch


class Reductions(unittest.TestCase):
    def test_functions_do_not_reduce(self):
        x, y = torch.tensor([0.5, 2.0]).log(), torch.tensor([1.0, 4.0])
        self.assertEqual([round(v, 5) for v in torch.kl_div(x, y).tolist()],
                         [round(math.log(2), 5), round(4 * math.log(2), 5)])
        self.assertEqual(torch._C._nn.l1_loss(y, torch.ones(2)).tolist(), [0.0, 3.0])
        self.assertEqual(torch.hinge_embedding_loss(y, torch.ones(2)).tolist(), [1.0, 4.0])
        self.assertEqual(torch.margin_ranking_loss(y, y + 1, torch.ones(2)).tolist(), [1.0, 1.0])
        scores = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]])
        self.assertEqual(torch._C._nn.nll_loss(scores, torch.tensor([0, 1])).tolist(), [1.0, 4.0])

    def test_operators_reduce(self):
        y = torch.tensor([1.0, 4.0])
        self.assertEqual(torch.ops.aten.l1_loss(y, torch.ones(2)).item(), 1.5)
        self.assertEqual(torch.ops.aten.hinge_embedding_loss(y, torch.ones(2)).item(), 2.5)
        self.assertEqual(torch.nn.functional.l1_loss(y, torch.ones(2)).item(), 1.5)
        self.assertEqual(torch.nn.functional.hinge_embedding_loss(y, torch.ones(2)).item(), 2.5)

    def test_reductions_that_are_given(self):
        y = torch.tensor([1.0, 4.0])
        self.assertEqual(torch.hinge_embedding_loss(y, torch.ones(2), reduction=1).item(), 2.5)
        self.assertEqual(torch.hinge_embedding_loss(y, torch.ones(2), reduction=2).item(), 5.0)


if __name__ == "__main__":
    unittest.main()
