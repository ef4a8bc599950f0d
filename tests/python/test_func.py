"""Functions of functions, trees of tensors, and pictures of the graph."""

import importlib
import unittest
import xml.etree.ElementTree as ElementTree
from collections import OrderedDict, defaultdict, deque, namedtuple

from module_under_test import torch

func = importlib.import_module(torch.__name__ + ".func")
pytree = importlib.import_module(torch.__name__ + ".utils._pytree")


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def cubes(x):
    return (x**3).sum()


class Derivatives(unittest.TestCase):
    x, y = vector(1.0, 2.0), vector(0.5, 1.5)

    def test_grad(self):
        self.assertEqual(func.grad(cubes)(self.x).tolist(), [3.0, 12.0])
        both = func.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(self.x, self.y)
        self.assertEqual([g.tolist() for g in both], [[0.5, 1.5], [1.0, 2.0]])
        gradient, value = func.grad_and_value(cubes)(self.x)
        self.assertEqual((gradient.tolist(), value.item()), ([3.0, 12.0], 9.0))
        tree = func.grad(lambda d: (d["a"] * d["b"]).sum())({"a": self.x, "b": self.y})
        self.assertEqual(tree["a"].tolist(), [0.5, 1.5])

    def test_higher_orders(self):
        third = func.grad(func.grad(func.grad(lambda x: x**4)))
        self.assertEqual(third(torch.tensor(2.0)).item(), 48.0)

    def test_results_are_part_of_the_graph_around(self):
        z = self.x.clone().requires_grad_()
        func.grad(cubes)(z).sum().backward()
        self.assertEqual(z.grad.tolist(), [6.0, 12.0])
        self.assertFalse(func.grad(cubes)(self.x).requires_grad)
        with torch.no_grad():
            self.assertEqual(func.grad(cubes)(z).tolist(), [3.0, 12.0])

    def test_products(self):
        value, product = func.vjp(lambda a, b: (a * b, a.sum()), self.x, self.y)
        left, right = product((self.x, torch.tensor(2.0, dtype=torch.float64)))
        self.assertEqual((left.tolist(), right.tolist()), ([2.5, 5.0], [1.0, 4.0]))
        value, moved = func.jvp(torch.exp, (self.x,), (self.y,))
        self.assertTrue(torch.allclose(moved, self.x.exp() * self.y))
        value, linear = func.linearize(torch.sin, self.x)
        self.assertTrue(torch.allclose(linear(self.y), self.x.cos() * self.y))

    def test_matrices(self):
        square = lambda x: x**2
        for jacobian in (func.jacrev(square), func.jacfwd(square)):
            self.assertEqual(jacobian(self.x).tolist(), [[2.0, 0.0], [0.0, 4.0]])
        self.assertEqual(func.hessian(cubes)(self.x).tolist(), [[6.0, 0.0], [0.0, 12.0]])

    def test_errors(self):
        with self.assertRaisesRegex(RuntimeError, "to return a scalar Tensor, got tensor with 1"):
            func.grad(lambda x: x)(self.x)
        with self.assertRaisesRegex(RuntimeError, "Got argnum=2, but only 1 positional inputs"):
            func.grad(cubes, argnums=2)(self.x)


