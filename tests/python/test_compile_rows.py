"""Reductions of rows in compiled functions whose results are read through expanded views, as derivatives read them."""

import unittest

from module_under_test import torch

# More rows than are reduced at once.
ROWS, COLUMNS = 64, 256


def squares_over_rows(x):
    total = ((x * 2) * x).sum(-1, keepdim=True)
    return total.expand(ROWS, COLUMNS) / COLUMNS


def sum_and_its_copies(x):
    total = x.sum(-1, keepdim=True)
    return total, total.expand(ROWS, COLUMNS) / COLUMNS


def written_after_it_was_read(x):
    total = (x * 2).sum(-1, keepdim=True)
    mean = total.expand(ROWS, COLUMNS) / COLUMNS
    total.add_(1)
    return total, mean


def without_the_dimension(x):
    total = (x * 2).sum(-1)
    copies = total.unsqueeze(1).expand(ROWS, COLUMNS)
    return total, copies * x, (copies - x).amax(1)


def into_a_tensor_of_the_caller(x):
    out = torch.zeros(ROWS, 1)
    torch.sum(x, -1, keepdim=True, out=out)
    return out, out.expand(ROWS, COLUMNS) * x


def normalised(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class ExpandedRows(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def assert_equal(self, found, expected):
        for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_values(self):
        x = torch.randn(ROWS, COLUMNS)
        for function in (squares_over_rows, sum_and_its_copies, written_after_it_was_read, without_the_dimension,
                         into_a_tensor_of_the_caller, normalised):
            compiled = torch.compile(function, fullgraph=True)
            with self.subTest(function=function.__name__):
                # From the second call on all operators are recorded.
                for _ in range(3):
                    self.assert_equal(compiled(x), function(x))

    def test_gradients(self):
        x, weight = torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)

        def gradients(function):
            leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
            (function(leaves[0]) * leaves[1]).square().mean().backward()
            return tuple(leaf.grad for leaf in leaves)

        compiled = torch.compile(gradients, fullgraph=True)
        for _ in range(3):
            self.assert_equal(compiled(normalised), gradients(normalised))


if __name__ == "__main__":
    unittest.main()
