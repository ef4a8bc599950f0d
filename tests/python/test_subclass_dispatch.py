"""Subclasses of `Tensor` with a `__torch_dispatch__`, which operators would not call: refused."""

import unittest

from module_under_test import torch

CORTEN = torch.__name__ == "corten"


class Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError


class Derived(Dispatching):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Static(torch.Tensor):
    @staticmethod
    def __torch_dispatch__(func, types, args=(), kwargs=None):
        raise AssertionError


class Mixin:
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError


class Mixed(Mixin, torch.Tensor):
    pass


class Weight(torch.nn.Parameter):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError


class OptedOut(Dispatching):
    __torch_dispatch__ = torch._C._disabled_torch_dispatch_impl


class Shadowed(torch.Tensor, Mixin):
    """`Tensor` comes first, so that its own is found."""


class Asking(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


WAYS = {
    "constructor": lambda kind: kind(torch.ones(2)),
    "as_subclass": lambda kind: torch.ones(2).as_subclass(kind),
    "_make_subclass": lambda kind: torch.Tensor._make_subclass(kind, torch.ones(2)),
    "__new__": lambda kind: torch.Tensor.__new__(kind, torch.ones(2)),
}


class Instances(unittest.TestCase):
    @unittest.skipUnless(CORTEN, "PyTorch calls it")
    def test_refused(self):
        for kind in (Dispatching, Derived, Static, Mixed, Weight):
            for name, way in WAYS.items():
                with self.subTest(kind=kind.__name__, way=name):
                    with self.assertRaisesRegex(
                        NotImplementedError, f"{kind.__name__}'> defines __torch_dispatch__"
                    ):
                        way(kind)
            with self.assertRaisesRegex(NotImplementedError, "__torch_dispatch__"):
                torch.Tensor._make_wrapper_subclass(kind, (2,))

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
