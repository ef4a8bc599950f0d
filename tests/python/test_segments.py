"""Bags of rows and segments of slices: values, gradients, refusals."""

import math
import unittest

from module_under_test import torch

F = torch.nn.functional
TABLE = [[0.0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
INDICES, OFFSETS = [1, 2, 1, 3, 0], [0, 2, 2]


def bag(mode, **options):
    table = torch.tensor(TABLE, requires_grad=True)
    offsets = OFFSETS + [5] * options.get("include_last_offset", False)
    bags = F.embedding_bag(
        torch.tensor(INDICES), table, torch.tensor(offsets), mode=mode, **options
    )
    (grad,) = torch.autograd.grad(bags, table, torch.tensor([[1.0], [2], [3]]).expand(3, 3))
    return bags.tolist(), grad[:, 0].tolist()


class Bags(unittest.TestCase):
    def test_modes(self):
        zero = [0.0, 0, 0]
        self.assertEqual(bag("sum"), ([[9, 11, 13], zero, [12, 15, 18]], [3, 4, 1, 3]))
        self.assertEqual(bag("mean"), ([[4.5, 5.5, 6.5], zero, [4, 5, 6]], [1, 1.5, 0.5, 1]))
        self.assertEqual(bag("max"), ([[6, 7, 8], zero, [9, 10, 11]], [0, 0, 1, 3]))
        self.assertEqual(bag("mean"), bag("mean", include_last_offset=True))

    def test_padding_and_frequency(self):
        values, grad = bag("sum", padding_idx=1)
        self.assertEqual(values[0] + values[2], [6, 7, 8, 9, 11, 13])
        self.assertEqual(grad, [3, 0, 1, 3])
        self.assertEqual(bag("mean", padding_idx=-3)[1], [1.5, 0, 1, 1.5])
        self.assertEqual(bag("sum", scale_grad_by_freq=True)[1], [3, 2, 1, 3])

    def test_weights(self):
        table, weights = torch.tensor(TABLE), torch.tensor([0.5, 1, 2, 0, 1], requires_grad=True)
        bags = F.embedding_bag(
            torch.tensor(INDICES), table, torch.tensor(OFFSETS), mode="sum",
            per_sample_weights=weights,
        )
        self.assertEqual(bags.tolist(), [[7.5, 9, 10.5], [0, 0, 0], [6, 9, 12]])
        (grad,) = torch.autograd.grad(bags.sum(), weights)
        self.assertEqual(grad.tolist(), [12, 21, 12, 30, 3])

    def test_record(self):
        table, indices = torch.tensor(TABLE), torch.tensor(INDICES)
        found = torch.ops.aten._embedding_bag(table, indices, torch.tensor(OFFSETS), False, 0)
        self.assertEqual([x.tolist() for x in found[1:]], [[], [0, 0, 0], [0, 0, 0]])
        found = torch.ops.aten._embedding_bag(table.double(), indices, torch.tensor(OFFSETS), False, 2)
        self.assertEqual(found[1].tolist(), [0, 0, 2, 2, 2])
        self.assertEqual(found[2].tolist(), [2, 0, 3])
        self.assertEqual(found[3].tolist(), [[2, 2, 2], [0, 0, 0], [3, 3, 3]])

    def test_module(self):
        module = torch.nn.EmbeddingBag(4, 3, mode="sum", _weight=torch.tensor(TABLE))
        bags = module(torch.tensor([[1, 2], [3, 0]]))
        self.assertEqual(bags.tolist(), [[9, 11, 13], [9, 11, 13]])
        bags.sum().backward()
        self.assertEqual(module.weight.grad[:, 1].tolist(), [1, 1, 1, 1])

    def test_refusals(self):
        table, indices = torch.tensor(TABLE), torch.tensor(INDICES)
        for arguments, words in (
            ((table, indices, torch.tensor([1, 2])), "offsets\\[0\\] has to be 0"),
            ((table, indices, torch.tensor([0, 9])), "can not be greater than input's length 5"),
            ((table, torch.tensor([7]), torch.tensor([0])), "which is not in the valid range"),
            ((table[0], indices, torch.tensor([0])), "weight has to be a 2D Tensor"),
            ((table.long(), indices, torch.tensor([0])), "argument #1 'weight'"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                torch.ops.aten.embedding_bag(*arguments)

    def test_no_second_derivative(self):
        table = torch.tensor(TABLE, requires_grad=True)
        grad_output = torch.ones(3, 3, requires_grad=True)
        bags = F.embedding_bag(torch.tensor(INDICES), table, torch.tensor(OFFSETS), mode="sum")
        (grad,) = torch.autograd.grad(bags, table, grad_output, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "_embedding_bag_backward' is not implemented"):
            grad.sum().backward()


class Segments(unittest.TestCase):
    DATA = [2.0, 3, 0, 4, 0, 0, math.nan, 1, 1]

    def reduced(self, reduce, **options):
        data = torch.tensor(self.DATA, requires_grad=True)
        out = torch.segment_reduce(data, reduce, lengths=torch.tensor([3, 3, 1, 2]), **options)
        (grad,) = torch.autograd.grad(out, data, torch.tensor([1.0, 2, 3, 4]))
        self.assertTrue(math.isnan(out[2].item()))
        return [out[place].item() for place in (0, 1, 3)], grad.tolist()

    def test_reductions(self):
        self.assertEqual(self.reduced("sum"), ([5, 4, 2], [1, 1, 1, 2, 2, 2, 3, 4, 4]))
        self.assertEqual(self.reduced("max"), ([3, 4, 1], [0, 1, 0, 2, 0, 0, 3, 2, 2]))
        self.assertEqual(self.reduced("min"), ([0, 0, 1], [0, 0, 1, 0, 1, 1, 3, 2, 2]))
        self.assertEqual(self.reduced("prod"), ([0, 0, 1], [0, 0, 6, 0, 0, 0, 3, 4, 4]))
        self.assertEqual(
            self.reduced("prod", initial=2), ([0, 0, 2], [0, 0, 12, 0, 0, 0, 6, 8, 8])
        )
        self.assertEqual(self.reduced("max", initial=2)[1], [0, 1, 0, 2, 0, 0, 3, 0, 0])

    def test_empty_segments(self):
        data, offsets = torch.ones(3), torch.tensor([0, 0, 3])
        first = [torch.segment_reduce(data, reduce, offsets=offsets)[0].item()
                 for reduce in ("sum", "prod", "max", "min")]
        self.assertEqual(first, [0, 1, -math.inf, math.inf])
        self.assertTrue(torch.segment_reduce(data, "mean", offsets=offsets)[0].isnan())

    def test_refusals(self):
        data = torch.ones(5)
        for options, words in (
            ({}, "Either lengths or offsets must be defined"),
            ({"lengths": torch.tensor([2, -1, 4])}, "lengths contains negative value!"),
            ({"lengths": torch.tensor([2, 2])}, "Expected all rows of lengths"),
            ({"lengths": torch.tensor([5]), "indices": torch.tensor([0])}, "not supported yet"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                torch.segment_reduce(data, "sum", **options)


if __name__ == "__main__":
    unittest.main()
