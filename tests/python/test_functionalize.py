"""Programs without writes in place of programs with writes: the values, and the calls that PyTorch makes."""

import importlib
import json
import pathlib
import unittest

import functionalize_cases
from module_under_test import torch

from torch_dispatch_log import Log

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "functionalize.json"
WAYS = ("mutations", "mutations_and_views")
#: Programs whose calls differ from PyTorch's: operators that are made of others here; copies of views that keep
#: the strides of the view, so that ``reshape`` copies where it copies in the original program; sums of expanded
#: values, which are not rounded.
OTHERS = {"foreach", "expand_of_one", "index_put", "detached"}
OTHERS_OF_COPIES = {"reshape"}


def _flat(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _input(size, dtype):
    count = 1
    for one in size:
        count *= one
    return torch.arange(float(count)).view(size).to(getattr(torch, dtype))


class Programs(unittest.TestCase):
    """The programs of functionalize_cases.py."""

    def test_values(self):
        for name, (function, size, dtype) in functionalize_cases.cases(torch).items():
            for remove in WAYS:
                with self.subTest(name=name, remove=remove):
                    a, b = _input(size, dtype), _input(size, dtype)
                    expected = [*_flat(function(a)), a]
                    found = [*_flat(torch.func.functionalize(function, remove=remove)(b)), b]
                    for one, other in zip(expected, found):
                        # PyTorch's copy of a transposed view is no copy for ``reshape``.
                        if remove != "mutations_and_views" or name != "reshape" or torch.__name__ == "corten":
                            self.assertTrue(torch.equal(one, other))

    def test_calls(self):
        goldens = json.loads(GOLDENS.read_text())
        for name, (function, size, dtype) in functionalize_cases.cases(torch).items():
            for remove in WAYS:
                if name in OTHERS or remove == "mutations_and_views" and name in OTHERS_OF_COPIES:
                    continue
                with self.subTest(name=name, remove=remove):
                    x = _input(size, dtype)
                    with Log() as log:
                        torch.func.functionalize(function, remove=remove)(x)
                    self.assertEqual(log.names, goldens[f"{name} {remove}"]["calls"])

    def test_text(self):
        make_fx = importlib.import_module(f"{torch.__name__}.fx.experimental.proxy_tensor").make_fx

        goldens = json.loads(GOLDENS.read_text())
        programs = functionalize_cases.cases(torch)
        for name in ("one_view", "chain_of_views", "diagonal", "split", "unbind", "set_item", "fill", "copy"):
            function, size, dtype = programs[name]
            for remove in WAYS:
                with self.subTest(name=name, remove=remove):
                    made = make_fx(torch.func.functionalize(function, remove=remove))(_input(size, dtype))
                    self.assertEqual(made.code.strip(), goldens[f"{name} {remove}"]["code"].strip())


class Transforms(unittest.TestCase):
    """Transforms of functional programs, and functional programs of transforms."""

    x = torch.arange(4.0)

    def test_both_ways(self):
        functionalize, grad, vmap, jvp = (
            torch.func.functionalize, torch.func.grad, torch.func.vmap, torch.func.jvp,
        )

        def square(x):
            y = x.clone()
            y.mul_(x)
            return y

        def loss(x):
            return square(x).sum()

        twice = 2 * self.x
        self.assertTrue(torch.equal(grad(functionalize(loss))(self.x), twice))
        self.assertTrue(torch.equal(functionalize(grad(loss))(self.x), twice))
        self.assertTrue(torch.equal(vmap(functionalize(square))(self.x), self.x * self.x))
        self.assertTrue(torch.equal(functionalize(vmap(square))(self.x), self.x * self.x))
        self.assertTrue(torch.equal(functionalize(functionalize(square))(self.x), self.x * self.x))
        for made in (jvp(functionalize(square), (self.x,), (torch.ones(4),)),
                     functionalize(lambda x: jvp(square, (x,), (torch.ones(4),)))(self.x)):
            self.assertTrue(torch.equal(made[0], self.x * self.x))
            self.assertTrue(torch.equal(made[1], twice))

    def test_gradient_of_a_gradient(self):
        def cube(x):
            return x.clone().mul_(x).mul_(x).sum()

        found = torch.func.grad(lambda x: torch.func.grad(torch.func.functionalize(cube))(x).sum())(self.x)
        self.assertTrue(torch.equal(found, 6 * self.x))

    def test_views_of_what_is_written_later(self):
        """What autograd recorded of a view is out of date once its base, or another view of that, is written."""

        def base(x):
            y = x * 1
            z = y.unsqueeze(0)
            y.mul_(2)
            return z.sum() * y.sum()

        def copied(x):
            y = x * 1
            z = y.view(4)
            y.copy_(y.clone().mul_(3))
            return z.sum() * 3

        def overlapping(x):
            y = x * 1
            z, w = y[1:], y[:2]
            z.mul_(2)
            return w.sum() * 3

        def other_dtype(x):
            y = torch.complex(x, x)
            z = torch.view_as_real(y)
            y.mul_(2)
            return z.sum()

        x, grad, functionalize = torch.arange(4.0), torch.func.grad, torch.func.functionalize
        for function in (base, copied, overlapping, other_dtype):
            expected = grad(function)(x)
            for remove in ("mutations", "mutations_and_views"):
                with self.subTest(function=function.__name__, remove=remove):
                    self.assertTrue(torch.equal(functionalize(grad(function), remove=remove)(x), expected))
                    self.assertTrue(torch.equal(grad(functionalize(function, remove=remove))(x), expected))

    def test_batch_norm(self):
        mean, var, x = torch.zeros(3), torch.ones(3), torch.arange(12.0).view(4, 3)
        other_mean, other_var = mean.clone(), var.clone()

        def f(x, mean, var):
            return torch.nn.functional.batch_norm(x, mean, var, training=True)

        expected = f(x, mean, var)
        found = torch.func.functionalize(f)(x, other_mean, other_var)
        self.assertTrue(torch.equal(expected, found))
        self.assertTrue(torch.equal(mean, other_mean))
        self.assertTrue(torch.equal(var, other_var))

    def test_refused(self):
        with self.assertRaisesRegex(RuntimeError, "received invalid argument for remove=nothing"):
            torch.func.functionalize(lambda x: x, remove="nothing")(self.x)
        outside = torch.zeros(4)
        with self.assertRaisesRegex(RuntimeError, "mutating a non-functional tensor with a functional tensor"):
            torch.func.functionalize(lambda x: outside.add_(x))(self.x)
        with self.assertRaisesRegex(RuntimeError, "output with shape|doesn't match the broadcast shape"):
            torch.func.functionalize(lambda x: x.clone().add_(torch.zeros(2, 4)))(self.x)

    def test_random(self):
        for name, args in (("normal_", ()), ("uniform_", ()), ("bernoulli_", (0.5,)), ("random_", (0, 9)),
                           ("exponential_", ())):
            with self.subTest(name=name):
                torch.manual_seed(3)
                expected = getattr(torch.zeros(5), name)(*args)
                torch.manual_seed(3)
                found = torch.func.functionalize(lambda x: getattr(torch.zeros(5), name)(*args))(self.x)
                self.assertTrue(torch.equal(expected, found))


class Tensors(unittest.TestCase):
    """Functional tensors one by one."""

    def test_aliases(self):
        value = torch.ones(4)
        made = torch._to_functional_tensor(value)
        self.assertTrue(torch._is_functional_tensor(made))
        self.assertFalse(torch._is_functional_tensor(value))
        view = made.view(2, 2)
        made.add_(1)
        torch._sync(view)
        self.assertEqual(torch._from_functional_tensor(view).tolist(), [[2.0, 2.0]] * 2)
        self.assertEqual(value.tolist(), [1.0] * 4)

    def test_factories(self):
        torch._enable_functionalization(reapply_views=True)
        try:
            made = torch.zeros(2)
            self.assertTrue(torch._is_functional_tensor(made))
        finally:
            torch._disable_functionalization()
        self.assertFalse(torch._is_functional_tensor(torch.zeros(2)))

    def test_frozen(self):
        made = torch._to_functional_tensor(torch.ones(2, 2))
        view = made[0]
        torch._freeze_functional_tensor(made)
        for one in (made, view):
            with self.assertRaises(RuntimeError):
                one.add_(1)

    @unittest.skipUnless(torch.__name__ == "corten", "PyTorch adds all writes up")
    def test_overlap(self):
        made = torch._to_functional_tensor(torch.ones(1, 5))
        with self.assertRaisesRegex(RuntimeError, "encountered a tensor being mutated that has internal overlap"):
            made.expand(2, 5).add_(1)


if __name__ == "__main__":
    unittest.main()
