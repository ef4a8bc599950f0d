"""Reductions of rows in compiled functions whose results are read through expanded views, as derivatives read them."""

import random
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


def random_program(seed):
    """A few operators on matrices and on results of their rows, some of which are written in place."""
    choices = random.Random(seed)
    plan = [(choices.randrange(14), choices.randrange(99), choices.randrange(99)) for _ in range(choices.randint(3, 9))]

    def program(a, b):
        matrices, rows = [a * 1, b * 1], [a.sum(-1, keepdim=True)]
        for operator, i, j in plan:
            x, y = matrices[i % len(matrices)], matrices[j % len(matrices)]
            r, q = rows[i % len(rows)], rows[j % len(rows)]
            match operator:
                case 0: matrices.append(x + y)
                case 1: matrices.append(x * 0.5)
                case 2: matrices.append(x * r)
                case 3: matrices.append(r.expand(ROWS, COLUMNS) / COLUMNS)
                case 4: matrices.append(r.squeeze(-1).unsqueeze(-1).expand(ROWS, COLUMNS) - x)
                case 5: rows.append(x.sum(-1, keepdim=True))
                case 6: rows.append(x.mean(-1).unsqueeze(1))
                case 7: rows.append(x.amax(-1, keepdim=True))
                case 8: r.add_(1)
                case 9: x.mul_(0.5)
                case 10: rows.append(r * q)
                case 11: x.sub_(r.expand(ROWS, COLUMNS))
                case 12: r.copy_(q)
                case 13: matrices.append(torch.where(x > r, x, r.expand_as(x)))
        return tuple(matrices[-2:] + rows[-2:])

    return program


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

    def test_random_programs(self):
        a, b = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
        for seed in range(60):
            program = random_program(seed)
            compiled = torch.compile(program, fullgraph=True)
            with self.subTest(seed=seed):
                for _ in range(2):
                    self.assert_equal(compiled(a, b), program(a, b))

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
