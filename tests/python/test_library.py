"""Operators of one's own."""

import importlib
import itertools
import unittest
import warnings
from typing import List, Optional, Sequence, Tuple

from module_under_test import torch

library = importlib.import_module(torch.__name__ + ".library")
func = importlib.import_module(torch.__name__ + ".func")
Tensor = torch.Tensor

_numbers = itertools.count()


def fresh(name):
    """A namespace of its own for every test."""
    return f"corten_test{next(_numbers)}::{name}"


class Schemas(unittest.TestCase):
    def test_annotations(self):
        def f(x: Tensor, n: int, *, scale: float = 2.0, names: Optional[str] = None) -> Tensor:
            ...

        self.assertEqual(
            library.infer_schema(f, mutates_args=()),
            "(Tensor x, SymInt n, *, float scale=2.0, str? names=None) -> Tensor",
        )

        def g(xs: List[Tensor], sizes: Sequence[int], out: Tensor) -> Tuple[Tensor, Tensor]:
            ...

        self.assertEqual(
            library.infer_schema(g, mutates_args={"out"}),
            "(Tensor[] xs, SymInt[] sizes, Tensor(a2!) out) -> (Tensor, Tensor)",
        )

        def h(x: Tensor) -> None:
            ...

        self.assertEqual(library.infer_schema(h, mutates_args={"x"}), "(Tensor(a0!) x) -> ()")

    def test_what_has_no_schema(self):
        def bare(x):
            ...

        def odd(x: Tensor, y: dict) -> Tensor:
            ...

        for function in (bare, odd):
            with self.assertRaises(ValueError):
                library.infer_schema(function, mutates_args=())


class CustomOperators(unittest.TestCase):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def make_cube(self):
        calls = []

        @library.custom_op(fresh("cube"), mutates_args=())
        def cube(x: Tensor, scale: float) -> Tensor:
            calls.append(tuple(x.shape))
            return x.detach() ** 3 * scale

        return cube, calls

    def test_call(self):
        cube, calls = self.make_cube()
        self.assertEqual(cube(self.x, 2.0).tolist(), [2.0, 16.0, 54.0])
        namespace = cube._qualname.partition("::")[0]
        again = getattr(torch.ops, namespace).cube(self.x, scale=1.0)
        self.assertEqual(again.tolist(), [1.0, 8.0, 27.0])
        self.assertEqual(calls, [(3,), (3,)])

    def test_without_derivative(self):
        cube, _ = self.make_cube()
        y = cube(self.x.clone().requires_grad_(), 1.0)
        self.assertTrue(y.requires_grad)
        with self.assertRaisesRegex(RuntimeError, "no autograd formula was registered"):
            y.sum().backward()

    def test_derivative(self):
        cube, _ = self.make_cube()

        def setup_context(ctx, inputs, output):
            x, ctx.scale = inputs
            ctx.save_for_backward(x)

        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * ctx.scale * x**2, None

        cube.register_autograd(backward, setup_context=setup_context)
        x = self.x.clone().requires_grad_()
        (first,) = torch.autograd.grad(cube(x, 2.0).sum(), x, create_graph=True)
        self.assertEqual(first.tolist(), [6.0, 24.0, 54.0])
        (second,) = torch.autograd.grad(first.sum(), x)
        self.assertEqual(second.tolist(), [12.0, 24.0, 36.0])

    def test_lists_and_several_results(self):
        @library.custom_op(fresh("both"), mutates_args=())
        def both(xs: List[Tensor], weight: Tensor) -> Tuple[Tensor, Tensor]:
            return sum(x.detach() for x in xs) * weight.detach(), weight.detach() * 2

        def backward(ctx, first, second):
            return [first * 5.0 for _ in range(ctx.count)], second * 2

        def setup_context(ctx, inputs, output):
            ctx.count = len(inputs[0])

        both.register_autograd(backward, setup_context=setup_context)
        xs = [self.x.clone().requires_grad_() for _ in range(2)]
        weight = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
        total, double = both(xs, weight)
        (total.sum() + double).backward()
        self.assertEqual([x.grad.tolist() for x in xs], [[5.0] * 3] * 2)
        self.assertEqual(weight.grad.item(), 2.0)

    def test_writes(self):
        @library.custom_op(fresh("fill"), mutates_args={"out"})
        def fill(out: Tensor, value: float) -> None:
            out.detach().fill_(value)

        out = torch.zeros(3)
        before = out._version
        self.assertIsNone(fill(out, 2.0))
        self.assertEqual(out.tolist(), [2.0] * 3)
        self.assertGreater(out._version, before)
        with self.assertRaisesRegex(RuntimeError, "non-functional"):
            fill.register_autograd(lambda ctx, grad: (grad, None))

    def test_results_are_new(self):
        @library.custom_op(fresh("same"), mutates_args=())
        def same(x: Tensor) -> Tensor:
            return x

        with self.assertRaisesRegex(RuntimeError, "may not alias"):
            same(self.x)

    def test_shapes_without_data(self):
        cube, _ = self.make_cube()

        @cube.register_fake
        def _(x, scale):
            return torch.empty_like(x)

        made = cube(torch.empty(2, 3, device="meta"), 1.0)
        self.assertEqual((made.device.type, made.shape), ("meta", (2, 3)))

    def test_kernels_per_device(self):
        @library.custom_op(fresh("device"), mutates_args=(), device_types="cpu")
        def device(x: Tensor) -> Tensor:
            return x + 1

        self.assertEqual(device(self.x).tolist(), [2.0, 3.0, 4.0])
        with self.assertRaisesRegex(RuntimeError, "no fake impl"):
            device(torch.empty(2, device="meta"))

    def test_batches(self):
        cube, calls = self.make_cube()
        seen = []

        def rule(info, in_dims, x, scale):
            seen.append((info.batch_size, in_dims))
            return cube(x, scale), in_dims[0]

        cube.register_vmap(rule)
        found = torch.vmap(lambda row: cube(row, 1.0), in_dims=1)(self.x.reshape(1, 3))
        self.assertEqual(found.tolist(), [[1.0], [8.0], [27.0]])
        self.assertEqual(seen, [(3, (1, None))])
        self.assertEqual(calls, [(1, 3)])