class Cube(torch.autograd.Function):
    """x ** 3 with every part written by hand."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x, scale):
        return x**3 * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * 3 * x**2 * scale, grad * x**3

    @staticmethod
    def jvp(ctx, x_t, scale_t):
        x, scale = ctx.saved_tensors
        return 3 * x**2 * scale * x_t + x**3 * scale_t


class CubeWithRule(Cube):
    seen = []

    @staticmethod
    def vmap(info, in_dims, x, scale):
        CubeWithRule.seen.append((info.batch_size, info.randomness, in_dims))
        if in_dims[1] is None:
            return CubeWithRule.apply(x, scale), in_dims[0]
        return CubeWithRule.apply(x.movedim(in_dims[0], 0), scale.movedim(in_dims[1], 0)), 0


class CubeOfItems(Cube):
    generate_vmap_rule = True


class CustomFunctions(unittest.TestCase):
    x = vector(1.0, 2.0, 3.0)

    def test_jvp(self):
        one, forward_ad = torch.ones((), dtype=torch.float64), torch.autograd.forward_ad
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(self.x, torch.ones_like(self.x))
            value, tangent = forward_ad.unpack_dual(Cube.apply(dual, one))
            self.assertEqual(value.tolist(), [1.0, 8.0, 27.0])
            self.assertEqual(tangent.tolist(), [3.0, 12.0, 27.0])

            class NoJvp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x.clone()

            with self.assertRaisesRegex((RuntimeError, NotImplementedError), "jvp"):
                NoJvp.apply(dual)

    def test_vmap_staticmethod(self):
        CubeWithRule.seen.clear()
        x = self.x.reshape(1, 3)
        found = torch.vmap(CubeWithRule.apply, in_dims=(1, None))(x, vector(2.0)[0])
        self.assertEqual(found.tolist(), [[2.0], [16.0], [54.0]])
        self.assertEqual(CubeWithRule.seen, [(3, "error", (1, None))])

    def test_generated_rule(self):
        scales = vector(1.0, 10.0, 100.0)
        found = torch.vmap(CubeOfItems.apply)(self.x, scales)
        self.assertEqual(found.tolist(), [1.0, 80.0, 2700.0])
        shared = vector(2.0)[0].requires_grad_()
        x = self.x.clone().requires_grad_()
        torch.vmap(CubeOfItems.apply, in_dims=(0, None))(x, shared).sum().backward()
        self.assertEqual(x.grad.tolist(), [6.0, 24.0, 54.0])
        self.assertEqual(shared.grad.item(), 36.0)
        each = torch.vmap(func.grad(CubeOfItems.apply, argnums=1), in_dims=(0, None))
        self.assertEqual(each(self.x, shared.detach()).tolist(), [1.0, 8.0, 27.0])

    def test_no_rule(self):
        with self.assertRaisesRegex(RuntimeError, "does not have vmap support"):
            torch.vmap(Cube.apply)(self.x, self.x)


class Batches(unittest.TestCase):
    m = torch.arange(6.0).reshape(2, 3)

    def test_dimensions(self):
        self.assertEqual(torch.vmap(lambda a: a.sum())(self.m).tolist(), [3.0, 12.0])
        self.assertEqual(torch.vmap(lambda a: a, in_dims=1)(self.m).shape, (3, 2))
        self.assertEqual(torch.vmap(lambda a: a, in_dims=1, out_dims=1)(self.m).shape, (2, 3))
        dots = torch.vmap(torch.dot, in_dims=(0, None))(self.m, torch.ones(3))
        self.assertEqual(dots.tolist(), [3.0, 12.0])

    def test_with_derivatives(self):
        self.assertEqual(torch.vmap(func.grad(cubes))(self.m).tolist(), (3 * self.m**2).tolist())

    def test_one_call_for_all_items(self):
        calls = []
        double = torch.vmap(lambda a: calls.append(a.shape) or a * 2)
        self.assertEqual(double(self.m).tolist(), (self.m * 2).tolist())
        self.assertEqual(calls, [(3,)])
        chunked = torch.vmap(lambda a: calls.append(a.shape) or a * 2, chunk_size=1)
        self.assertEqual(chunked(self.m).tolist(), (self.m * 2).tolist())
        self.assertEqual(len(calls), 3)

    def test_items_decide_on_dtypes(self):
        floats = torch.arange(2.0, dtype=torch.float64)
        half = torch.vmap(lambda s: s + torch.ones(3, dtype=torch.float16))(floats)
        self.assertEqual(half.dtype, torch.float16)
        double = torch.vmap(lambda s: s.float() + vector(1.0)[0])(floats)
        self.assertEqual(double.dtype, torch.float64)
        whole = torch.vmap(lambda s: s * torch.arange(3))(floats)
        self.assertEqual(whole.dtype, torch.float64)

    def test_indices_of_items(self):
        x = torch.arange(24.0).reshape(2, 3, 4)
        picked = torch.vmap(lambda a, i: a[i])(x, torch.tensor([2, 0]))
        self.assertEqual(picked.tolist(), [x[0, 2].tolist(), x[1, 0].tolist()])
        columns = torch.vmap(lambda a, i: a[:, i])(x, torch.tensor([[0, 3], [1, 1]]))
        self.assertEqual(columns.shape, (2, 3, 2))
        self.assertEqual(columns[1].tolist(), x[1][:, [1, 1]].tolist())
        apart = torch.vmap(lambda a: a[[0, 2], :, None][:, [1, 3]])(x)
        self.assertEqual(apart.tolist(), torch.stack([a[[0, 2], :, None][:, [1, 3]] for a in x]).tolist())

    def test_in_place(self):
        x = torch.zeros(2, 3)
        torch.vmap(lambda a: a.add_(1)[0])(x)
        self.assertEqual(x.sum().item(), 6.0)
        torch.vmap(lambda a: a[1].mul_(3))(x)
        self.assertEqual(x[:, 1].tolist(), [3.0, 3.0])
        with self.assertRaises(RuntimeError):
            torch.vmap(lambda a: torch.zeros(3).add_(a))(x)

    def test_nested(self):
        x = torch.arange(6.0).reshape(2, 3)
        outer = torch.vmap(lambda a: torch.vmap(lambda b: a * b)(x[0]))(x[1])
        self.assertEqual(outer.tolist(), (x[1][:, None] * x[0]).tolist())
        pairs = torch.vmap(torch.vmap(torch.dot), in_dims=(0, 0))(
            x.reshape(2, 1, 3), x.reshape(2, 1, 3)
        )
        self.assertEqual(pairs.tolist(), [[5.0], [50.0]])

    def test_gradients_around_and_inside(self):
        x = vector(1.0, 2.0).reshape(2, 1).requires_grad_()
        torch.vmap(cubes)(x).sum().backward()
        self.assertEqual(x.grad.tolist(), [[3.0], [12.0]])
        weights = vector(1.0, -1.0, 2.0)
        samples = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)

        def loss(w, sample):
            return (w * sample).sum() ** 2

        each = torch.vmap(func.grad(loss), in_dims=(None, 0))(weights, samples)
        expected = [func.grad(loss)(weights, sample).tolist() for sample in samples]
        self.assertEqual(each.tolist(), expected)
        jacobians = torch.vmap(func.jacrev(torch.exp))(samples)
        self.assertEqual(jacobians.shape, (2, 3, 3))
        second = torch.vmap(func.hessian(cubes))(samples)
        self.assertEqual(second[1].diagonal().tolist(), (6 * samples[1]).tolist())

    def test_layers(self):
        torch.manual_seed(0)
        f = torch.nn.functional
        images = torch.randn(3, 2, 4, 6, 6, dtype=torch.float64)
        kernels = torch.randn(3, 5, 4, 3, 3, dtype=torch.float64)
        target = torch.randint(0, 5, (3, 2))

        def net(image, kernel, wanted):
            hidden = f.max_pool2d(f.relu(f.conv2d(image, kernel)), 2)
            hidden = f.layer_norm(hidden, (2, 2)).mean((2, 3))
            return f.cross_entropy(hidden, wanted)

        found = torch.vmap(net)(images, kernels, target)
        expected = torch.stack([net(*each) for each in zip(images, kernels, target)])
        self.assertTrue(torch.allclose(found, expected))

    def test_what_items_cannot_do(self):
        for function in (
            lambda a: a.sum().item(),
            lambda a: a if a.sum() > 0 else -a,
            lambda a: a.nonzero(),
            lambda a: a.sum().backward(),
        ):
            with self.assertRaisesRegex(RuntimeError, "vmap|functorch"):
                torch.vmap(function)(self.m.clone().requires_grad_())

    def test_text(self):
        texts = []
        torch.vmap(lambda a: texts.append(str(a)) or a)(torch.ones(1, 2))
        self.assertEqual(
            texts, ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1., 1.]])\n)"]
        )

    def test_random_numbers(self):
        noisy = lambda a: a + torch.rand(3)
        with self.assertRaisesRegex(RuntimeError, "called random operation"):
            torch.vmap(noisy)(self.m)
        same = torch.vmap(noisy, randomness="same")(self.m * 0)
        self.assertTrue(torch.equal(same[0], same[1]))
        different = torch.vmap(noisy, randomness="different")(self.m * 0)
        self.assertFalse(torch.equal(different[0], different[1]))

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "expected in_dim to satisfy"):
            torch.vmap(cubes, in_dims=3)(self.m)
        with self.assertRaisesRegex(ValueError, "same size in the mapped dimension"):
            torch.vmap(torch.dot)(self.m, torch.ones(3))
        with self.assertRaisesRegex(ValueError, "must only return Tensors"):
            torch.vmap(lambda a: 3)(self.m)


class Modules(unittest.TestCase):
    def test_other_parameters(self):
        layer = torch.nn.Linear(2, 1)
        before = layer.weight
        other = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
        self.assertEqual(func.functional_call(layer, other, torch.ones(2)).item(), 2.0)
        self.assertIs(layer.weight, before)

    def test_ensembles(self):
        layers = [torch.nn.Linear(3, 2) for _ in range(4)]
        parameters, buffers = func.stack_module_state(layers)
        self.assertEqual(parameters["weight"].shape, (4, 2, 3))
        call = lambda p, b, x: func.functional_call(layers[0], (p, b), (x,))
        x = torch.rand(3)
        found = torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
        for row, layer in zip(found, layers):
            self.assertTrue(torch.allclose(row, layer(x)))


Point = namedtuple("Point", "x y")


class Trees(unittest.TestCase):
    def test_round_trip(self):
        tree = {
            "list": [1, (2, Point(3, 4))], "none": None, "ordered": OrderedDict(a=5),
            "deque": deque([6], maxlen=3), "default": defaultdict(int, b=7),
        }
        leaves, spec = pytree.tree_flatten(tree)
        self.assertEqual(leaves, [1, 2, 3, 4, None, 5, 6, 7])
        self.assertEqual(pytree.tree_unflatten(leaves, spec), tree)
        self.assertEqual(spec, pytree.tree_structure(tree))

    def test_maps(self):
        self.assertEqual(pytree.tree_map(lambda a, b: a + b, [1, (2,)], [3, (4,)]), [4, (6,)])
        self.assertEqual(pytree.tree_map_only(int, str, [1, 2.0]), ["1", 2.0])


if torch.__name__ == "corten":
    graph = importlib.import_module("corten.utils.graph")

    class Pictures(unittest.TestCase):
        def test_nodes_leaves_and_edges(self):
            x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
            y = (x * w).sin()
            text = graph.dot(y, {"x": x, "weight": w, "y": y})
            for part in ("MulBackward0", "SinBackward0", "x\\n(2,) float32", "weight\\n", "y\\n"):
                self.assertIn(part, text)
            self.assertEqual(text.count("->"), 4)
            root = ElementTree.fromstring(graph.svg(y))
            self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}rect")), 5)

        def test_deep_graphs(self):
            x = torch.ones(1, requires_grad=True)
            for _ in range(3000):
                x = x + 1
            self.assertEqual(graph.dot(x).count("AddBackward0"), 3000)


if __name__ == "__main__":
    unittest.main()
