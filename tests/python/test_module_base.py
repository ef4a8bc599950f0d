"""How modules are called and how their attributes are found."""

import copy
import typing
import unittest
import warnings

from module_under_test import torch

nn = torch.nn


class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.register_buffer("shift", torch.ones(1))

    def forward(self, x, factor=2):
        return x * factor + self.shift


class Attributes(unittest.TestCase):
    def test_members(self):
        module = Double()
        self.assertIs(module.inner, module._modules["inner"])
        self.assertIs(module.shift, module._buffers["shift"])
        self.assertIs(module.inner.weight, module.inner._parameters["weight"])
        replaced = nn.Parameter(torch.zeros(2, 2))
        module.inner._parameters["weight"] = replaced
        self.assertIs(module.inner.weight, replaced)
        with self.assertRaisesRegex(AttributeError, "'Double' object has no attribute 'missing'"):
            module.missing
        self.assertFalse(hasattr(module, "missing"))
        self.assertEqual(getattr(module, "missing", 5), 5)

    def test_usual_places_come_first(self):
        module = Double()
        module.__dict__["shift"] = "own"
        self.assertEqual(module.shift, "own")

        class Shadowed(Double):
            inner = property(lambda self: "of the class")

        self.assertEqual(Shadowed.__new__(Shadowed).inner, "of the class")

    def test_errors_within_properties(self):
        class Broken(Double):
            @property
            def value(self):
                return self.absent

        with self.assertRaises(AttributeError):
            Broken().value

    def test_own_lookup(self):
        class Wrapper(nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module

            def __getattr__(self, name):
                try:
                    return super().__getattr__(name)
                except AttributeError:
                    return getattr(self.module, name)

        wrapper = Wrapper(Double())
        self.assertIs(wrapper.inner, wrapper.module.inner)
        self.assertIs(copy.deepcopy(wrapper).shift.__class__, torch.Tensor)
        self.assertFalse(hasattr(wrapper, "missing"))

    def test_patched_lookup(self):
        seen = []
        original = nn.Module.__getattr__

        def watched(self, name):
            seen.append(name)
            return original(self, name)

        module = Double()
        nn.Module.__getattr__ = watched
        try:
            self.assertEqual(module.shift.item(), 1.0)
        finally:
            nn.Module.__getattr__ = original
        self.assertEqual(seen, ["shift"])
        self.assertEqual(module.shift.item(), 1.0)
        self.assertEqual(seen, ["shift"])

    def test_lookup_given_to_a_class_later(self):
        class Net(Double):
            pass

        class Derived(Net):
            pass

        module = Derived()
        self.assertFalse(hasattr(module, "missing"))
        Net.__getattr__ = lambda self, name: name.upper()
        self.assertEqual((module.missing, module.shift), ("MISSING", "SHIFT"))
        del Net.__getattr__
        self.assertEqual(module.shift.item(), 1.0)
        self.assertFalse(hasattr(module, "missing"))

    def test_every_lookup_replaced(self):
        class Watched(Double):
            def __getattribute__(self, name):
                return "watched" if name == "watch" else super().__getattribute__(name)

        module = Watched()
        self.assertEqual((module.watch, module.shift.item()), ("watched", 1.0))

    def test_other_errors_pass(self):
        class Broken(Double):
            @property
            def value(self):
                raise KeyError("of the property")

        with self.assertRaisesRegex(KeyError, "of the property"):
            Broken().value

    def test_before_initialisation(self):
        module = Double.__new__(Double)
        with self.assertRaisesRegex(AttributeError, "'Double' object has no attribute 'shift'"):
            module.shift

    def test_classes_with_arguments(self):
        class Named:
            def __init_subclass__(cls, name=None, **others):
                super().__init_subclass__(**others)
                cls.name = name

        class Net(Double, Named, name="net"):
            pass

        class Typed(nn.Module, typing.Generic[typing.TypeVar("T")]):
            pass

        self.assertEqual((Net.name, Net().shift.item()), ("net", 1.0))
        self.assertIsInstance(Typed[int](), Typed)
        with self.assertRaisesRegex(TypeError, "takes no keyword arguments"):
            class Unknown(nn.Module, unknown=1):
                pass

    def test_beside_another_base(self):
        class Listed(nn.Module, dict):
            pass

        listed = Listed()
        listed.part = nn.ReLU()
        listed["key"] = 1
        self.assertIsInstance(listed.part, nn.ReLU)


class Calls(unittest.TestCase):
    def test_arguments(self):
        module, x = Double(), torch.ones(1)
        self.assertEqual(module(x).item(), 3.0)
        self.assertEqual(module(x, 3).item(), 4.0)
        self.assertEqual(module(x, factor=4).item(), 5.0)
        with self.assertRaises(TypeError):
            module()
        with self.assertRaisesRegex(NotImplementedError, "missing the required \"forward\""):
            nn.Module()(1)

    def test_forward_of_an_instance(self):
        module = Double()
        module.forward = lambda x: "its own"
        self.assertEqual(module(1), "its own")

    def test_hooks_that_come_and_go(self):
        module, x = Double(), torch.ones(1)
        handle = module.register_forward_hook(lambda module, args, result: result * 10)
        self.assertEqual(module(x).item(), 30.0)
        handle.remove()
        self.assertEqual(module(x).item(), 3.0)
        handle = nn.modules.module.register_module_forward_hook(lambda *args: torch.zeros(()))
        self.assertEqual(module(x).item(), 0.0)
        handle.remove()
        self.assertEqual(module(x).item(), 3.0)

    def test_patched_call(self):
        seen = []
        original = nn.Module.__call__

        def watched(self, *args, **kwargs):
            seen.append(type(self).__name__)
            return original(self, *args, **kwargs)

        nn.Module.__call__ = watched
        try:
            nn.Sequential(nn.ReLU(), nn.Tanh())(torch.ones(1))
        finally:
            nn.Module.__call__ = original
        self.assertEqual(seen, ["Sequential", "ReLU", "Tanh"])
        nn.ReLU()(torch.ones(1))
        self.assertEqual(len(seen), 3)

    def test_own_call(self):
        class Counting(Double):
            calls = 0

            def __call__(self, *args, **kwargs):
                self.calls += 1
                return super().__call__(*args, **kwargs)

        class Other(Double):
            def _call_impl(self, *args, **kwargs):
                return "other"

        counting = Counting()
        self.assertEqual(counting(torch.ones(1)).item(), 3.0)
        self.assertEqual(counting.calls, 1)
        self.assertEqual(Other()(torch.ones(1)), "other")

    def test_lazy_modules_become_others(self):
        signals, images = torch.ones(2, 3, 8), torch.ones(2, 3, 8, 8)
        cases = [
            (nn.LazyLinear, (4,), nn.Linear, signals, (2, 3, 4)),
            (nn.LazyConv1d, (4, 3), nn.Conv1d, signals, (2, 4, 6)),
            (nn.LazyConv2d, (4, 3), nn.Conv2d, images, (2, 4, 6, 6)),
            (nn.LazyConvTranspose1d, (4, 3), nn.ConvTranspose1d, signals, (2, 4, 10)),
            (nn.LazyBatchNorm1d, (), nn.BatchNorm1d, signals, (2, 3, 8)),
            (nn.LazyInstanceNorm2d, (), nn.InstanceNorm2d, images, (2, 3, 8, 8)),
        ]
        for lazy, arguments, becomes, x, shape in cases:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = lazy(*arguments)
            self.assertEqual(module(x).shape, shape)
            self.assertIs(type(module), becomes)
            self.assertEqual(module(x).shape, shape)

    def test_own_lazy_module(self):
        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(3))

            def forward(self, x):
                return x * self.weight

        class LazyScale(nn.modules.lazy.LazyModuleMixin, Scale):
            cls_to_become = Scale

            def __init__(self):
                super().__init__()
                self.weight = nn.UninitializedParameter()

            def initialize_parameters(self, x):
                self.weight.materialize(x.shape[-1:])
                nn.init.constant_(self.weight, 2.0)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = LazyScale()
        self.assertEqual(module(torch.ones(2)).tolist(), [2.0, 2.0])
        self.assertIs(type(module), Scale)

    def test_class_beside_another_base_changes(self):
        class Named:
            label = "named"

        class Before(Named, Double):
            pass

        class After(Double):
            label = "plain"

        module = Before()
        module.__class__ = After
        self.assertEqual((module.label, module(torch.ones(1)).item()), ("plain", 3.0))
        module.__class__ = Before
        self.assertEqual((module.label, module.shift.item()), ("named", 1.0))

    def test_deep_nesting(self):
        class Endless(nn.Module):
            def forward(self, x):
                return self(x)

        with self.assertRaises(RecursionError):
            Endless()(1)


if __name__ == "__main__":
    unittest.main()
