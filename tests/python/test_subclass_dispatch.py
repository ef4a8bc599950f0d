"""Subclasses of `Tensor` with a `__torch_dispatch__`, which operators ask below autograd."""

import unittest

from module_under_test import torch

aten = torch.ops.aten
tree_map = torch.utils._pytree.tree_map


class Scaled(torch.Tensor):
    """Integers and a scale in the place of elements."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(
            cls, data.shape, dtype=torch.float32, device=data.device, requires_grad=False)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    def __repr__(self):
        return f"Scaled({self.data_.tolist()}, {self.scale})"

    def __tensor_flatten__(self):
        return ["data_"], [self.scale]

    @classmethod
    def __tensor_unflatten__(cls, tensors, attributes, size, stride):
        return cls(tensors["data_"], attributes[0])

    def dense(self):
        return self.data_.float() * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        Scaled.calls.append((func, len(args), sorted(kwargs)))
        if func in (aten.detach.default, aten.clone.default, aten.alias.default):
            return cls(func(args[0].data_), args[0].scale)
        if func is aten.t.default:
            return cls(args[0].data_.t(), args[0].scale)
        if func is aten._to_copy.default:
            return args[0].dense().to(**kwargs)
        if func is aten.mul_.Tensor:
            args[0].scale = args[0].scale * args[1].item()
            return args[0]
        dense = tree_map(lambda one: one.dense() if isinstance(one, Scaled) else one, args)
        return func(*dense, **kwargs)

    __torch_function__ = torch._C._disabled_torch_function_impl
    calls = []


class Declining(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Derived(Scaled):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        assert types[0] is Derived
        return super().__torch_dispatch__(func, types, args, kwargs)


class OptedOut(Declining):
    __torch_dispatch__ = torch._C._disabled_torch_dispatch_impl


class Mixin:
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Shadowed(torch.Tensor, Mixin):
    """`Tensor` comes first, so that its own is found."""


class Asking(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


WAYS = {
    "as_subclass": lambda kind: torch.ones(2).as_subclass(kind),
    "_make_subclass": lambda kind: torch.Tensor._make_subclass(kind, torch.ones(2)),
}


class Instances(unittest.TestCase):
    def setUp(self):
        Scaled.calls.clear()
        self.x = Scaled(torch.tensor([[1, 2], [3, 4]], dtype=torch.int8), 0.5)

    def test_facts(self):
        x = self.x
        self.assertEqual((type(x), tuple(x.shape), x.dtype, x.stride(), x.numel()),
                         (Scaled, (2, 2), torch.float32, (2, 1), 4))
        self.assertEqual(Scaled.calls, [])
        self.assertEqual(repr(x), "Scaled([[1, 2], [3, 4]], 0.5)")

    def test_operators(self):
        x, ones = self.x, torch.ones(2, 2)
        self.assertEqual((x + 1).tolist(), [[1.5, 2], [2.5, 3]])
        self.assertEqual(torch.add(ones, x).tolist(), [[1.5, 2], [2.5, 3]])
        self.assertEqual((ones @ x).tolist(), [[2, 3], [2, 3]])
        self.assertEqual(x.sum().item(), 5)
        self.assertEqual(torch.nn.functional.linear(ones, x).tolist(), [[1.5, 3.5], [1.5, 3.5]])
        self.assertEqual(torch.cat([x, ones]).shape, (4, 2))
        self.assertEqual(type(x.t()), Scaled)
        self.assertEqual(x.to(torch.float64).dtype, torch.float64)
        self.assertEqual((x > 1).tolist(), [[False, False], [True, True]])
        x *= torch.tensor(2.0)
        self.assertEqual((type(x), x.scale), (Scaled, 1.0))

    def test_arguments(self):
        self.x.sum()
        self.x.sum(1)
        torch.sub(self.x, 1, alpha=2)
        self.x.clone()
        self.assertEqual([call[1:] for call in Scaled.calls], [(1, []), (2, []), (2, ["alpha"]), (1, [])])
        self.assertIs(Scaled.calls[0][0], aten.sum.default)

    def test_autograd(self):
        y = torch.ones(2, 2, requires_grad=True)
        (y @ self.x).sum().backward()
        self.assertEqual(y.grad.tolist(), [[1.5, 3.5], [1.5, 3.5]])

    def test_parameters(self):
        layer = torch.nn.Linear(2, 2, bias=False)
        layer.weight = torch.nn.Parameter(self.x, requires_grad=False)
        self.assertIsInstance(layer.weight, torch.nn.Parameter)
        self.assertEqual(type(layer.weight.data), Scaled)
        self.assertEqual(layer(torch.ones(1, 2)).tolist(), [[1.5, 3.5]])
        self.assertIs(layer.state_dict()["weight"].__class__, Scaled)

    def test_derived_classes_are_asked_first(self):
        derived = Derived(torch.ones(2, 2, dtype=torch.int8), 2.0)
        self.assertEqual((self.x + derived).tolist(), [[2.5, 3], [3.5, 4]])

    def test_modes_are_asked_first(self):
        class Mode(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        seen = []
        with Mode():
            self.x + 1
        self.assertIn(aten.add.Tensor, seen)

    def test_declined(self):
        for way in WAYS.values():
            with self.assertRaisesRegex(TypeError, "Multiple dispatch failed for"):
                torch.add(way(Declining), 1)

    def test_others(self):
        for kind in (OptedOut, Shadowed, Asking):
            for name, way in WAYS.items():
                with self.subTest(kind=kind.__name__, way=name):
                    made = way(kind)
                    self.assertIs(type(made), kind)
                    self.assertEqual((made + 1).tolist(), [2.0, 2.0])
        self.assertIs(torch.Tensor.__torch_dispatch__, torch._C._disabled_torch_dispatch_impl)
        self.assertIs(type(torch.nn.Parameter(torch.ones(2))), torch.nn.Parameter)

    def test_types(self):
        with self.assertRaises(TypeError):
            torch.Tensor._make_wrapper_subclass(int, (2,))


if __name__ == "__main__":
    unittest.main()
