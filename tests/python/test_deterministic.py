"""New memory while the same results are asked for in every run."""

import unittest

from module_under_test import torch


class NewMemory(unittest.TestCase):
    def setUp(self):
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)

    def all_nan(self, tensor):
        self.assertTrue(tensor.isnan().all().item())

    def test_floats_are_nan(self):
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            made = torch.empty(3, 2, dtype=dtype)
            self.all_nan(made)
            self.assertEqual(made._version, 0)
        self.assertTrue(torch.empty(2, dtype=torch.float8_e5m2).float().isnan().all().item())
        made = torch.empty(2, dtype=torch.complex64)
        self.assertTrue(made.real.isnan().all().item())
        self.assertEqual(made.imag.tolist(), [0.0, 0.0])

    def test_integers_are_the_greatest(self):
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
            greatest = torch.iinfo(dtype).max
            self.assertEqual(torch.empty(2, dtype=dtype).tolist(), [greatest] * 2)
        for dtype in (torch.uint16, torch.uint32, torch.uint64):
            greatest = torch.iinfo(dtype).max
            self.assertEqual(torch.empty(2, dtype=dtype).tolist(), [greatest] * 2)
        self.assertEqual(torch.empty(2, dtype=torch.bool).tolist(), [True, True])

    def test_every_factory_fills(self):
        x = torch.ones(2, 3, requires_grad=True)
        for made in (
            torch.empty_like(x), torch.empty_strided((2, 3), (1, 2)), x.new_empty(4),
            x.new_empty_strided((2,), (3,)), torch.empty_permuted((2, 3), (1, 0)),
            torch.Tensor(3), torch.empty((2, 3, 4, 4), memory_format=torch.channels_last),
        ):
            self.all_nan(made)
            self.assertIsNone(made.grad_fn)
        self.assertTrue(torch.empty(3, requires_grad=True).requires_grad)
        self.assertEqual(torch.empty(0).tolist(), [])
        self.assertEqual(torch.zeros(2).tolist(), [0.0, 0.0])
        self.assertEqual(torch.empty(2, device="meta").shape, (2,))

    def test_what_a_storage_gains_is_filled(self):
        x = torch.arange(3)
        x.resize_(5)
        greatest = torch.iinfo(torch.int64).max
        self.assertEqual(x.tolist(), [0, 1, 2, greatest, greatest])
        y = torch.arange(4.0)[1:3]
        y.resize_(5)
        self.assertEqual(y[:3].tolist(), [1.0, 2.0, 3.0])
        self.assertTrue(y[3:].isnan().all().item())
        z = torch.arange(4.0)
        z.resize_(2).resize_(4)
        self.assertEqual(z.tolist(), [0.0, 1.0, 2.0, 3.0])
        self.assertEqual(torch.ones(2).resize_as_(torch.ones(2, 2)).isnan().sum().item(), 2)

    def test_outputs_of_empty_are_filled(self):
        out = torch.zeros(2)
        torch.empty(2, out=out)
        self.assertTrue(out.isnan().all().item())

    def test_the_fill_can_be_turned_off(self):
        settings = torch.utils.deterministic
        self.assertIs(settings.fill_uninitialized_memory, True)
        settings.fill_uninitialized_memory = False
        self.addCleanup(setattr, settings, "fill_uninitialized_memory", True)
        x = torch.zeros(2)
        torch.empty(2, out=x)
        self.assertEqual(x.tolist(), [0.0, 0.0])
        with self.assertRaisesRegex(RuntimeError, "expected a bool, but got int"):
            settings.fill_uninitialized_memory = 1

    def test_modes(self):
        self.assertTrue(torch.are_deterministic_algorithms_enabled())
        self.assertEqual(torch.get_deterministic_debug_mode(), 2)
        torch.set_deterministic_debug_mode("warn")
        self.assertEqual(torch.get_deterministic_debug_mode(), 1)
        self.assertTrue(torch.is_deterministic_algorithms_warn_only_enabled())
        self.all_nan(torch.empty(2))
        torch.set_deterministic_debug_mode("default")
        self.assertFalse(torch.are_deterministic_algorithms_enabled())

    def test_is_tensor_takes_no_keyword(self):
        self.assertTrue(torch.is_tensor(torch.ones(1)))
        with self.assertRaises(TypeError):
            torch.is_tensor(obj=torch.ones(1))
        with self.assertRaises(TypeError):
            torch.is_storage(obj=1)


if __name__ == "__main__":
    unittest.main()
