"""What ``tensor``, ``as_tensor``, ``asarray`` and the old constructors take: capsules, objects with
``__dlpack__``, large integers, nested lists; and tensors beside arrays of NumPy."""

import copy
import pickle
import unittest

import numpy as np
from module_under_test import torch

MODULE = torch.__name__


def capsule(x):
    return x.__dlpack__()


class Lender:
    """Lends the memory of a tensor."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, *args, **kwargs):
        return self.x.__dlpack__(*args, **kwargs)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class Exchange(unittest.TestCase):
    def test_capsules(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.complex64):
            x = torch.arange(4).to(dtype)
            for options, same in (({}, True), ({"copy": False}, True), ({"copy": True}, False),
                                  ({"dtype": torch.complex128}, False)):
                y = torch.asarray(capsule(x), **options)
                self.assertEqual(y.data_ptr() == x.data_ptr(), same)
                self.assertEqual(y.to(torch.complex64).tolist(), x.to(torch.complex64).tolist())
        with self.assertRaisesRegex(ValueError, "can't alias tensor with dtype"):
            torch.asarray(capsule(torch.ones(2)), dtype=torch.float64, copy=False)
        self.assertTrue(torch.asarray(capsule(torch.ones(2)), requires_grad=True).requires_grad)

    def test_objects_that_lend_memory(self):
        x = torch.arange(4.0)
        for make, same in ((torch.tensor, False), (torch.as_tensor, True), (torch.asarray, True)):
            y = make(Lender(x))
            self.assertEqual((y.data_ptr() == x.data_ptr(), y.tolist()), (same, x.tolist()))

    def test_scalars_have_no_memory_to_share(self):
        for scalar in (np.float64(1.5), np.int32(4), np.bool_(True)):
            with self.assertRaisesRegex(RuntimeError, "can't alias NumPy scalars"):
                torch.asarray(scalar, copy=False)
        for scalar in (5, 1.5, [1, 2]):
            with self.assertRaisesRegex(ValueError, "can't alias arbitrary sequence into a tensor"):
                torch.asarray(scalar, copy=False)

    def test_equality_with_arrays(self):
        x = torch.arange(6.0).view(2, 3)
        other = x.numpy().copy()
        other[1, 2] = 9
        for found in (x == other, other == x):
            self.assertIsInstance(found, torch.Tensor)
            self.assertEqual(found.tolist(), [[True] * 3, [True, True, False]])


class Numbers(unittest.TestCase):
    def test_integers_of_more_than_64_bits(self):
        for value in (2 ** 64, -2 ** 63 - 1, 10 ** 30):
            for dtype in (torch.float16, torch.float32, torch.float64, torch.bool):
                found = torch.tensor([value, 0], dtype=dtype)
                if dtype == torch.bool:
                    self.assertEqual(found.tolist(), [True, False])
                else:
                    self.assertEqual(found[0], torch.tensor(float(value), dtype=dtype))
            for dtype in (torch.int64, torch.uint8, None):
                with self.assertRaisesRegex((ValueError, RuntimeError), "[Oo]verflow"):
                    torch.tensor(value, dtype=dtype)
        self.assertEqual(torch.tensor([2 ** 64, 1.5]).tolist(), [2.0 ** 64, 1.5])

    def test_nesting(self):
        with self.assertRaisesRegex(TypeError, "cannot be interpreted as an integer"):
            torch.tensor([1, [2]])
        loop = [[1, 2]]
        loop.append(loop)
        with self.assertRaisesRegex(TypeError, "self-referential lists are incompatible"):
            torch.tensor(loop)


class OldConstructors(unittest.TestCase):
    def test_devices(self):
        for make in (torch.FloatTensor, torch.Tensor):
            for args in ((), (2,), (torch.Size([2]),), ((2.0, 3.0),)):
                text = "legacy constructor expects device type: cpu but device type: cuda was passed"
                with self.assertRaisesRegex(RuntimeError, text):
                    make(*args, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "is not supported"):
            torch.Tensor(torch.tensor([1]), device="cpu")
        self.assertEqual(torch.Tensor(2, 3, device="cpu").shape, (2, 3))


class Operators(unittest.TestCase):
    def test_copies_are_the_same(self):
        add = torch.ops.aten.add
        self.assertIs(copy.deepcopy(add.Tensor), add.Tensor)
        if MODULE == "corten":
            for one in (add, add.Tensor):
                self.assertIs(copy.copy(one), one)
                self.assertIs(copy.deepcopy([one])[0], one)
                self.assertEqual(str(pickle.loads(pickle.dumps(one))), str(one))

    def test_names(self):
        self.assertFalse(hasattr(torch, "unique_dim"))
        self.assertEqual(torch.unique(torch.tensor([[1, 1], [1, 1]]), dim=0).tolist(), [[1, 1]])


if __name__ == "__main__":
    unittest.main()
