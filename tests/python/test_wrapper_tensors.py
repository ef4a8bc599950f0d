"""Classes of tensors that wrap others: what they answer, what modes see, what results alias."""

import copy
import importlib
import unittest

from module_under_test import torch

from torch_dispatch_log import Log

dispatch = importlib.import_module(f"{torch.__name__}.utils._python_dispatch")
pytree = importlib.import_module(f"{torch.__name__}.utils._pytree")
no_dispatch = importlib.import_module(f"{torch.__name__}.utils._mode_utils").no_dispatch


class Wrapper(torch.Tensor):
    """A tensor of another one."""

    calls = []

    @staticmethod
    def __new__(cls, elem, **options):
        made = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            layout=elem.layout, device=elem.device, requires_grad=elem.requires_grad, **options,
        )
        made.elem = elem.detach() if elem.requires_grad else elem
        return made

    def __tensor_flatten__(self):
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Wrapper(inner["elem"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(str(func))
        args, kwargs = pytree.tree_map(lambda x: x.elem if isinstance(x, Wrapper) else x, (args, kwargs or {}))
        return pytree.tree_map(lambda x: Wrapper(x) if isinstance(x, torch.Tensor) else x, func(*args, **kwargs))


class Aliasing(Wrapper):
    """As `Wrapper`, giving back what is written to."""

    @staticmethod
    def __new__(cls, elem):
        return Wrapper.__new__(cls, elem)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inner_args, inner = pytree.tree_map(
            lambda x: x.elem if isinstance(x, Aliasing) else x, (args, kwargs or {}))
        result = pytree.tree_map(
            lambda x: Aliasing(x) if isinstance(x, torch.Tensor) else x, func(*inner_args, **inner))
        return dispatch.return_and_correct_aliasing(func, args, kwargs or {}, result)


class Calls(unittest.TestCase):
    """Calls of wrappers, with modes and without."""

    def setUp(self):
        Wrapper.calls.clear()

    def test_calls(self):
        made = Wrapper(torch.ones(2, 3))
        found = torch.mm(made, made.t()) + 1
        self.assertIsInstance(found, Wrapper)
        self.assertEqual(found.elem.tolist(), [[4.0, 4.0]] * 2)
        self.assertEqual(Wrapper.calls, ["aten.t.default", "aten.mm.default", "aten.add.Tensor"])

    def test_gradient(self):
        made = Wrapper(torch.ones(3, requires_grad=True))
        (made * made).sum().backward()
        self.assertIsInstance(made.grad, Wrapper)
        self.assertEqual(made.grad.elem.tolist(), [2.0, 2.0, 2.0])

    def test_mode_first(self):
        made = Wrapper(torch.ones(2))
        with Log() as log:
            made.cos()
        # What a mode calls itself does not arrive at it.
        self.assertEqual(log.names, ["aten.cos.default"])
        self.assertEqual(Wrapper.calls, ["aten.cos.default"])

    def test_modes(self):
        with Log() as outer, Log() as inner:
            self.assertEqual(dispatch._get_current_dispatch_mode_stack(), [outer, inner])
            self.assertIs(dispatch._get_current_dispatch_mode(), inner)
            torch.ones(2).cos()
            with dispatch._disable_current_modes() as before:
                self.assertEqual(before, [inner, outer])
                torch.ones(2).sin()
        self.assertEqual(inner.names, ["aten.ones.default", "aten.cos.default"])
        self.assertEqual(outer.names, inner.names)
        self.assertEqual(dispatch._get_current_dispatch_mode_stack(), [])

    def test_function_mode_above(self):
        class Functions(torch.overrides.TorchFunctionMode):
            names = []

            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.names.append(func.__name__)
                return func(*args, **(kwargs or {}))

        made = Wrapper(torch.ones(2))
        with Functions() as functions, Log() as log:
            torch.cos(made)
        self.assertIn("cos", functions.names)
        self.assertEqual(log.names, ["aten.cos.default"])

    def test_base_class(self):
        class Marked(torch.Tensor):
            called = []

            @staticmethod
            def __new__(cls, elem):
                return torch.Tensor._make_subclass(cls, elem)

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                cls.called.append(str(func))
                return super().__torch_dispatch__(func, types, args, kwargs)

        found = Marked(torch.ones(2)).neg()
        self.assertEqual(found.tolist(), [-1.0, -1.0])
        self.assertIn("aten.neg.default", Marked.called)

    def test_no_dispatch(self):
        with Log() as log, no_dispatch():
            torch.ones(2).cos()
        self.assertEqual(log.names, [])

    def test_declined(self):
        class Declines(Wrapper):
            @staticmethod
            def __new__(cls, elem):
                return Wrapper.__new__(cls, elem)

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return NotImplemented

        with self.assertRaisesRegex(TypeError, "Multiple dispatch failed|no implementation found"):
            Declines(torch.ones(2)).cos()


class Shapes(unittest.TestCase):
    """Wrappers that answer for their sizes, strides, device and layout."""

    def made(self, answers, **policy):
        class Answers(torch.Tensor):
            asked = []

            @staticmethod
            def __new__(cls):
                return torch.Tensor._make_wrapper_subclass(cls, (2, 3), **policy)

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                cls.asked.append(str(func))
                return answers.get(str(func).partition(".default")[0], NotImplemented)

        return Answers()

    def test_sizes(self):
        made = self.made({"aten.sym_size": (4, 5), "aten.sym_stride": (5, 1)}, dispatch_sizes_strides_policy="sizes")
        self.assertEqual(tuple(made.shape), (4, 5))
        self.assertEqual(made.size(1), 5)
        self.assertEqual(made.stride(), (5, 1))
        self.assertIn("aten.sym_size.default", type(made).asked)

    def test_strides(self):
        made = self.made({"aten.sym_stride": (1, 2)}, dispatch_sizes_strides_policy="strides")
        self.assertEqual(tuple(made.shape), (2, 3))
        self.assertEqual(made.stride(), (1, 2))

    def test_device(self):
        made = self.made({"prim.device": torch.device("meta")}, dispatch_device=True)
        self.assertEqual(made.device.type, "meta")

    def test_layout(self):
        made = self.made({"prim.layout": torch.sparse_coo}, dispatch_layout=True)
        self.assertEqual(made.layout, torch.sparse_coo)

    def test_unknown_policy(self):
        with self.assertRaisesRegex(ValueError, "Unknown sizes_strides_policy: meow"):
            self.made({}, dispatch_sizes_strides_policy="meow")


class Results(unittest.TestCase):
    """What results alias, and what wrappers are made of."""

    def test_written(self):
        made = Aliasing(torch.ones(2))
        self.assertIs(made.add_(1), made)
        self.assertEqual(made.elem.tolist(), [2.0, 2.0])
        out = Aliasing(torch.zeros(2))
        self.assertIs(torch.add(made, 1, out=out), out)
        self.assertEqual(out.elem.tolist(), [3.0, 3.0])

    def test_view_in_place(self):
        made = Aliasing(torch.ones(2, 3))
        self.assertIs(made.t_(), made)
        self.assertEqual(tuple(made.shape), (3, 2))

    def test_parts(self):
        made = Wrapper(torch.ones(2))
        self.assertTrue(dispatch.is_traceable_wrapper_subclass(made))
        self.assertFalse(dispatch.is_traceable_wrapper_subclass(torch.ones(2)))
        other = dispatch.transform_subclass(made, lambda name, inner: inner * 2)
        self.assertIsInstance(other, Wrapper)
        self.assertEqual(other.elem.tolist(), [2.0, 2.0])

    def test_copies(self):
        made = copy.copy(Wrapper(torch.ones(2)))
        self.assertEqual(made.elem.tolist(), [1.0, 1.0])


if __name__ == "__main__":
    unittest.main()
