"""Storages without memory, of other dtypes, and in structures that are copied or pickled."""

import copy
import pickle
import tempfile
import unittest
import warnings

from module_under_test import torch


class Storages(unittest.TestCase):
    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")

    def test_meta(self):
        for made in (torch.UntypedStorage([1, 2, 3], device="meta"), torch.TypedStorage([1, 2], dtype=torch.int16, device="meta")):
            self.assertEqual((made.device.type, made.data_ptr()), ("meta", 0))
            for wrong in (lambda: made[0], lambda: made.tolist()):
                with self.assertRaisesRegex(NotImplementedError, "Not available"):
                    wrong()
            with self.assertRaisesRegex(NotImplementedError, "Cannot copy out"):
                made.cpu()
            for wrong in (made.share_memory_, made._share_fd_cpu_, made._share_filename_cpu_):
                with self.assertRaisesRegex(RuntimeError, "only available on CPU"):
                    wrong()
            with tempfile.NamedTemporaryFile() as file, self.assertRaisesRegex(NotImplementedError, "Cannot copy out"):
                made._write_file(file, True, True, 1)
        with self.assertRaisesRegex(NotImplementedError, "Cannot copy out"):
            torch.TypedStorage([1, 2], dtype=torch.int16).copy_(torch.TypedStorage([1, 2], dtype=torch.int16, device="meta"))

    def test_dtypes(self):
        x = torch.ones(2, dtype=torch.float64)
        self.assertIs(x.storage_type(), torch.DoubleStorage)
        y = torch.empty(0, dtype=torch.float64)
        y.set_(x.storage())
        y.set_(x.untyped_storage())
        with self.assertRaisesRegex(RuntimeError, "Expected a Storage of type"):
            torch.empty(0).set_(x.storage())

    def test_copies_share_as_before(self):
        a = torch.randn(6)
        copied = copy.deepcopy([a, [a.storage()], a.view(2, 3)])
        copied[0].add_(1)
        self.assertEqual(copied[1][0].tolist(), copied[0].tolist())
        self.assertEqual(copied[2].reshape(-1).tolist(), copied[0].tolist())
        self.assertNotEqual(a.tolist(), copied[0].tolist())

    def test_generators_are_pickled(self):
        generator = torch.Generator().manual_seed(12345)
        torch.randn(100, generator=generator)
        other = pickle.loads(pickle.dumps(generator))
        self.assertEqual(other.initial_seed(), 12345)
        self.assertTrue(torch.equal(torch.randn(4, generator=generator), torch.randn(4, generator=other)))


class Settings(unittest.TestCase):
    def test_deterministic_algorithms(self):
        with self.assertRaisesRegex(TypeError, r"argument 'mode' \(position 1\) must be bool, not int"):
            torch.use_deterministic_algorithms(1)
        with self.assertRaisesRegex(TypeError, "argument 'warn_only' must be bool, not int"):
            torch.use_deterministic_algorithms(False, warn_only=1)

    def test_flags_as_decorators(self):
        cudnn = torch.backends.cudnn

        @cudnn.flags(enabled=True, benchmark=True)
        def inside():
            return cudnn.benchmark

        before = cudnn.benchmark
        self.assertEqual((inside(), inside(), cudnn.benchmark), (True, True, before))

    def test_functions_of_elements(self):
        x, y = torch.ones(2), torch.ones(2, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "requires grad"):
            x.map2_(torch.ones(2), y, lambda a, b, c: a)

    def test_bounds_of_random_tensors(self):
        make = torch.testing.make_tensor
        with self.assertWarnsRegex(FutureWarning, "Passing `low==high`"):
            self.assertEqual(make(3, dtype=torch.float32, device="cpu", low=2, high=2).tolist(), [2.0] * 3)
        for options in ({"dtype": torch.int8, "low": 300, "high": 400}, {"dtype": torch.uint8, "low": -4, "high": -2},
                        {"dtype": torch.int32, "low": 1, "high": 1}):
            with self.assertRaises(ValueError):
                make(3, device="cpu", **options)


if __name__ == "__main__":
    unittest.main()
