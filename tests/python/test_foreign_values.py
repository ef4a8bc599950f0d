"""Values and classes of other kinds that functions take: storages, parameters as arrays, classes of
other libraries, types of futures, modules as functions."""

import importlib
import inspect
import unittest

import numpy
from module_under_test import torch

futures = importlib.import_module(torch.__name__ + ".futures")
distributions = importlib.import_module(torch.__name__ + ".distributions")
CORTEN = torch.__name__ == "corten"


class Arrays(unittest.TestCase):
    def test_where_nothing_is_recorded(self):
        x = torch.ones(2, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "requires grad"):
            x.numpy()
        for block in (torch.no_grad(), torch.inference_mode()):
            with block:
                self.assertEqual(x.numpy().tolist(), [1.0, 1.0])
                self.assertEqual(numpy.asarray(x).tolist(), [1.0, 1.0])
        self.assertEqual(x.numpy(force=True).tolist(), [1.0, 1.0])


class Storages(unittest.TestCase):
    def test_arrays_share_them(self):
        storage = torch.tensor([1.0, 2.0, 3.0]).untyped_storage()
        for make in (torch.asarray, torch.as_tensor):
            made = make(storage, dtype=torch.float32)
            self.assertEqual((made.tolist(), made.data_ptr()), ([1.0, 2.0, 3.0], storage.data_ptr()))
        self.assertEqual(torch.asarray(storage, dtype=torch.uint8).shape, (12,))
        self.assertEqual(torch.asarray(torch.UntypedStorage(0)).dtype, torch.float32)
        with self.assertRaises(ValueError):
            torch.asarray(storage, copy=False)

    def test_typed(self):
        storage = torch.tensor([1.0, 2.0]).storage()
        made = torch.asarray(storage)
        self.assertEqual((made.tolist(), made.data_ptr()), ([1.0, 2.0], storage.data_ptr()))
        with self.assertRaisesRegex(RuntimeError, "Expected a Storage of type Double"):
            torch.asarray(storage, dtype=torch.float64)

    @unittest.skipUnless(CORTEN, "PyTorch does not copy")
    def test_copies(self):
        storage = torch.tensor([1.0]).untyped_storage()
        made = torch.asarray(storage, dtype=torch.float32, copy=True)
        self.assertNotEqual(made.data_ptr(), storage.data_ptr())


class Types(unittest.TestCase):
    def test_futures(self):
        self.assertIn("Future[int]", repr(futures.Future[int]))
        self.assertIn("Future", repr(futures.Future[torch.Tensor]))

    def test_divergences_of_foreign_classes(self):
        class Foreign:
            pass

        class Derived(Foreign):
            pass

        @distributions.register_kl(Foreign, distributions.Normal)
        def divergence(p, q):
            return 42

        self.assertEqual(distributions.kl_divergence(Derived(), distributions.Normal(0.0, 1.0)), 42)
        with self.assertRaises(TypeError):
            distributions.register_kl(3, Foreign)

    def test_modules_as_functions(self):
        signature = inspect.signature(torch.nn.Linear(1, 1))
        self.assertEqual(
            [one.kind for one in signature.parameters.values()],
            [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD],
        )


class Precisions(unittest.TestCase):
    def test_statistics(self):
        torch.manual_seed(0)
        x = torch.randn(2, 3, 5)
        mean, var = torch.zeros(3), torch.ones(3)
        expected = torch.nn.functional.instance_norm(x, mean, var)
        wide = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
        torch.testing.assert_close(torch.nn.functional.instance_norm(x, *wide), expected)
        torch.testing.assert_close(wide[0], mean.double())
        torch.testing.assert_close(wide[1], var.double())

    def test_triangular_systems(self):
        A = torch.tensor([[2.0, 1.0], [0.0, 4.0]])
        B = torch.tensor([[2.0], [8.0]], requires_grad=True)
        for left, right in ((A.double(), B), (A, B.double())):
            X = torch.linalg.solve_triangular(left, right, upper=True)
            self.assertEqual((X.dtype, X.tolist()), (left.dtype, [[0.0], [2.0]]))
        X.sum().backward()
        self.assertEqual(B.grad.dtype, torch.float32)


if __name__ == "__main__":
    unittest.main()
