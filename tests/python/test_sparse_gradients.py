"""Gradients in coordinate format: of embeddings, summed by the engine, used by optimizers."""

import unittest

from module_under_test import torch

F = torch.nn.functional
T = torch.tensor


def table(**options):
    layer = torch.nn.Embedding(6, 2, sparse=True, **options)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(12.0).view(6, 2))
    return layer


class Embeddings(unittest.TestCase):
    def check(self, grad, rows, values):
        self.assertTrue(grad.is_sparse)
        self.assertEqual((grad.layout, tuple(grad.shape)), (torch.sparse_coo, (6, 2)))
        self.assertEqual((grad._indices().tolist(), grad._values().tolist()), ([rows], values))

    def test_entries(self):
        """One for each index, in order, whether they differ or not."""
        layer = table()
        layer(T([[3, 1], [3, 0]])).pow(2).sum().backward()
        grad = layer.weight.grad
        self.check(grad, [3, 1, 3, 0], [[12, 14], [4, 6], [12, 14], [0, 2]])
        self.assertFalse(grad.is_coalesced())
        self.check(grad.coalesce(), [0, 1, 3], [[0, 2], [4, 6], [24, 28]])
        layer = table(padding_idx=1)
        layer(T([1, 2, 1], dtype=torch.int32)).sum().backward()
        self.check(layer.weight.grad, [2], [[1, 1]])
        layer = table(scale_grad_by_freq=True)
        with self.assertRaisesRegex(RuntimeError, "scale_grad_by_freq not supported with sparse"):
            layer(T([1])).sum().backward()

    def test_function(self):
        weight = torch.ones(6, 2, dtype=torch.float64, requires_grad=True)
        (grad,) = torch.autograd.grad(torch.embedding(weight, T([4]), -1, False, True).sum(), weight)
        self.check(grad, [4], [[1, 1]])
        self.assertIn("size=(6, 2), nnz=1, dtype=torch.float64, layout=torch.sparse_coo)", repr(grad))
        F.embedding(T([], dtype=torch.int64), weight, sparse=True).sum().backward()
        self.check(weight.grad, [], [])

    def test_sums(self):
        layer = table()
        (layer(T([1])).sum() + 2 * layer(T([1, 2])).sum()).backward()
        self.assertEqual(layer.weight.grad._nnz(), 3)
        layer(T([5])).sum().backward()
        self.check(layer.weight.grad.coalesce(), [1, 2, 5], [[3, 3], [2, 2], [1, 1]])
        (layer.weight.sum() + layer(T([0])).sum()).backward()
        self.assertEqual(layer.weight.grad.layout, torch.strided)
        self.assertEqual(layer.weight.grad[:, 0].tolist(), [2, 4, 3, 1, 1, 2])
        layer(T([4])).sum().backward()
        self.assertEqual(layer.weight.grad[:, 1].tolist(), [2, 4, 3, 1, 2, 2])

    def test_hooks(self):
        layer, seen = table(), []
        layer.weight.register_hook(lambda grad: seen.append(grad.is_sparse) or grad * 3)
        layer(T([2])).sum().backward()
        self.assertEqual(seen, [True])
        self.check(layer.weight.grad, [2], [[3, 3]])
        norm = torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        self.assertAlmostEqual(norm.item(), 18**0.5, places=5)
        self.assertAlmostEqual(layer.weight.grad._values()[0, 0].item(), 0.5**0.5, places=5)
        layer.zero_grad(set_to_none=False)
        self.check(layer.weight.grad, [], [])
        with self.assertRaisesRegex(RuntimeError, "Use add\\(dense, sparse\\) instead"):
            layer.weight.grad + layer.weight

    def test_bags(self):
        cases = {
            "sum": [[1, 1], [1, 1], [2, 2], [2, 2]],
            "mean": [[0.5, 0.5], [0.5, 0.5], [1, 1], [1, 1]],
        }
        for mode, values in cases.items():
            bag = torch.nn.EmbeddingBag(6, 2, mode=mode, sparse=True)
            out = bag(T([1, 3, 1, 4]), T([0, 2]))
            (out * T([[1.0], [2.0]])).sum().backward()
            self.check(bag.weight.grad, [1, 3, 1, 4], values)
        weights = T([1.0, 2.0, 3.0], requires_grad=True)
        bag = torch.nn.EmbeddingBag(6, 2, mode="sum", sparse=True, padding_idx=3)
        bag(T([1, 3, 1]), T([0, 2]), weights).sum().backward()
        self.check(bag.weight.grad, [1, 1], [[1, 1], [3, 3]])
        self.assertEqual(weights.grad.shape, (3,))


class Optimizers(unittest.TestCase):
    def rows(self, make):
        """What two steps make of the rows 0, 1 and 2, of which the last has no gradient."""
        layer = table()
        optimizer = make(layer.parameters())
        for rows in ([0, 0, 1], [1]):
            optimizer.zero_grad()
            layer(T(rows)).sum().backward()
            optimizer.step()
        return [[round(x, 4) for x in row] for row in layer.weight[:3].tolist()]

    def test_steps(self):
        cases = (
            (lambda p: torch.optim.SGD(p, 0.5), [[-1, 0], [1, 2], [4, 5]]),
            (lambda p: torch.optim.SGD(p, 0.5, momentum=0.5), [[-1.5, -0.5], [0.75, 1.75], [4, 5]]),
            (lambda p: torch.optim.Adagrad(p, 0.5), [[-0.5, 0.5], [1.1464, 2.1464], [4, 5]]),
            (lambda p: torch.optim.SparseAdam(p, 0.5), [[-0.5, 0.5], [1.0, 2.0], [4, 5]]),
        )
        for make, expected in cases:
            self.assertEqual(self.rows(make), expected)

    def test_refusals(self):
        cases = (
            (lambda p: torch.optim.Adam(p), "please consider SparseAdam instead"),
            (lambda p: torch.optim.AdamW(p), "Adam does not support sparse gradients"),
            (lambda p: torch.optim.RMSprop(p), "RMSprop does not support sparse gradients"),
            (lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1), "add\\(sparse, dense\\)"),
        )
        for make, message in cases:
            with self.assertRaisesRegex(RuntimeError, message):
                self.rows(make)


if __name__ == "__main__":
    unittest.main()
