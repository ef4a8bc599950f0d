"""Sparse tensors in coordinate format."""

import importlib
import unittest

from module_under_test import torch

T = torch.tensor


class Coordinates(unittest.TestCase):
    def setUp(self):
        self.dense = T([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
        self.sparse = self.dense.to_sparse()

    def test_what_it_is(self):
        s = self.sparse
        self.assertTrue(s.is_sparse and isinstance(s, torch.Tensor))
        self.assertEqual((s.layout, s._nnz(), tuple(s.shape)), (torch.sparse_coo, 3, (2, 3)))
        self.assertEqual(s.indices().tolist(), [[0, 1, 1], [1, 0, 2]])
        self.assertEqual(s.values().tolist(), [2, 1, 3])
        self.assertIn("size=(2, 3), nnz=3, layout=torch.sparse_coo)", repr(s))

    def test_products(self):
        right = torch.arange(6.0).reshape(3, 2)
        expected = (self.dense @ right).tolist()
        for multiply in (torch.mm, torch.spmm, torch.sparse.mm, lambda a, b: a @ b):
            self.assertEqual(multiply(self.sparse, right).tolist(), expected)
        self.assertEqual((self.sparse @ torch.ones(3)).tolist(), [2, 4])
        self.assertEqual(self.sparse.t().to_dense().tolist(), self.dense.t().tolist())
        self.assertEqual((self.sparse * 2 + self.sparse).to_dense().tolist(), (self.dense * 3).tolist())

    def test_repeated_places_add_up(self):
        places = T([[0, 0, 1], [1, 1, 0]])
        u = torch.sparse_coo_tensor(places, T([1.0, 2.0, 3.0]), (2, 2))
        self.assertEqual(u.to_dense().tolist(), [[0, 3], [3, 0]])
        with self.assertRaisesRegex(RuntimeError, "call .coalesce"):
            u.indices()
        self.assertEqual(u.coalesce().values().tolist(), [3, 3])

    def test_gradients(self):
        weight = torch.ones(3, 2, requires_grad=True)
        torch.mm(self.sparse, weight).sum().backward()
        self.assertEqual(weight.grad.tolist(), [[1, 1], [2, 2], [3, 3]])
        values = T([1.0, 2.0, 3.0], requires_grad=True)
        x = torch.sparse_coo_tensor(T([[0, 0, 1], [1, 1, 0]]), values, (2, 2))
        torch.sparse.mm(x, torch.eye(2)).sum().backward()
        self.assertEqual(values.grad.tolist(), [1, 1, 1])


class InPlace(unittest.TestCase):
    def setUp(self):
        self.sparse = torch.sparse_coo_tensor(T([[0, 1, 1], [1, 0, 0]]), torch.ones(3), (2, 3))

    def test_sums(self):
        dense = torch.arange(6.0).view(2, 3)
        dense.add_(self.sparse, alpha=2)
        self.assertEqual(dense.tolist(), [[0, 3, 2], [7, 4, 5]])
        dense -= self.sparse
        self.assertEqual(dense.tolist(), [[0, 2, 2], [5, 4, 5]])
        with self.assertRaises(RuntimeError):
            self.sparse.add_(dense)
        self.assertEqual(self.sparse.add_(self.sparse).to_dense().tolist(), [[0, 2, 0], [4, 0, 0]])
        self.assertEqual(self.sparse.zero_().to_dense().sum().item(), 0)
        number = T(1.0)
        number.add_(T(2.0).to_sparse())
        self.assertEqual(number.item(), 3)

    def test_entries(self):
        one = self.sparse.coalesce()
        self.assertEqual(one.pow(2).values().tolist(), [1, 4])
        self.assertEqual(one.sqrt().mul(one.sqrt().norm()).values()[0].item(), T(3.0).sqrt().item())
        self.assertEqual(torch.arange(6.0).view(2, 3).sparse_mask(one).values().tolist(), [1, 3])
        with self.assertRaises(RuntimeError):
            torch.ones(3).sparse_mask(one)

    def test_gradients_may_be_sparse(self):
        weight = torch.ones(2, 3, requires_grad=True)
        weight.grad = self.sparse
        self.assertIs(weight.grad, self.sparse)
        self.assertEqual((weight.grad.is_sparse, weight.grad.layout), (True, torch.sparse_coo))
        with self.assertRaisesRegex(RuntimeError, "attempting to assign a gradient with device"):
            weight.grad = torch.ones(2, 3, device="meta")

    def test_sparse_adam(self):
        """Only rows with a gradient move, and only their means."""
        weight = torch.nn.Parameter(torch.zeros(3, 2))
        optimizer = torch.optim.SparseAdam([weight], lr=0.1)
        for row in (0, 0, 1):
            optimizer.zero_grad()
            weight.grad = torch.sparse_coo_tensor(T([[row]]), T([[1.0, -2.0]]), (3, 2))
            optimizer.step()
        moved = [[round(x, 4) for x in row] for row in weight.detach().tolist()]
        self.assertEqual(moved, [[-0.2, 0.2], [-0.0639, 0.0639], [0, 0]])
        state = optimizer.state_dict()["state"][0]
        self.assertEqual((state["step"], state["exp_avg"][2].tolist()), (3, [0, 0]))
        weight.grad = torch.ones(3, 2)
        with self.assertRaisesRegex(RuntimeError, "SparseAdam does not support dense gradients"):
            optimizer.step()


class Operators(unittest.TestCase):
    """Against the same operators of dense tensors."""

    def setUp(self):
        self.sparse = torch.sparse_coo_tensor(T([[0, 1, 1, 1], [2, 0, 2, 0]]), T([3.0, 4.0, 5.0, 1.0]), (2, 3))
        self.dense = self.sparse.to_dense()

    def check(self, got, expected):
        self.assertTrue(got.is_sparse)
        self.assertEqual(got.to_dense().tolist(), expected.tolist())

    def test_products_of_elements(self):
        s, d = self.sparse, self.dense
        other = torch.sparse_coo_tensor(T([[0, 1, 0], [2, 1, 0]]), T([2.0, 7.0, 8.0]), (2, 3))
        self.check(s * other, d * other.to_dense())
        self.check(s.coalesce() * (d + 1), d * (d + 1))
        self.check(s * 3, d * 3)
        self.check(torch.mul(s, torch.zeros_like(s)), d * 0)
        with self.assertRaises(RuntimeError):
            s * torch.sparse_coo_tensor(T([[0], [0]]), T([1.0]), (2, 2))

    def test_joining(self):
        s, d = self.sparse, self.dense
        for dim in (0, 1, -1):
            self.check(torch.cat([s, s], dim), torch.cat([d, d], dim))
        for dim in (0, 1, -1):
            self.check(torch.stack([s, s * 2], dim), torch.stack([d, d * 2], dim))
            self.check(s.unsqueeze(dim), d.unsqueeze(dim))
        with self.assertRaises((RuntimeError, IndexError)):
            torch.cat([s, s], 2)
        with self.assertRaises(RuntimeError):
            torch.cat([s, s.t()], 0)

    def test_choosing(self):
        s, d = self.sparse, self.dense
        self.check(s[1], d[1])
        self.check(s[-2], d[0])
        self.assertEqual(s[1, 2].item(), 5)
        for index in ([1, 0, 1], [], [0]):
            index = T(index, dtype=torch.int64)
            self.check(s.index_select(0, index), d.index_select(0, index))
        self.check(s.index_select(1, T([2, 2, 0, 1])), d.index_select(1, T([2, 2, 0, 1])))
        with self.assertRaises(IndexError):
            s[2]
        hybrid = torch.sparse_coo_tensor(T([[0, 2]]), T([[1.0, 2.0], [3.0, 4.0]]), (3, 2))
        self.check(hybrid.index_select(1, T([1])), hybrid.to_dense()[:, 1:])
        self.assertEqual(hybrid[2].tolist(), [3, 4])
        self.check(hybrid.unsqueeze(2), hybrid.to_dense().unsqueeze(2))

    def test_products_of_matrices(self):
        s, d = self.sparse, self.dense
        right, start = torch.arange(6.0).view(3, 2), torch.ones(2, 2)
        got = torch.addmm(start, s, right, beta=2, alpha=3)
        self.assertEqual(got.tolist(), torch.addmm(start, d, right, beta=2, alpha=3).tolist())
        batch = torch.stack([s, s * 2])
        rights = torch.stack([right, right + 1])
        self.assertEqual(torch.bmm(batch, rights).tolist(), torch.bmm(batch.to_dense(), rights).tolist())

    def test_softmax(self):
        masked = self.dense.masked_fill(self.dense == 0, -float("inf"))
        for dim in (0, 1):
            expected = torch.softmax(masked, dim).nan_to_num(0)
            got = torch.sparse.softmax(self.sparse, dim).to_dense()
            self.assertTrue(torch.allclose(got, expected))
            logs = torch.sparse.log_softmax(self.sparse, dim).coalesce()
            self.assertTrue(torch.allclose(logs.values().exp(), expected[tuple(logs.indices())]))
        self.assertEqual(torch.sparse.softmax(self.sparse, 1, dtype=torch.float64).dtype, torch.float64)

    def test_gradients(self):
        values = T([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
        weight = torch.arange(6.0, dtype=torch.float64).view(2, 3)

        def loss(v, softmax):
            x = torch.sparse_coo_tensor(T([[0, 1, 1], [2, 0, 2]]), v, (2, 3))
            return (softmax(x) * weight).sum()

        (got,) = torch.autograd.grad(loss(values, lambda x: torch.sparse.softmax(x, 1).to_dense()), [values])
        dense = lambda x: torch.softmax(torch.where(weight.new_tensor(  # noqa: E731
            [[0, 0, 1], [1, 0, 1]]) > 0, x.to_dense(), -float("inf")), 1)
        (expected,) = torch.autograd.grad(loss(values, dense), [values])
        self.assertTrue(torch.allclose(got, expected))

    def test_old_classes(self):
        places, values = T([[0, 1], [2, 0]]), T([3.0, 4.0])
        x = torch.sparse.FloatTensor(places, values, torch.Size([2, 3]))
        self.assertEqual(x.to_dense().tolist(), [[0, 0, 3], [4, 0, 0]])
        self.assertIsInstance(x, torch.sparse.FloatTensor)
        self.assertNotIsInstance(x, torch.sparse.DoubleTensor)
        self.assertNotIsInstance(values, torch.sparse.FloatTensor)
        self.assertEqual(torch.sparse.DoubleTensor(2, 3).dtype, torch.float64)

    def test_settings(self):
        setting = torch.sparse.check_sparse_tensor_invariants
        self.assertFalse(setting.is_enabled())
        with setting():
            self.assertTrue(setting.is_enabled())
        self.assertFalse(setting.is_enabled())
        with self.assertRaisesRegex(TypeError, "can't convert Sparse layout tensor to numpy"):
            self.sparse.numpy()
        self.check(self.dense.to_sparse_coo(), self.dense)


class Pruning(unittest.TestCase):
    def test_masks(self):
        prune = importlib.import_module(f"{torch.__name__}.nn.utils.prune")
        layer = torch.nn.Linear(3, 2)
        with torch.no_grad():
            layer.weight.copy_(T([[1.0, -4.0, 2.0], [0.5, 3.0, -6.0]]))
        prune.l1_unstructured(layer, "weight", 2)
        self.assertEqual(layer.weight_mask.tolist(), [[0, 1, 1], [0, 1, 1]])
        prune.ln_structured(layer, "weight", 1, n=2, dim=0)
        self.assertEqual(layer.weight_mask.tolist(), [[0, 0, 0], [0, 1, 1]])
        self.assertEqual(sorted(layer.state_dict()), ["bias", "weight_mask", "weight_orig"])
        layer(torch.ones(1, 3)).sum().backward()
        self.assertEqual(layer.weight_orig.grad.tolist(), [[0, 0, 0], [0, 1, 1]])
        self.assertTrue(prune.is_pruned(layer))
        prune.remove(layer, "weight")
        self.assertEqual(layer.weight.tolist(), [[0, 0, 0], [0, 3, -6]])
        self.assertFalse(prune.is_pruned(layer))


if __name__ == "__main__":
    unittest.main()
