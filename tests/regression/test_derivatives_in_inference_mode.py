"""Derivatives of functions where recording is off: around the transform, and inside the function."""

import contextlib
import importlib
import unittest

from module_under_test import torch

func = importlib.import_module(torch.__name__ + ".func")
functional = importlib.import_module(torch.__name__ + ".autograd.functional")
forward_ad = importlib.import_module(torch.__name__ + ".autograd.forward_ad")
CORTEN = torch.__name__ == "corten"

VALUES = [1.0, 2.0, 3.0]
FIRST = [3.0, 12.0, 27.0]
SECOND = [6.0, 12.0, 18.0]


def diagonal(values):
    return [[value if i == j else 0.0 for j in range(3)] for i, value in enumerate(values)]


def cubes(x):
    return x**3


def total(x):
    return (x**3).sum()


def modes():
    yield "none", contextlib.nullcontext
    yield "no_grad", torch.no_grad
    yield "inference_mode", torch.inference_mode
    yield "set_grad_enabled", lambda: torch.set_grad_enabled(False)


def inputs():
    yield torch.tensor(VALUES)
    yield torch.tensor(VALUES, requires_grad=True)
    with torch.inference_mode():
        made = torch.tensor(VALUES)
    yield made


TRANSFORMS = {
    "grad": (lambda x: func.grad(total)(x), FIRST),
    "grad_and_value": (lambda x: func.grad_and_value(total)(x)[0], FIRST),
    "vjp": (lambda x: func.vjp(cubes, x)[1](torch.ones(3))[0], FIRST),
    "jvp": (lambda x: func.jvp(cubes, (x,), (torch.ones(3),))[1], FIRST),
    "jacrev": (lambda x: func.jacrev(cubes)(x), diagonal(FIRST)),
    "jacfwd": (lambda x: func.jacfwd(cubes)(x), diagonal(FIRST)),
    "hessian": (lambda x: func.hessian(total)(x), diagonal(SECOND)),
    "vmap of grad": (lambda x: func.vmap(func.grad(cubes))(x), FIRST),
    "grad of vmap": (lambda x: func.grad(lambda y: func.vmap(cubes)(y).sum())(x), FIRST),
    "grad of grad": (lambda x: func.grad(lambda y: func.grad(total)(y).sum())(x), SECOND),
    "jvp of grad": (lambda x: func.jvp(func.grad(total), (x,), (torch.ones(3),))[1], SECOND),
    "grad of jvp": (
        lambda x: func.grad(lambda y: func.jvp(cubes, (y,), (torch.ones(3),))[1].sum())(x), SECOND,
    ),
    "closure": (lambda x: func.grad(lambda y: (y * x).sum())(x), VALUES),
    "view": (lambda x: func.grad(lambda y: (y[1:] ** 2).sum())(x), [0.0, 4.0, 6.0]),
    "in place": (lambda x: func.grad(lambda y: (y.clone().mul_(2) ** 2).sum())(x), [8, 16, 24]),
    "no_grad inside": (lambda x: func.grad(lambda y: total(y) + torch.no_grad()(total)(y))(x), FIRST),
    "autograd inside": (
        lambda x: func.grad(
            lambda y: torch.autograd.grad(total(y), y, create_graph=True)[0].sum()
        )(x),
        SECOND,
    ),
}

OLD = {
    "jacobian": (lambda x: functional.jacobian(cubes, x), diagonal(FIRST)),
    "forward": (
        lambda x: functional.jacobian(cubes, x, strategy="forward-mode", vectorize=True),
        diagonal(FIRST),
    ),
    "hessian": (lambda x: functional.hessian(total, x), diagonal(SECOND)),
    "vjp": (lambda x: functional.vjp(cubes, x, torch.ones(3))[1], FIRST),
    "jvp": (lambda x: functional.jvp(cubes, x, torch.ones(3))[1], FIRST),
    "vhp": (lambda x: functional.vhp(total, x, torch.ones(3))[1], SECOND),
    "hvp": (lambda x: functional.hvp(total, x, torch.ones(3))[1], SECOND),
    "strict": (lambda x: functional.jacobian(cubes, x, strict=True), diagonal(FIRST)),
}


