"""Tensors and storages over files and of buffers."""

import os
import stat
import sys
import tempfile
import unittest
import warnings
from multiprocessing.reduction import ForkingPickler
from pickle import loads

from module_under_test import torch

CORTEN = torch.__name__ == "corten"


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "data")
        before = warnings.filters[:]
        self.addCleanup(lambda: warnings.filters.__setitem__(slice(None), before))
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")

    def write(self, data):
        with open(self.path, "wb") as file:
            file.write(data)

    def read(self):
        with open(self.path, "rb") as file:
            return file.read()


class FromFile(Folder):
    def test_new_files(self):
        for dtype in (torch.float32, torch.int16, torch.complex128, torch.bool, torch.bfloat16):
            x = torch.from_file(self.path, shared=True, size=5, dtype=dtype)
            self.assertEqual((x.shape, x.dtype, x.is_shared()), ((5,), dtype, True))
            self.assertEqual(x.to(torch.complex64).abs().sum().item(), 0)
            self.assertEqual(self.read(), bytes(5 * dtype.itemsize))
            self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
            x.fill_(1)
            del x
            again = torch.from_file(self.path, shared=False, size=5, dtype=dtype)
            self.assertTrue(torch.equal(again, torch.ones(5, dtype=dtype)))
            os.unlink(self.path)
        default = torch.from_file(self.path, True, 3)
        self.assertEqual((default.dtype, os.path.getsize(self.path)), (torch.float32, 12))

    def test_files_that_exist(self):
        self.write(bytes(range(16)))
        x = torch.from_file(self.path, shared=True, size=4, dtype=torch.uint8)
        self.assertEqual((x.tolist(), len(self.read())), ([0, 1, 2, 3], 16))
        x[0] = 9
        y = torch.from_file(self.path, shared=True, size=24, dtype=torch.uint8)
        self.assertEqual(y.tolist(), [9, *range(1, 16), *[0] * 8])
        self.assertEqual(len(self.read()), 24)
        z = torch.from_file(self.path, shared=False, size=2, dtype=torch.uint8)
        z[1] = 77
        self.assertEqual((self.read()[:2], z.is_shared()), (b"\x09\x01", False))
        self.assertEqual(torch.from_file(self.path, None, 1, dtype=torch.uint8).tolist(), [9])
        with self.assertRaisesRegex(RuntimeError, "not resizable"):
            x.resize_(100)

    def test_refusals(self):
        missing = "unable to open file <.*> in read-only mode: No such file or directory .2."
        for shared in (False, None):
            with self.assertRaisesRegex(RuntimeError, missing):
                torch.from_file(self.path, shared=shared, size=3)
        self.assertFalse(os.path.exists(self.path))
        self.write(bytes(20))
        cases = (
            (dict(size=50), RuntimeError,
             "file <.*data> size <20> is smaller than the required mapping size <200>"),
            (dict(size=-1, shared=True), RuntimeError, "unable to mmap -4 bytes from file"),
            (dict(size=2.0), TypeError, "argument 'size' .position 3. must be int, not float"),
            (dict(size=2**59, shared=True), RuntimeError, "unable to resize file <.*data> to the"),
            (dict(size=2, dtype=torch.int16, requires_grad=True), RuntimeError,
             "Only Tensors of floating point and complex dtype"),
        )
        for arguments, kind, text in cases:
            with self.assertRaisesRegex(kind, text):
                torch.from_file(self.path, **arguments)
        self.assertEqual(self.read(), bytes(20))
        if CORTEN:
            with self.assertRaisesRegex(RuntimeError, "overflow"):
                torch.from_file(self.path, shared=True, size=2**62)
            with self.assertRaises(RuntimeError):
                torch.from_file(self.path + "\0", shared=True, size=2)
        with self.assertRaises(NotImplementedError):
            torch.from_file(self.path, size=2, device="meta")
        with self.assertRaisesRegex(RuntimeError, "in read-write mode: Is a directory .21."):
            torch.from_file(self.folder, shared=True, size=1)
        with self.assertRaisesRegex(RuntimeError, "unable to mmap 4 bytes from file"):
            torch.from_file(self.folder, shared=False, size=1)
        with self.assertRaisesRegex(RuntimeError, "in read-write mode: No such file"):
            torch.from_file(os.path.join(self.path + "s", "x"), shared=True, size=1)

    @unittest.skipIf(os.geteuid() == 0, "everything is permitted")
    def test_permissions(self):
        self.write(bytes(8))
        os.chmod(self.path, 0o400)
        self.assertEqual(torch.from_file(self.path, size=2).tolist(), [0, 0])
        with self.assertRaisesRegex(RuntimeError, "read-write mode: Permission denied .13."):
            torch.from_file(self.path, shared=True, size=2)
        os.chmod(self.path, 0)
        with self.assertRaisesRegex(RuntimeError, "read-only mode: Permission denied .13."):
            torch.from_file(self.path, size=2)

    @unittest.skipUnless(CORTEN, "PyTorch waits for the other end")
    def test_pipes(self):
        os.mkfifo(self.path)
        for shared in (True, False):
            with self.assertRaises(RuntimeError):
                torch.from_file(self.path, shared=shared, size=2)

    def test_no_elements_need_no_file(self):
        for shared in (True, False):
            self.assertEqual(torch.from_file(self.path, shared, 0).shape, (0,))
        self.assertFalse(os.path.exists(self.path))

    def test_gradients(self):
        x = torch.from_file(self.path, True, 2, requires_grad=True)
        self.assertTrue(x.requires_grad and x.is_leaf)
        (x * 3).sum().backward()
        self.assertEqual(x.grad.tolist(), [3, 3])

    @unittest.skipUnless(CORTEN, "an implementation of Corten")
    def test_sent_to_processes(self):
        self.assertTrue(torch.multiprocessing)  # which teaches the pickler
        x = torch.from_file(self.path, shared=True, size=3)
        start = x.data_ptr()
        for _ in range(2):
            back = loads(ForkingPickler.dumps(x))
            back[1] = 5
            self.assertEqual((x.tolist(), x.data_ptr()), ([0, 5, 0], start))
        other = torch.from_file(self.path, shared=True, size=2)
        self.assertEqual(loads(ForkingPickler.dumps(other)).shape, (2,))
        self.assertEqual(loads(ForkingPickler.dumps(x)).shape, (3,))


