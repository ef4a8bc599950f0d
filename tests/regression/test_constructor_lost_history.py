"""``Tensor(tensor)``: an alias with its history, in subclasses too, as memory-mapped tensors are made."""

import unittest

from module_under_test import torch


class Named(torch.Tensor):
    def __new__(cls, *data):
        return super().__new__(cls, *data)


DTYPES = (
    torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool,
    torch.complex64,
)


class OfTensors(unittest.TestCase):
    def test_every_dtype(self):
        for dtype in DTYPES:
            given = torch.tensor([0, 1, 1]).to(dtype)
            for kind in (Named, torch.Tensor):
                made = kind(given)
                self.assertIs(type(made), kind)
                self.assertEqual(made.dtype, dtype)
                self.assertEqual(made.data_ptr(), given.data_ptr())
                self.assertEqual(made.tolist(), given.tolist())
                self.assertIsNot(made, given)

    def test_devices_without_data(self):
        for kind in (Named, torch.Tensor):
            made = kind(torch.ones(2, dtype=torch.int64, device="meta"))
            self.assertEqual((type(made), made.dtype, made.device.type), (kind, torch.int64, "meta"))

    def test_history(self):
        for kind in (Named, torch.Tensor):
            leaf = torch.ones(2, requires_grad=True)
            for given in (leaf, leaf * 2):
                leaf.grad = None
                made = kind(given)
                self.assertTrue(made.requires_grad)
                self.assertFalse(made.is_leaf)
                self.assertTrue(made._is_view())
                self.assertIs(made._base, given)
                (made * torch.tensor([1.0, 3.0])).sum().backward()
                factor = 1 if given is leaf else 2
                self.assertEqual(leaf.grad.tolist(), [factor, 3 * factor])

    def test_versions(self):
        given = torch.arange(3)
        made = Named(given)
        made += 1
        self.assertEqual(given.tolist(), [1, 2, 3])
        self.assertEqual((given._version, made._version), (1, 1))

    def test_of_a_subclass(self):
        first = Named(torch.arange(2))
        self.assertIs(type(torch.Tensor(first)), torch.Tensor)
        second = Named(first)
        self.assertIs(type(second), Named)
        self.assertIsNot(first, second)

    def test_constructors_of_a_dtype_refuse_others(self):
        for make in (torch.FloatTensor, torch.ones(1).new):
            with self.assertRaises(TypeError):
                make(torch.arange(2))
            leaf = torch.ones(2, requires_grad=True)
            make(leaf).sum().backward()
            self.assertEqual(leaf.grad.tolist(), [1, 1])

    def test_other_forms_stay(self):
        self.assertEqual(Named([1, 2]).dtype, torch.float32)
        self.assertEqual((type(Named(2, 3)), Named(2, 3).shape), (Named, torch.Size([2, 3])))
        self.assertEqual(Named().shape, torch.Size([0]))


if __name__ == "__main__":
    unittest.main()
