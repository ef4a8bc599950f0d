"""Gradients of sparse tensors: leaves of every layout, however they were made, and what they came from.

The expected gradients are those of the dense tensor. Where only the entries take part in an operator,
the gradient is sparse and has elements at their places only; after products of matrices, sums and
additions to dense tensors it is dense, since new entries would change the result.
"""

import copy
import unittest

from module_under_test import torch

F64 = torch.float64
CORTEN = torch.__name__ == "corten"
X = torch.arange(6, dtype=F64).reshape(3, 2) + 1
W = torch.arange(6, dtype=F64).reshape(2, 3) + 1
ONES = torch.ones(2, 2, dtype=F64)


def dense():
    return torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], dtype=F64)


def uncoalesced(values=None, **options):
    values = torch.tensor([2.0, 3.0, 1.0, 3.0], dtype=F64) if values is None else values
    return torch.sparse_coo_tensor([[0, 1, 1, 1], [1, 0, 2, 2]], values, (2, 3), **options)


LAYOUTS = {
    "coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(), "bsr": lambda x: x.to_sparse_bsr((1, 1)),
    "bsc": lambda x: x.to_sparse_bsc((1, 1)),
}
COO_LEAVES = {
    "to_sparse": lambda: dense().to_sparse().requires_grad_(),
    "sparse_coo_tensor": lambda: torch.sparse_coo_tensor(
        [[0, 1, 1], [1, 0, 2]], torch.tensor([2.0, 3.0, 4.0], dtype=F64), (2, 3), requires_grad=True
    ),
    "uncoalesced": lambda: uncoalesced(requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(dense().to_sparse()),
    "detached": lambda: (dense().to_sparse() * 1).detach().requires_grad_(True),
}

if not CORTEN:  # which has no products of these, nor places for dense gradients
    LAYOUTS = {name: LAYOUTS[name] for name in ("coo", "csr")}


def united(s):
    return s.coalesce() if s.is_sparse else s


# Scalar functions of a tensor of any layout, with a gradient that is dense; the same of a dense one.
FULL = {
    "mm": lambda s: (s.mm(X) ** 2).sum(), "matmul": lambda s: ((s @ X) ** 2).sum(),
    "vector": lambda s: ((s @ X[:, 0]) ** 2).sum(),
    "addmm": lambda s: (torch.addmm(ONES, s, X) ** 2).sum(),
    "linear": lambda s: (torch.nn.functional.linear(X.t(), s) ** 2).sum(),
    "sum": lambda s: s.sum(), "scaled": lambda s: (((s * 3) @ X) ** 2).sum(),
    "quotient": lambda s: (((s / 4) @ X) ** 2).sum(), "negative": lambda s: (((-s) @ X) ** 2).sum(),
}
# Those of coordinates alone.
FULL_COO = {
    "left": lambda s: ((ONES @ s) ** 2).sum(), "dense+s": lambda s: ((W + s) ** 2).sum(),
    "transposed": lambda s: ((s.t() @ W[:, :2].t()[:, :1]) ** 2).sum(),
    "twice": lambda s: (((s + s) @ X) ** 2).sum(), "clone": lambda s: ((s.clone() @ X) ** 2).sum(),
    "element": lambda s: s[1, 2] ** 2, "coalesced": lambda s: ((united(s) @ X) ** 2).sum(),
}
# With a gradient at the entries only.
MASKED = {
    "to_dense": lambda s: (s.to_dense() * W).sum(), "square": lambda s: (s.to_dense() ** 2).sum(),
    "mul": lambda s: ((s * W).to_dense() ** 2).sum() if s.layout != torch.strided
    else ((s * W) ** 2).sum(),
    "clone": lambda s: (s.clone().to_dense() * W).sum(), "neg": lambda s: ((-s).to_dense() * W).sum(),
    "relu": lambda s: (s.relu().to_dense() ** 2).sum(), "abs": lambda s: (s.abs().to_dense() * W).sum(),
    "float": lambda s: (s.to(torch.float32).to_dense() * W).sum(),
    "transpose": lambda s: (s.transpose(0, 1).to_dense() * W.t()).sum(),
}
MASKED_COO = {
    "coalesce": lambda s: (united(s).to_dense() * W).sum(),
    "values": lambda s: (s.coalesce().values() ** 2).sum() if s.is_sparse else (s**2).sum(),
    "sparse.mm": lambda s: (torch.sparse.mm(s, X) ** 2).sum() if s.is_sparse else ((s @ X) ** 2).sum(),
    "sparse.addmm": lambda s: (torch.sparse.addmm(ONES, s, X) ** 2).sum() if s.is_sparse
    else ((ONES + s @ X) ** 2).sum(),
    "sparse.sum": lambda s: torch.sparse.sum(s) if s.is_sparse else s.sum(),
    "add": lambda s: ((s + s).to_dense() * W).sum(), "sub": lambda s: ((s - s * 3).to_dense() * W).sum(),
    "pow": lambda s: (s.pow(2).to_dense() * W).sum(),
    "product": lambda s: ((s * s).to_dense() * W).sum(),
    "stack": lambda s: (torch.stack([s, s]).to_dense() ** 2).sum(),
    "permute": lambda s: (s.permute(1, 0).to_dense() * W.t()).sum(),
    "to_csr": lambda s: (s.to_sparse_csr().to_dense() * W).sum(),
    "mask": lambda s: (s.sparse_mask(dense().to_sparse()).to_dense() * W).sum() if s.is_sparse
    else (s * W).sum(),
}
# Where PyTorch has no derivative.
FURTHER_COO = {
    "cat": lambda s: (torch.cat([s, s * 2]).to_dense() ** 2).sum(),
    "unsqueeze": lambda s: (s.unsqueeze(0).to_dense()[0] * W).sum(),
    "index_select": lambda s: (s.index_select(0, torch.tensor([1, 1])).to_dense() ** 2).sum(),
    "row": lambda s: (s[1].to_dense() ** 2).sum(),
    "sin": lambda s: (s.sin().to_dense() * W).sum(),
}


def of_dense(function):
    x = dense().requires_grad_()
    found, = torch.autograd.grad(function(x), x)
    return found


class Leaves(unittest.TestCase):
    def check(self, leaf, function, masked):
        function(leaf).backward()
        self.assertIsNotNone(leaf.grad)
        expected = of_dense(function)
        if masked:
            self.assertEqual(leaf.grad.layout, leaf.layout)
            expected = expected * (dense() != 0)
        else:
            self.assertEqual(leaf.grad.layout, torch.strided)
        torch.testing.assert_close(leaf.grad.to_dense(), expected)

    def test_coordinates(self):
        for made, make in COO_LEAVES.items():
            leaf = make()
            self.assertEqual((leaf.requires_grad, leaf.is_leaf, leaf.grad), (True, True, None))
            for masked, cases in ((False, FULL), (False, FULL_COO), (True, MASKED), (True, MASKED_COO)):
                for name, function in cases.items():
                    with self.subTest(made=made, name=name):
                        self.check(make(), function, masked)

    @unittest.skipUnless(CORTEN, "PyTorch has no derivative")
    def test_further(self):
        for name, function in FURTHER_COO.items():
            with self.subTest(name=name):
                self.check(COO_LEAVES["to_sparse"](), function, True)

    def test_compressed(self):
        for layout in set(LAYOUTS) - {"coo"}:
            for masked, cases in ((False, FULL), (True, MASKED)):
                for name, function in cases.items():
                    with self.subTest(layout=layout, name=name):
                        leaf = LAYOUTS[layout](dense()).requires_grad_()
                        try:
                            function(leaf)
                        except (RuntimeError, NotImplementedError):
                            continue  # an operator that the layout does not have
                        self.check(leaf, function, masked)

    def test_what_came_first(self):
        """A dense tensor that was made sparse, and the values that a sparse one was made of."""
        for layout, convert in LAYOUTS.items():
            for name in ("mm", "matmul", "sum"):
                with self.subTest(layout=layout, name=name):
                    x = dense().requires_grad_()
                    FULL[name](convert(x)).backward()
                    self.assertEqual(x.grad.tolist(), of_dense(FULL[name]).tolist())
            x = dense().requires_grad_()
            (convert(x).to_dense() * W).sum().backward()
            self.assertEqual(x.grad.tolist(), (W * (dense() != 0)).tolist())
        values = torch.tensor([2.0, 3.0, 1.0, 3.0], dtype=F64, requires_grad=True)
        (uncoalesced(values) @ X).sum().backward()
        self.assertEqual(values.grad.tolist(), [7.0, 3.0, 11.0, 11.0])
        values.grad = None
        (uncoalesced(values).coalesce().to_dense() * W).sum().backward()
        self.assertEqual(values.grad.tolist(), [2.0, 4.0, 6.0, 6.0])

    def test_csr_products_of_torch_sparse(self):
        for function in (torch.sparse.mm, lambda a, b: torch.sparse.addmm(ONES, a, b)):
            leaf = dense().to_sparse_csr().requires_grad_()
            function(leaf, X).sum().backward()
            self.assertEqual(leaf.grad.layout, torch.sparse_csr)
            self.assertEqual(leaf.grad.to_dense().tolist(), [[0, 7, 0], [3, 0, 11]])
        leaf = dense().to_sparse_csr().requires_grad_()
        (torch.ones(2, 3, dtype=F64) + leaf).sum().backward()
        self.assertEqual(leaf.grad.tolist(), [[1.0] * 3] * 2)

    def test_unmasked(self):
        for layout, convert in LAYOUTS.items():
            with self.subTest(layout=layout):
                leaf = convert(dense()).requires_grad_()
                (leaf.to_dense(masked_grad=False) * W).sum().backward()
                self.assertEqual(leaf.grad.to_dense().tolist(), W.tolist())

    def test_the_other_operand(self):
        for layout, convert in LAYOUTS.items():
            with self.subTest(layout=layout):
                other, leaf = X.clone().requires_grad_(), convert(dense()).requires_grad_()
                ((leaf @ other) ** 2).sum().backward()
                expected = 2 * dense().t() @ (dense() @ X)
                self.assertEqual(other.grad.tolist(), expected.tolist())
        number = torch.tensor(3.0, dtype=F64, requires_grad=True)
        leaf = COO_LEAVES["to_sparse"]()
        ((leaf * number).to_dense() ** 2).sum().backward()
        self.assertEqual(number.grad.item(), 2 * 3 * 29)
        number.grad = None
        (leaf / number).to_dense().sum().backward()
        self.assertAlmostEqual(number.grad.item(), -1.0)
        factor = torch.full((2, 3), 2.0, dtype=F64, requires_grad=True)
        (leaf * factor).to_dense().sum().backward()
        self.assertEqual(factor.grad.to_dense().tolist(), dense().tolist())

    def test_batches(self):
        stacked = torch.stack([dense(), 2 * dense()])
        leaf = stacked.to_sparse().requires_grad_()
        leaf.bmm(torch.stack([X, X])).sum().backward()
        self.assertEqual(leaf.grad.to_dense().tolist(), [[[3.0, 7.0, 11.0]] * 2] * 2)

    def test_complex(self):
        source = dense() * (1 + 2j)
        weight = X * (2 - 1j)
        leaf, twin = source.to_sparse().requires_grad_(), source.clone().requires_grad_()
        (leaf @ weight).abs().sum().backward()
        (twin @ weight).abs().sum().backward()
        torch.testing.assert_close(leaf.grad, twin.grad)

    def test_softmax(self):
        for function in (torch.sparse.softmax, torch.sparse.log_softmax):
            leaf = COO_LEAVES["to_sparse"]()
            (function(leaf, 1).to_dense() * W).sum().backward()
            values = torch.tensor([3.0, 4.0], dtype=F64, requires_grad=True)
            twin = torch.softmax if function is torch.sparse.softmax else torch.log_softmax
            (twin(values, 0) * torch.tensor([4.0, 6.0], dtype=F64)).sum().backward()
            row = leaf.grad.to_dense()[1]
            torch.testing.assert_close(row[[0, 2]], values.grad)

    def test_dense_dimensions(self):
        values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=F64)
        leaf = torch.sparse_coo_tensor([[0, 2]], values, (3, 2), requires_grad=True)
        ((leaf * 2).coalesce().values() ** 2).sum().backward()
        self.assertEqual(leaf.grad.to_dense().tolist(), [[8.0, 16.0], [0.0, 0.0], [24.0, 32.0]])

    def test_empty(self):
        leaf = torch.sparse_coo_tensor(
            torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0, dtype=F64), (2, 3), requires_grad=True
        )
        (leaf @ X).sum().backward()
        self.assertEqual(leaf.grad.tolist(), [[3.0, 7.0, 11.0]] * 2)

    def test_identity(self):
        leaf = torch.eye(3).to_sparse().requires_grad_()
        (leaf @ torch.ones(3, 1)).sum().backward()
        self.assertEqual(leaf.grad.tolist(), [[1.0] * 3] * 3)