class Storages(Folder):
    def test_untyped(self):
        storage = torch.UntypedStorage.from_file(self.path, shared=True, nbytes=10)
        self.assertEqual((storage.nbytes(), self.read()), (10, bytes(10)))
        storage[3] = 7
        self.assertEqual((self.read()[3], storage.filename, storage.is_shared()),
                         (7, self.path, True))
        private = torch.UntypedStorage.from_file(self.path, False, 4)
        private[0] = 1
        self.assertEqual((private.tolist(), private.filename), ([1, 0, 0, 7], None))
        self.assertEqual(self.read()[0], 0)
        self.assertEqual(torch.UntypedStorage.from_file(self.path).nbytes(), 0)
        self.assertIsNone(torch.UntypedStorage(3).filename)
        for arguments, text in ((("x", False, 400), "No such file"), ((self.path, True, -1), "mmap"),
                                ((self.path, False, 400), "required mapping size <400>")):
            with self.assertRaisesRegex(RuntimeError, text):
                torch.UntypedStorage.from_file(*arguments)

    def test_typed(self):
        storage = torch.DoubleStorage.from_file(self.path, shared=True, size=3)
        self.assertEqual((storage.tolist(), len(self.read())), ([0, 0, 0], 24))
        self.assertIs(storage.dtype, torch.float64)
        with self.assertRaisesRegex(RuntimeError, "can only be called on derived classes"):
            torch.TypedStorage.from_file(self.path, True, 3)
        with self.assertRaises(RuntimeError):
            torch.FloatStorage.from_file(self.path, True, -4)

    def test_buffers(self):
        make, data = torch.UntypedStorage.from_buffer, b"abcdefgh"
        cases = (
            ({"dtype": torch.uint8}, data),
            ({"dtype": torch.float32, "byte_order": "little"}, data),
            ({"dtype": torch.float32, "byte_order": "big"}, b"dcbahgfe"),
            ({"dtype": torch.complex64, "byte_order": "big"}, b"dcbahgfe"),
            ({"dtype": torch.int16, "byte_order": "big", "count": 2}, b"badc"),
            ({"dtype": torch.int16, "byte_order": "little", "count": 1, "offset": 5}, b"fg"),
            ({"dtype": torch.float64, "byte_order": "native", "count": 0}, b""),
            ({"dtype": torch.int32, "byte_order": "little", "count": -5, "offset": 4}, b"efgh"),
            ({"dtype": torch.bool, "byte_order": "native", "count": 3}, b"\1\1\1"),
        )
        if sys.byteorder == "little":
            for arguments, expected in cases:
                self.assertEqual(bytes(make(data, **arguments).tolist()), expected, arguments)
        refused = (
            ({}, RuntimeError, "argument 'dtype' cannot be None"),
            ({"dtype": torch.int16}, RuntimeError, "missing required argument 'byte_order'"),
            ({"dtype": torch.int16, "byte_order": "x"}, ValueError, "invalid byte_order 'x'"),
            ({"dtype": torch.int16, "byte_order": "big", "offset": 9}, ValueError, "offset must be"),
            ({"dtype": torch.int16, "byte_order": "big", "offset": 3}, ValueError, "a multiple of"),
            ({"dtype": torch.int16, "byte_order": "big", "count": 5}, ValueError, "has only 8"),
            ({"dtype": torch.int16, "byte_order": "big", "count": 2**60}, ValueError, "has only 8"),
        )
        for arguments, kind, text in refused:
            with self.assertRaisesRegex(kind, text):
                make(data, **arguments)
        with self.assertRaises(TypeError):
            make(3, dtype=torch.uint8)
        with self.assertRaises(BufferError):
            make(memoryview(data)[::2], dtype=torch.uint8)
        typed = torch.FloatStorage.from_buffer(b"\0\0\x80\x3f", "little")
        self.assertEqual((typed.tolist(), typed.dtype), ([1.0], torch.float32))
        with self.assertRaisesRegex(RuntimeError, "'dtype' can only be specified in"):
            torch.FloatStorage.from_buffer(data, "little", dtype=torch.int32)


if __name__ == "__main__":
    unittest.main()
