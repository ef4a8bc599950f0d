"""Masked tensors: operators, reductions, layouts, gradients, what is refused."""

import copy
import importlib
import io
import unittest
import warnings

from module_under_test import torch

masked = importlib.import_module(f"{torch.__name__}.masked")
masked_tensor = masked.masked_tensor

MASK = torch.tensor([[True, False, True], [False, True, False]])
NAN = float("nan")


def sample(**options):
    return masked_tensor(torch.tensor([[1.0, 2, 3], [4, 5, 6]]), MASK, **options)


def shown(x):
    """The elements, with None for those that do not count."""
    if x.is_sparse:
        x = x.to_dense()
    data, mask = x.get_data().flatten().tolist(), x.get_mask().flatten().tolist()
    return [round(value, 4) if keep else None for value, keep in zip(data, mask)]


class MaskedTensors(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        self.x = sample()

    def test_parts(self):
        x = self.x
        self.assertTrue(masked.is_masked_tensor(x) and isinstance(x, torch.Tensor))
        self.assertFalse(masked.is_masked_tensor(x.get_data()))
        self.assertIs(type(x.get_data()), torch.Tensor)
        self.assertEqual(x.get_data().tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(x.get_mask().tolist(), MASK.tolist())
        self.assertEqual(x.to_tensor(-1).tolist(), [[1, -1, 3], [-1, 5, -1]])
        self.assertEqual((x.shape, x.dtype, x.dim(), x.numel(), len(x), x.stride()),
                         (torch.Size([2, 3]), torch.float32, 2, 6, 2, (3, 1)))
        self.assertFalse(x.is_sparse or x.is_sparse_coo() or x.is_sparse_csr())
        self.assertEqual(shown(copy.deepcopy(x)), shown(x))

    def test_printing(self):
        self.assertEqual(
            repr(self.x),
            "MaskedTensor(\n  [\n    [  1.0000,       --,   3.0000],\n"
            "    [      --,   5.0000,       --]\n  ]\n)",
        )
        self.assertEqual(repr(self.x.int()[0]), "MaskedTensor(\n  [1,       --, 3]\n)")
        self.assertEqual(repr(self.x.sum()), "MaskedTensor(  9.0000, True)")
        self.assertEqual(repr(self.x[0, 1]), "MaskedTensor(--, False)")

    def test_unary(self):
        for name in ("neg", "exp", "sqrt", "square", "sin", "round", "sigmoid", "abs", "trunc"):
            found = getattr(self.x, name)()
            self.assertEqual(shown(found), shown(masked_tensor(
                getattr(self.x.get_data(), name)(), MASK)), name)
        self.assertEqual(shown(torch.clamp(self.x, 2, 4)), [2, None, 3, None, 4, None])
        self.assertEqual(shown(self.x.clamp(max=2)), [1, None, 2, None, 2, None])
        self.assertEqual(shown(self.x ** 2), [1, None, 9, None, 25, None])
        self.assertEqual(shown(abs(-self.x)), shown(self.x))
        again = self.x.neg_()
        self.assertIs(again, self.x)
        self.assertEqual(shown(self.x), [-1, None, -3, None, -5, None])

    def test_binary(self):
        x, ones = self.x, torch.ones(2, 3)
        self.assertEqual(shown(x + x), [2, None, 6, None, 10, None])
        self.assertEqual(shown(x * 2), shown(2 * x))
        self.assertEqual(shown(x - ones), shown(x - 1))
        self.assertEqual(shown(ones + x), shown(x + 1))
        self.assertEqual(shown(x + torch.ones(3)), shown(x + 1))
        self.assertEqual(shown(1 / x), [1, None, 0.3333, None, 0.2, None])
        self.assertEqual(shown(x < 3), [True, None, False, None, False, None])
        self.assertEqual(shown(x.eq(3)), [False, None, True, None, False, None])
        self.assertEqual(shown(torch.maximum(x, ones * 2)), [2, None, 3, None, 5, None])
        row = masked_tensor(torch.ones(3), MASK[0]) + x.get_data()
        self.assertEqual(shown(row), [2, None, 4, 5, None, 7])
        x += 1
        self.assertEqual(shown(x), [2, None, 4, None, 6, None])

    def test_moves(self):
        x = self.x
        self.assertEqual(shown(x[0]), [1, None, 3])
        self.assertEqual(shown(x[:, [0, 2]]), [1, 3, None, None])
        self.assertEqual(shown(x[MASK]), [1, 3, 5])
        self.assertEqual(shown(x.t()), [1, None, None, 5, 3, None])
        self.assertEqual(shown(x.transpose(0, 1).contiguous()), [1, None, None, 5, 3, None])
        self.assertEqual(x.reshape(3, 2).shape, (3, 2))
        self.assertEqual(shown(x.view(6)), shown(x))
        self.assertEqual([shown(part) for part in x.split(1)], [[1, None, 3], [None, 5, None]])
        self.assertEqual([shown(part) for part in x.chunk(2, 1)], [[1, None, None, 5], [3, None]])
        self.assertEqual(torch.cat([x, x], 1).shape, (2, 6))
        self.assertEqual(shown(torch.stack([x[0], x[1]], 1)), [1, None, None, 5, 3, None])
        self.assertEqual(x.unsqueeze(0).expand(2, 2, 3).shape, (2, 2, 3))
        x[0].neg_()
        self.assertEqual(shown(x), [1, None, 3, None, 5, None])

    def test_reductions(self):
        for name, expected in (
            ("sum", [4, 5]), ("mean", [2, 5]), ("prod", [3, 5]), ("amax", [3, 5]), ("amin", [1, 5]),
            ("argmax", [2, 1]), ("argmin", [0, 1]), ("all", [1, 1]),
        ):
            found = getattr(self.x, name)(1)
            self.assertEqual(shown(found), expected, name)
        for name, expected in (("sum", 9), ("mean", 3), ("prod", 15), ("amax", 5), ("amin", 1),
                               ("var", 4), ("std", 2), ("argmax", 4)):
            found = getattr(self.x, name)()
            self.assertEqual((found.item(), found.get_mask().item()), (expected, True), name)
        self.assertEqual(self.x.sum(dim=1, keepdim=True).shape, (2, 1))
        self.assertEqual(torch.sum(self.x, (0, 1)).item(), 9)
        empty = masked_tensor(torch.ones(2, 2), torch.tensor([[False, False], [True, False]]))
        self.assertEqual(shown(empty.sum(1)), [None, 1])
        self.assertIs(type(masked.sum(self.x, 1)), torch.Tensor)
        self.assertEqual(masked.amax(self.x, 1).tolist(), [3, 5])

    def test_choices(self):
        x = torch.where(MASK, self.x, masked_tensor(torch.zeros(2, 3), ~MASK))
        self.assertEqual(shown(x), [1, 0, 3, 0, 5, 0])
        x = torch.where(torch.tensor([True, False, False]), self.x, torch.zeros(2, 3))
        self.assertEqual(shown(x), [1, 0, 0, None, 0, 0])
        self.assertEqual(shown(torch.softmax(self.x, 1)), [0.1192, None, 0.8808, None, 1, None])
        self.assertEqual(self.x.double().dtype, torch.float64)
        self.assertEqual(shown(torch.ones_like(self.x)), [1, None, 1, None, 1, None])
        self.x.copy_(self.x * 2)
        self.assertEqual(shown(self.x), [2, None, 6, None, 10, None])
        self.assertEqual(float(self.x[0, 0]), 2)

    def test_gradients(self):
        for function, expected in (
            (lambda x: x.sum(), [1, 1, 1]), (lambda x: (x.exp() * 2).sum(), [5.4366, 40.1711, 296.8263]),
            (lambda x: x.mean(1).sum(), [0.5, 0.5, 1]), (lambda x: x.prod(), [15, 5, 3]),
            (lambda x: x.amax(), [0, 0, 1]), (lambda x: x.std(), [-0.5, 0, 0.5]),
            (lambda x: x.get_data().sum(), [1, 1, 1]), (lambda x: (x.t() * 3).to_tensor(9).sum(), [3, 3, 3]),
            (lambda x: (x - x.detach()).square().sum(), [0, 0, 0]),
        ):
            x = sample(requires_grad=True)
            function(x).backward()
            self.assertTrue(masked.is_masked_tensor(x.grad))
            self.assertEqual(shown(x.grad), [expected[0], None, expected[1], None, expected[2], None])
        x = sample(requires_grad=True)
        (grad,) = torch.autograd.grad(x.square(), x, torch.ones(2, 3))
        self.assertEqual(shown(grad), [2, None, 6, None, 10, None])
        self.assertTrue(x.is_leaf and x.requires_grad and not x.square().is_leaf)
        x.grad = None
        torch.autograd.backward(x.sum())
        self.assertEqual(shown(x.grad), [1, None, 1, None, 1, None])

    def test_what_does_not_count_spoils_no_gradient(self):
        x = masked_tensor(torch.tensor([-1.0, 2]), torch.tensor([False, True]), requires_grad=True)
        x.log().sum().backward()
        self.assertEqual(shown(x.grad), [None, 0.5])
        x = torch.tensor([-1.0, 2], requires_grad=True)
        masked.as_masked_tensor(x, torch.tensor([False, True])).log().sum().backward()
        self.assertEqual(x.grad[1].item(), 0.5)
        # The usual example: each branch has its own gradients.
        x = torch.tensor([-10.0, 1000], requires_grad=True)
        low = masked_tensor(x, x < 0, requires_grad=True)
        high = masked_tensor(torch.ones(2), x >= 0, requires_grad=True)
        torch.where(x < 0, low.exp(), high).sum().backward()
        self.assertEqual((shown(low.grad), shown(high.grad)), ([0, None], [None, 1]))

    def test_files(self):
        for x in (self.x, sample(requires_grad=True)):
            file = io.BytesIO()
            torch.save([x], file)
            file.seek(0)
            (found,) = torch.load(file, weights_only=False)
            self.assertEqual((shown(found), found.requires_grad), (shown(x), x.requires_grad))
            self.assertTrue(masked.is_masked_tensor(found))

    def test_sparse_layouts(self):
        data = torch.tensor([[1.0, 0, 3], [0, 5, 0]])
        coo = masked_tensor(data.to_sparse(), MASK.to_sparse())
        csr = masked_tensor(data.to_sparse_csr(), MASK.to_sparse_csr())
        self.assertTrue(coo.is_sparse_coo() and csr.is_sparse_csr() and csr.is_sparse)
        for x in (coo, csr, self.x.to_sparse(), self.x.to_sparse_csr()):
            self.assertEqual(shown(x), [1, None, 3, None, 5, None])
            self.assertEqual(shown(x.exp()), [2.7183, None, 20.0855, None, 148.4132, None])
            self.assertEqual(shown(x + x), shown(self.x * 2))
            self.assertEqual(shown(x * 2), shown(self.x * 2))
            self.assertEqual((x.sum().item(), x.mean().item()), (9, 3))
            self.assertEqual(repr(x), repr(self.x))
        with self.assertRaises(TypeError):
            masked_tensor(data.to_sparse(), MASK)
        with self.assertRaises(TypeError):
            coo.sum(1)
        zero = masked_tensor(torch.zeros(2, 3), MASK).to_sparse()
        self.assertEqual(shown(zero), [0, None, 0, None, 0, None])

    def test_refusals(self):
        data = torch.ones(2, 3)
        for arguments, error in (
            (([1], MASK), TypeError), ((data, [True]), TypeError), ((data, MASK.int()), TypeError),
            ((data, MASK[0]), ValueError), ((data, MASK[:, :2]), ValueError),
            ((data.bfloat16(), MASK), TypeError), ((self.x, MASK), TypeError),
        ):
            with self.assertRaises(error):
                masked_tensor(*arguments)
        with self.assertRaisesRegex(ValueError, "Input masks must match"):
            self.x + masked_tensor(data, ~MASK)
        with self.assertRaisesRegex(ValueError, r"len\(kwargs\) must equal 0"):
            torch.add(self.x, self.x, alpha=2)
        with self.assertRaisesRegex(TypeError, "additional Tensor arguments"):
            self.x.pow(self.x)
        with self.assertRaisesRegex(ValueError, "expected a mask tensor"):
            self.x[0, 1].item()
        for refused in ("relu", "median", "cumsum", "squeeze", "unbind"):
            with self.assertRaises(TypeError):
                getattr(self.x, refused)(*([0] if refused == "cumsum" else []))
        with self.assertRaises(TypeError):
            self.x @ self.x.t()
        with self.assertRaises(RuntimeError):
            self.x.numpy()


if __name__ == "__main__":
    unittest.main()