class Libraries(unittest.TestCase):
    def test_define_and_impl(self):
        namespace = fresh("").rstrip(":")
        lib = library.Library(namespace, "DEF")
        lib.define("twice(Tensor x, *, int times=2) -> Tensor")
        lib.impl("twice", lambda x, *, times=2: x * times, "CPU")
        op = getattr(torch.ops, namespace).twice
        self.assertEqual(op(torch.ones(2)).tolist(), [2.0, 2.0])
        self.assertEqual(op.default(torch.ones(2), times=5).tolist(), [5.0, 5.0])
        with self.assertRaises((RuntimeError, TypeError)):
            op(3)

    def test_functions(self):
        name = fresh("plus")
        library.define(name, "(Tensor x, float y) -> Tensor")

        @library.impl(name, "cpu")
        def plus(x, y):
            return x + y

        library.register_autograd(name, lambda ctx, grad: (grad * 7, None))
        op = getattr(torch.ops, name.partition("::")[0]).plus
        x = torch.ones(2, requires_grad=True)
        op(x, 1.0).sum().backward()
        self.assertEqual(x.grad.tolist(), [7.0, 7.0])

    def test_composite(self):
        name = fresh("square")
        library.define(name, "(Tensor x) -> Tensor")
        library.impl(name, "CompositeImplicitAutograd", lambda x: x * x)
        op = getattr(torch.ops, name.partition("::")[0]).square
        x = torch.tensor([3.0], requires_grad=True)
        op(x).backward()
        self.assertEqual(x.grad.tolist(), [6.0])

    def test_kernels_of_others(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lib = library.Library("aten", "IMPL")
            lib.impl("special_entr", lambda x: x * 0 + 42, "CPU")
            self.assertEqual(torch.special.entr(torch.ones(2)).tolist(), [42.0, 42.0])
            lib._destroy()
        self.assertEqual(torch.special.entr(torch.ones(2)).tolist(), [0.0, 0.0])

    def test_mistakes(self):
        with self.assertRaisesRegex(RuntimeError, "single TORCH_LIBRARY"):
            library.Library("aten", "DEF")
        with self.assertRaises(ValueError):
            library.Library("mine", "MADE")
        with self.assertRaises(RuntimeError):
            library.Library("mine", "IMPL").define("f() -> ()")
        with self.assertRaises(ValueError):
            library.define("no_namespace", "() -> ()")
        with self.assertRaises(ValueError):
            library.custom_op("no_namespace", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")


if __name__ == "__main__":
    unittest.main()