class Engine(unittest.TestCase):
    """Accumulation, hooks, second derivatives, optimizers."""

    def test_accumulation(self):
        for layout, convert in LAYOUTS.items():
            leaf = convert(dense()).requires_grad_()
            for _ in range(2):
                (leaf @ X).sum().backward()
            self.assertEqual(leaf.grad.tolist(), [[6.0, 14.0, 22.0]] * 2)
            leaf = convert(dense()).requires_grad_()
            for _ in range(2):
                (leaf.to_dense() * W).sum().backward()
            self.assertEqual(leaf.grad.to_dense().tolist(), (2 * W * (dense() != 0)).tolist())
        for first, second in ((FULL["mm"], MASKED["to_dense"]), (MASKED["to_dense"], FULL["mm"])):
            leaf = COO_LEAVES["to_sparse"]()
            first(leaf).backward()
            second(leaf).backward()
            expected = of_dense(FULL["mm"]) + W * (dense() != 0)
            self.assertEqual(leaf.grad.to_dense().tolist(), expected.tolist())
            leaf = COO_LEAVES["to_sparse"]()
            (first(leaf) + second(leaf)).backward()
            self.assertEqual(leaf.grad.to_dense().tolist(), expected.tolist())

    def test_hooks(self):
        for layout, convert in LAYOUTS.items():
            seen = []
            leaf = convert(dense()).requires_grad_()
            leaf.register_hook(lambda grad: seen.append(grad.layout) or grad * 2)
            leaf.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.layout))
            (leaf.to_dense() * W).sum().backward()
            self.assertEqual(seen, [leaf.layout] * 2)
            self.assertEqual(leaf.grad.to_dense().tolist(), (2 * W * (dense() != 0)).tolist())

    def test_results(self):
        leaf = COO_LEAVES["to_sparse"]()
        scaled = leaf * 2
        self.assertTrue(scaled.requires_grad and not scaled.is_leaf and scaled.grad_fn is not None)
        self.assertFalse(leaf.detach().requires_grad or leaf.data.requires_grad)
        scaled.retain_grad()
        (scaled.to_dense() * W).sum().backward()
        self.assertEqual(scaled.grad.to_dense().tolist(), (W * (dense() != 0)).tolist())
        with torch.no_grad():
            self.assertFalse((leaf * 2).requires_grad)
        found, = torch.autograd.grad((leaf.to_dense() ** 3).sum(), leaf, create_graph=True)
        found.to_dense().sum().backward()
        self.assertEqual(leaf.grad.to_dense().tolist(),
                         ((6 * dense() + 2 * W) * (dense() != 0)).tolist())

    def test_entries_without_history(self):
        leaf = COO_LEAVES["to_sparse"]()
        self.assertFalse(leaf._values().requires_grad)
        with self.assertRaises(RuntimeError):
            leaf._values().sum().backward()

    def test_in_place(self):
        leaf = COO_LEAVES["to_sparse"]()
        with self.assertRaisesRegex(RuntimeError, "leaf Variable that requires grad"):
            leaf.mul_(2)
        with torch.no_grad():
            leaf.mul_(2)
        self.assertEqual(leaf.to_dense().tolist(), (2 * dense()).tolist())
        total = torch.ones(2, 3, dtype=F64)
        total.add_(leaf)
        total.sum().backward()
        self.assertEqual(leaf.grad.to_dense().tolist(), [[1.0] * 3] * 2)

    def test_parameters(self):
        for layout, convert in LAYOUTS.items():
            module = torch.nn.Module()
            module.weight = torch.nn.Parameter(convert(dense()))
            self.assertEqual([name for name, _ in module.named_parameters()], ["weight"])
            (module.weight @ X).sum().backward()
            self.assertEqual(module.weight.grad.tolist(), [[3.0, 7.0, 11.0]] * 2)
            module.zero_grad()
            self.assertIsNone(module.weight.grad)
            if not CORTEN and layout == "csr":
                continue  # which PyTorch does not copy
            twin = copy.deepcopy(module)
            (twin.weight @ X).sum().backward()
            self.assertIsInstance(twin.weight, torch.nn.Parameter)
            self.assertEqual(twin.weight.grad.tolist(), [[3.0, 7.0, 11.0]] * 2)
            self.assertIsNone(module.weight.grad)

    def test_steps(self):
        weight = torch.nn.Parameter(dense().to_sparse())
        optimizer = torch.optim.SGD([weight], lr=0.5)
        (weight.to_dense() ** 2).sum().backward()
        optimizer.step()
        self.assertEqual(weight.to_dense().tolist(), [[0.0] * 3] * 2)
        optimizer.zero_grad()
        self.assertIsNone(weight.grad)

    def test_custom_functions(self):
        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, s, x):
                ctx.save_for_backward(s, x)
                return s @ x

            @staticmethod
            def backward(ctx, grad):
                s, x = ctx.saved_tensors
                return grad @ x.t(), s.t() @ grad

        leaf, other = COO_LEAVES["to_sparse"](), X.clone().requires_grad_()
        Product.apply(leaf, other).sum().backward()
        self.assertEqual(leaf.grad.tolist(), [[3.0, 7.0, 11.0]] * 2)
        self.assertEqual(other.grad.tolist(), [[3.0, 3.0], [2.0, 2.0], [4.0, 4.0]])


if __name__ == "__main__":
    unittest.main()
