"""The Python side of tensors: one object per tensor, its life, its class."""

import copy
import gc
import pickle
import threading
import unittest
import weakref

from module_under_test import torch


class Identity(unittest.TestCase):
    def test_the_same_object(self):
        x = torch.ones(2, requires_grad=True)
        (x * x).sum().backward()
        self.assertIs(x.grad, x.grad)
        y = x * 2
        self.assertIs(y.grad_fn, y.grad_fn)
        self.assertIs(x.view(2)._base, x)

    def test_attributes_survive_while_the_graph_holds_the_tensor(self):
        x = torch.ones(2, requires_grad=True)
        leaf = torch.ones(2, requires_grad=True)
        leaf.note = "kept"
        y = (x * leaf).sum()
        del leaf
        gc.collect()
        found = [node.variable for node, _ in y.grad_fn.next_functions[0][0].next_functions]
        self.assertEqual([getattr(v, "note", None) for v in found], [None, "kept"])

    def test_in_place_returns_itself(self):
        x = torch.ones(2)
        self.assertIs(x.add_(1), x)
        before = x
        x += 1
        self.assertIs(x, before)

    def test_weak_references(self):
        x = torch.ones(2)
        ref = weakref.ref(x)
        self.assertIs(ref(), x)
        del x
        gc.collect()
        self.assertIsNone(ref())

    def test_cycles_through_attributes_are_collected(self):
        x = torch.ones(2)
        x.me = x
        ref = weakref.ref(x)
        del x
        gc.collect()
        self.assertIsNone(ref())

    def test_hash_is_identity(self):
        a, b = torch.ones(1), torch.ones(1)
        self.assertEqual(len({a, b, a}), 2)

    def test_threads(self):
        x = torch.ones(4, requires_grad=True)
        failures = []

        def work():
            try:
                for _ in range(300):
                    y = (x * 2).sum()
                    torch.autograd.grad(y, x)
                    x.detach().clone().add_(1)
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Subclass(torch.Tensor):
    pass


class Counting(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs)


class Subclasses(unittest.TestCase):
    def test_results_keep_the_class(self):
        x = torch.ones(2).as_subclass(Subclass)
        self.assertIs(type(x + 1), Subclass)
        self.assertIs(type(torch.add(x, x)), Subclass)
        self.assertIs(type(x.sum()), Subclass)
        self.assertIs(type(x[0]), Subclass)

    def test_overrides_see_calls(self):
        Counting.calls.clear()
        x = torch.ones(2).as_subclass(Counting)
        torch.add(x, 1)
        x.mul(2)
        self.assertEqual(Counting.calls, ["add", "mul"])

    def test_objects_that_are_no_tensors(self):
        class Fake:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return "mine"

        self.assertEqual(torch.add(Fake(), 1), "mine")
        self.assertEqual(torch.cat([torch.ones(1), Fake()]), "mine")

    def test_modes(self):
        from importlib import import_module

        seen = []

        class Log(import_module(torch.__name__ + ".overrides").TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        p = torch.nn.Parameter(torch.ones(2))
        with Log():
            torch.ones(2).add(1)
            self.assertIsInstance(p, torch.nn.Parameter)
        torch.ones(2).add(1)
        self.assertEqual(seen, ["ones", "add"])

    def test_parameter(self):
        p = torch.nn.Parameter(torch.ones(2))
        self.assertIs(type(p + 1), torch.Tensor)
        self.assertIsInstance(p, torch.Tensor)
        self.assertTrue(repr(p).startswith("Parameter containing:\ntensor("))


class Copies(unittest.TestCase):
    def test_deepcopy(self):
        x = torch.arange(6.0).view(2, 3).t()
        x.note = [1]
        y = copy.deepcopy(x)
        self.assertEqual((y.stride(), y.note), (x.stride(), [1]))
        self.assertIsNot(y.note, x.note)
        a, b = copy.deepcopy([x, x[0]])
        a[0, 0] = 7
        self.assertEqual(b[0].item(), 7)
        with self.assertRaisesRegex(RuntimeError, "Only Tensors created explicitly by the user"):
            copy.deepcopy(torch.ones(1, requires_grad=True) * 2)

    def test_pickle(self):
        x = torch.arange(4.0, requires_grad=True)
        y = pickle.loads(pickle.dumps(x))
        self.assertEqual((y.tolist(), y.requires_grad), (x.tolist(), True))
        for value in (torch.float32, torch.Size([1, 2]), torch.device("cpu"), torch.add,
                      torch.channels_last):
            self.assertEqual(pickle.loads(pickle.dumps(value)), value)

    def test_storages(self):
        x = torch.zeros(3)
        self.assertEqual(x.untyped_storage(), x[1:].untyped_storage())
        self.assertEqual(x.untyped_storage().nbytes(), 12)


class Functions(unittest.TestCase):
    def test_custom_function(self):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                ctx.save_for_backward(x)
                ctx.scale = scale
                return scale * x * x

            @staticmethod
            def backward(ctx, grad):
                x, = ctx.saved_tensors
                return 2 * ctx.scale * x * grad, None

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = Square.apply(x, 3)
        self.assertEqual(type(y.grad_fn).__name__, "SquareBackward")
        y.sum().backward()
        self.assertEqual(x.grad.tolist(), [6.0, 12.0])

    def test_wrong_number_of_gradients(self):
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return grad, grad

        y = Wrong.apply(torch.ones(1, requires_grad=True))
        with self.assertRaisesRegex(RuntimeError, r"expected 1, got 2"):
            y.backward()

    def test_errors_in_hooks_arrive(self):
        class Mine(Exception):
            pass

        def hook(grad):
            raise Mine("here")

        x = torch.ones(1, requires_grad=True)
        x.register_hook(hook)
        with self.assertRaisesRegex(Mine, "here"):
            (x * 2).backward()

    def test_modes(self):
        x = torch.ones(1, requires_grad=True)
        with torch.no_grad():
            self.assertFalse((x * 2).requires_grad)
            with torch.enable_grad():
                self.assertTrue((x * 2).requires_grad)

        @torch.no_grad()
        def decorated():
            return torch.is_grad_enabled()

        @torch.no_grad
        def bare():
            return torch.is_grad_enabled()

        self.assertEqual((decorated(), bare(), torch.is_grad_enabled()), (False, False, True))
        with torch.inference_mode():
            self.assertTrue(torch.ones(1).is_inference())
        torch.set_grad_enabled(False)
        self.assertFalse(torch.is_grad_enabled())
        torch.set_grad_enabled(True)


if __name__ == "__main__":
    unittest.main()
