"""Data to and from NumPy, buffers and DLPack."""

import unittest

from module_under_test import torch

try:
    import numpy as np
except ImportError:
    np = None


@unittest.skipIf(np is None, "numpy is not installed")
class NumPy(unittest.TestCase):
    def test_shared_memory_both_ways(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3).T
        x = torch.from_numpy(array)
        self.assertEqual(x.stride(), (1, 3))
        x[0, 0] = 9
        self.assertEqual(array[0, 0], 9)
        back = x.numpy()
        back[1, 1] = 8
        self.assertEqual(x[1, 1].item(), 8)

    def test_memory_outlives_the_other_side(self):
        x = torch.from_numpy(np.ones(1000))
        self.assertEqual(x.sum().item(), 1000)
        array = torch.ones(1000).numpy()
        self.assertEqual(array.sum(), 1000)

    def test_old_constructors(self):
        """Arrays are data to them, whatever their rank; an array of one integer is a size."""
        rows = torch.FloatTensor(np.arange(4).reshape(2, 2).T)
        self.assertEqual((rows.tolist(), rows.dtype), ([[0, 2], [1, 3]], torch.float32))
        self.assertEqual(torch.LongTensor(np.array([1.5, 2])).tolist(), [1, 2])
        self.assertEqual(torch.Tensor(np.array([], dtype="f4")).shape, (0,))
        self.assertEqual(torch.ones(2).new(np.ones(3)).tolist(), [1, 1, 1])
        self.assertEqual(torch.Tensor(np.array(3)).shape, (3,))

    def test_old_classes(self):
        """They stand for a dtype, as their names do."""
        x = torch.ones(2)
        self.assertEqual(x.type(torch.LongTensor).dtype, torch.int64)
        self.assertEqual(x.type("torch.DoubleTensor").dtype, torch.float64)
        with self.assertRaisesRegex(ValueError, "invalid type: 'str'"):
            x.type(str)

    def test_every_dtype(self):
        for name in ("float64", "float32", "float16", "complex64", "complex128", "int64", "int32",
                     "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"):
            x = torch.from_numpy(np.ones(2, dtype=name))
            self.assertEqual(str(x.dtype), "torch." + name)
            self.assertEqual(str(x.numpy().dtype), name)

    def test_refusals(self):
        cases = (
            (lambda: torch.from_numpy(np.ones(3)[::-1]), ValueError, "negative"),
            (lambda: torch.from_numpy(np.ones(3).astype(">f8")), ValueError, "byte order"),
            (lambda: torch.from_numpy(np.array(["a"])), TypeError, "numpy.str_"),
            (lambda: torch.from_numpy(1), TypeError, r"expected np.ndarray \(got int\)"),
            (lambda: torch.ones(2, requires_grad=True).numpy(), RuntimeError, "requires grad"),
            (lambda: torch.ones(2, dtype=torch.bfloat16).numpy(), TypeError, "BFloat16"),
        )
        for call, kind, text in cases:
            with self.assertRaisesRegex(kind, text):
                call()

    def test_scalars_and_lists_of_arrays(self):
        self.assertIs(torch.tensor(np.int8(3)).dtype, torch.int8)
        self.assertIs(torch.tensor([np.float32(1)]).dtype, torch.float32)
        self.assertIs(torch.tensor([np.ones(2), np.ones(2)]).dtype, torch.float64)
        self.assertEqual((torch.ones(2) * np.float32(2)).tolist(), [2.0, 2.0])
        self.assertEqual(torch.arange(5)[np.array([0, 3])].tolist(), [0, 3])

    def test_protocols(self):
        x = torch.arange(3.0)
        self.assertEqual(np.asarray(x).tolist(), [0.0, 1.0, 2.0])
        self.assertEqual(np.array(x, dtype=np.int32).tolist(), [0, 1, 2])
        self.assertEqual(np.from_dlpack(x).tolist(), [0.0, 1.0, 2.0])
        self.assertEqual(torch.from_dlpack(np.arange(3)).tolist(), [0, 1, 2])


class Buffers(unittest.TestCase):
    def test_frombuffer(self):
        data = bytearray(b"\x01\x00\x02\x00")
        x = torch.frombuffer(data, dtype=torch.int16)
        self.assertEqual(x.tolist(), [1, 2])
        x[0] = 7
        self.assertEqual(data[0], 7)
        self.assertEqual(torch.frombuffer(data, dtype=torch.int16, offset=2).tolist(), [2])
        with self.assertRaisesRegex(ValueError, "must be a multiple of element size"):
            torch.frombuffer(bytearray(3), dtype=torch.int16)
        with self.assertRaisesRegex(ValueError, "must not be 0"):
            torch.frombuffer(bytearray(), dtype=torch.int16)

    def test_elements_between_the_places_of_their_dtype(self):
        for length in (1, 5, 300):
            for dtype in (torch.float32, torch.int32, torch.bfloat16, torch.float64):
                data = bytearray(length * dtype.itemsize + 1)
                x = torch.frombuffer(data, dtype=dtype, offset=1)
                y = torch.arange(length).to(dtype)
                self.assertTrue(torch.equal(x.fill_(3).clone(), torch.full_like(y, 3)))
                self.assertTrue(torch.equal(torch.add(y, y, out=x).clone(), y + y))
                self.assertTrue(torch.equal(x + y, y + y + y))
                self.assertTrue(torch.equal(x.copy_(y).clone(), y))
                self.assertTrue(torch.equal(-x, -y))
                self.assertTrue(torch.equal(x.to(torch.float64), y.to(torch.float64)))
                self.assertTrue(torch.equal(x.copy_(y.long()).clone(), y))
                self.assertTrue(torch.equal(x * x[0], y * y[0]))
                for f in (torch.sum, torch.max, torch.argmax):
                    self.assertTrue(torch.equal(f(x), f(y)))
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
            y = torch.arange(12_000).to(dtype) % 97 - 48
            x = torch.frombuffer(bytearray(y.nbytes + 1), dtype=dtype, offset=1).copy_(y)
            for width in (4, 10, 300):
                for dim in (0, 1):
                    for f in (torch.sum, torch.amax, torch.argmin, torch.any):
                        own, other = f(x.view(-1, width), dim), f(y.view(-1, width), dim)
                        self.assertTrue(torch.equal(own, other), (f, dtype, width, dim))
        ones = torch.ones(7_000_001)
        x = torch.frombuffer(bytearray(ones.nbytes + 1), dtype=torch.float32, offset=1)
        self.assertTrue(torch.equal(torch.add(ones, ones, out=x), ones * 2))
        self.assertTrue(torch.equal(x.fill_(1), ones))
        self.assertTrue(torch.equal(x.zero_().copy_(ones), ones))

    def test_asarray(self):
        x = torch.ones(2)
        self.assertIs(torch.asarray(x), x)
        self.assertIsNot(torch.asarray(x, copy=True), x)
        self.assertIs(torch.asarray([1, 2]).dtype, torch.int64)

    def test_dlpack_between_tensors(self):
        x = torch.arange(6).view(2, 3).t()
        y = torch.from_dlpack(x)
        self.assertEqual((y.stride(), y.data_ptr()), (x.stride(), x.data_ptr()))
        capsule = x.__dlpack__()
        torch.from_dlpack(capsule)
        with self.assertRaises(RuntimeError):
            torch.from_dlpack(capsule)
        with self.assertRaises(BufferError):
            torch.ones(1, requires_grad=True).__dlpack__()


if __name__ == "__main__":
    unittest.main()
