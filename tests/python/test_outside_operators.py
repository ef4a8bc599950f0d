"""Operators of one's own that have kernels for a device, and no derivative."""

import importlib
import itertools
import unittest
import warnings

from module_under_test import torch

library = importlib.import_module(torch.__name__ + ".library")
_numbers = itertools.count()


def operator(schema, kernel):
    """An operator with one kernel, for the CPU."""
    namespace = f"corten_outside{next(_numbers)}"
    made = library.Library(namespace, "DEF")
    made.define("f" + schema)
    made.impl("f", kernel, "CPU")
    return made, getattr(getattr(torch.ops, namespace), "f")


def warned(run):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = run()
    return result, [str(one.message) for one in seen if "autograd kernel was not registered" in str(one.message)]


class Gradients(unittest.TestCase):
    def test_kernels_of_recorded_operators(self):
        kept, f = operator("(Tensor x) -> Tensor", lambda x: x * 2)
        x = torch.ones(3, requires_grad=True)
        y, messages = warned(lambda: f(x))
        self.assertEqual((y.tolist(), messages), ([2.0] * 3, []))
        (grad,), messages = warned(lambda: torch.autograd.grad(y.sum(), x))
        self.assertEqual(grad.tolist(), [2.0] * 3)
        self.assertEqual(len(messages), 1)
        del kept

    def test_kernels_without_history(self):
        kept, f = operator(
            "(Tensor x, Tensor y) -> (Tensor, Tensor)", lambda x, y: (x.detach() * 2, y.detach().long())
        )
        x = torch.ones(3, requires_grad=True)
        a, b = f(x, x)
        self.assertEqual((a.requires_grad, b.requires_grad), (True, False))
        self.assertIn("WarnNotImplemented", a.grad_fn.name())
        (grad,), messages = warned(lambda: torch.autograd.grad(a.sum(), x, allow_unused=True))
        self.assertIsNone(grad)
        self.assertEqual(len(messages), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (a.sum() + x.sum()).backward()
        self.assertEqual(x.grad.tolist(), [1.0] * 3)
        del kept

    def test_writes(self):
        kept, f = operator("(Tensor(a!) x) -> Tensor(a!)", lambda x: x.mul_(2))
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        version = y._version
        f(y)
        self.assertEqual(y.tolist(), [2.0] * 3)
        self.assertGreater(y._version, version)
        (grad,), messages = warned(lambda: torch.autograd.grad(y.sum(), x))
        self.assertEqual((grad.tolist(), len(messages)), ([2.0] * 3, 1))
        del kept

    def test_lists(self):
        kept, f = operator("(Tensor[] x) -> Tensor[]", lambda x: [one.detach() + 1 for one in x])
        made = f([torch.ones(1, requires_grad=True), torch.ones(2)])
        self.assertEqual([one.requires_grad for one in made], [True, True])
        del kept

    def test_without_recording(self):
        kept, f = operator("(Tensor x) -> Tensor", lambda x: x.detach() * 2)
        x = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            self.assertFalse(f(x).requires_grad)
        self.assertFalse(f(x.detach()).requires_grad)
        del kept


if __name__ == "__main__":
    unittest.main()