class Around(unittest.TestCase):
    def check(self, cases, tensors):
        for mode, context in modes():
            for tensor in tensors:
                for name, (case, expected) in cases.items():
                    with self.subTest(mode=mode, name=name, inference=tensor.is_inference()):
                        with context():
                            found = case(tensor)
                        self.assertEqual(found.tolist(), expected)

    def test_transforms(self):
        self.check(TRANSFORMS, list(inputs()))

    @unittest.skipUnless(CORTEN, "PyTorch gives zeros, or a tree of another form")
    def test_linearize(self):
        case = lambda x: func.linearize(cubes, x)[1](torch.ones(3))
        self.check({"linearize": (case, FIRST)}, list(inputs()))

    @unittest.skipUnless(CORTEN, "PyTorch gives zeros")
    def test_autograd_functional(self):
        tensors = list(inputs())
        self.check(OLD, tensors[:2])
        with torch.inference_mode():
            for name, (case, expected) in OLD.items():
                with self.subTest(name=name):
                    self.assertEqual(case(tensors[2]).tolist(), expected)

    def test_recording_by_hand_is_refused(self):
        x = torch.tensor(VALUES, requires_grad=True)
        with torch.inference_mode():
            for tensor in (x, x.clone().requires_grad_()):
                with self.assertRaises(RuntimeError):
                    torch.autograd.grad(total(tensor), tensor)
                with self.assertRaises(RuntimeError):
                    total(tensor).backward()
            self.assertFalse(total(x).requires_grad)

    def test_results_are_not_recorded(self):
        x = torch.tensor(VALUES, requires_grad=True)
        with torch.inference_mode():
            found = func.grad(total)(x)
            self.assertTrue(torch.is_inference_mode_enabled())
            self.assertFalse(torch.is_grad_enabled())
        self.assertFalse(found.requires_grad)
        with self.assertRaises(ZeroDivisionError), torch.inference_mode():
            try:
                func.grad(lambda y: y.sum() / (1 // 0))(x)
            finally:
                self.assertTrue(torch.is_inference_mode_enabled())

    def test_products_outlive_the_mode(self):
        x, v = torch.tensor(VALUES), torch.tensor([1.0, 0.5, 2.0])
        with torch.inference_mode():
            _, product = func.vjp(cubes, x)
        self.assertEqual(product(v)[0].tolist(), [3.0, 6.0, 54.0])
        _, product = func.vjp(cubes, x)
        with torch.inference_mode():
            self.assertEqual(product(v)[0].tolist(), [3.0, 6.0, 54.0])

    def test_modules(self):
        layer = torch.nn.Linear(3, 1)
        with torch.inference_mode():
            call = lambda p, z: func.functional_call(layer, p, (z,)).sum()
            found = func.grad(call)(dict(layer.named_parameters()), torch.ones(2, 3))
            self.assertEqual(found["weight"].tolist(), [[2.0, 2.0, 2.0]])
            self.assertEqual(found["bias"].tolist(), [2.0])
            jacobian = func.jacrev(layer)(torch.ones(3))
        self.assertEqual(jacobian.tolist(), layer.weight.tolist())
        self.assertIsNone(layer.weight.grad)

    def test_constants_made_in_inference_mode(self):
        x = torch.tensor(VALUES)
        with torch.inference_mode():
            scale, places = torch.tensor([2.0, 3.0, 4.0]), torch.tensor([0, 2])
        self.assertEqual(func.grad(lambda y: (y * scale).sum())(x).tolist(), [2.0, 3.0, 4.0])
        self.assertEqual(func.grad(lambda y: (y[places] ** 2).sum())(x).tolist(), [2.0, 0.0, 6.0])
        found = func.vmap(func.hessian(lambda y: (y**2 * scale).sum()))(torch.ones(2, 3))
        self.assertEqual(found[1].tolist(), diagonal([4.0, 6.0, 8.0]))
        # Only transforms save them.
        with self.assertRaisesRegex(RuntimeError, "Inference tensors cannot be saved for backward"):
            x.clone().requires_grad_() * scale


def half_recorded(y):
    return y**2 * torch.no_grad()(cubes)(y)


class Inside(unittest.TestCase):
    """Forward mode passes through what is not recorded, backward mode does not."""

    x, v = torch.tensor(VALUES), torch.tensor([1.0, 0.5, 2.0])
    moved = [5.0, 40.0, 810.0]
    columns = diagonal([5.0, 80.0, 405.0])

    def test_forward(self):
        value, moved = func.jvp(half_recorded, (self.x,), (self.v,))
        self.assertEqual((value.tolist(), moved.tolist()), ([1.0, 32.0, 243.0], self.moved))
        self.assertEqual(func.jacfwd(half_recorded)(self.x).tolist(), self.columns)
        self.assertEqual(func.linearize(half_recorded, self.x)[1](self.v).tolist(), self.moved)
        _, moved = func.jvp(torch.no_grad()(cubes), (self.x,), (torch.ones(3),))
        self.assertEqual(moved.tolist(), FIRST)
        both = func.jacfwd(lambda a, b: half_recorded(a * b), argnums=(0, 1))(self.x, self.v)
        self.assertEqual(both[0].tolist(), diagonal([5.0, 2.5, 12960.0]))

    def test_backward(self):
        self.assertEqual(func.vjp(half_recorded, self.x)[1](self.v)[0].tolist(), [2.0, 16.0, 324.0])
        self.assertEqual(func.grad(torch.no_grad()(total))(self.x).tolist(), [0.0] * 3)

    def test_nested(self):
        inner = lambda y: func.jvp(half_recorded, (y,), (self.v,))[1].sum()
        self.assertEqual(func.grad(inner)(self.x).tolist(), [8.0, 32.0, 432.0])
        alone = lambda y: func.jvp(torch.no_grad()(cubes), (y,), (self.v,))[1].sum()
        self.assertEqual(func.grad(alone)(self.x).tolist(), [0.0] * 3)
        product = lambda a, b: func.jvp(half_recorded, (a,), (b,))[1]
        self.assertEqual(func.vmap(product)(self.x, self.v).tolist(), self.moved)
        found = func.vmap(product, in_dims=(None, 0))(self.x, torch.eye(3))
        self.assertEqual(found.tolist(), self.columns)

        def weighted(y):
            with torch.no_grad():
                weight = y * 2
            return (y * weight).sum()

        self.assertEqual(func.hessian(weighted)(self.x).tolist(), diagonal([2.0] * 3))
        self.assertEqual(func.jacrev(weighted)(self.x).tolist(), [2.0, 4.0, 6.0])

    def test_forward_of_forward(self):
        """Right, or refused; not zeros."""
        nested = lambda y: func.jvp(half_recorded, (y,), (self.v,))[1]
        try:
            found = func.jvp(nested, (self.x,), (self.v,))[1].tolist()
        except RuntimeError as error:
            self.assertIn("Nested forward mode AD", str(error))
        else:
            self.assertEqual(found, [20.0, 40.0, 2160.0])

    def test_random_numbers_are_drawn_once(self):
        drop = torch.no_grad()(torch.nn.functional.dropout)
        torch.manual_seed(0)
        value, moved = func.jvp(lambda y: drop(y) * y, (torch.ones(100),), (torch.ones(100),))
        self.assertEqual(sorted(set(value.tolist())), [0.0, 2.0])
        self.assertEqual(moved.tolist(), (2 * value).tolist())


class Duals(unittest.TestCase):
    """Transforms of functions keep the tangents of a level around them."""

    x, v = torch.tensor(VALUES), torch.tensor([1.0, 0.5, 2.0])

    def tangent(self, function):
        with forward_ad.dual_level():
            result = function(forward_ad.make_dual(self.x, self.v))
            return forward_ad.unpack_dual(result).tangent.tolist()

    def test_tangents(self):
        second = [6.0, 6.0, 36.0]
        self.assertEqual(self.tangent(func.grad(total)), second)
        self.assertEqual(self.tangent(func.jacrev(cubes)), diagonal(second))
        self.assertEqual(self.tangent(func.vmap(cubes)), [3.0, 6.0, 54.0])
        self.assertEqual(self.tangent(func.vmap(func.grad(cubes))), second)
        self.assertEqual(
            self.tangent(lambda z: func.vjp(cubes, z)[1](torch.ones(3))[0]), second
        )


class History(unittest.TestCase):
    """Derivatives of inputs with a history have one."""

    @unittest.skipUnless(CORTEN, "PyTorch traces the function and forgets the history")
    def test_linearize(self):
        x = torch.tensor(VALUES, requires_grad=True)
        value, linear = func.linearize(cubes, x)
        linear(torch.ones(3)).sum().backward()
        self.assertEqual(x.grad.tolist(), SECOND)
        self.assertTrue(value.requires_grad)

    def test_forward_jacobian(self):
        x = torch.tensor(VALUES, requires_grad=True)
        found = functional.jacobian(cubes, x, strategy="forward-mode", vectorize=True)
        found.sum().backward()
        self.assertEqual(x.grad.tolist(), SECOND)


if __name__ == "__main__":
    unittest.main()
