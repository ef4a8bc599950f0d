"""The switches of attention's kernels, as PyTorch's CPU honours them."""

import os
import unittest
from importlib import import_module

torch = import_module(os.environ.get("CORTEN_TEST_MODULE", "corten"))
attention = import_module(f"{torch.__name__}.nn.attention")
Backend, sdpa_kernel = attention.SDPBackend, attention.sdpa_kernel


class Switches(unittest.TestCase):
    def attend(self, **options):
        q = torch.randn(1, 2, 3, 4, requires_grad=True)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, **options).grad_fn.name()

    def test_kernels(self):
        self.assertIn("Flash", self.attend())
        with sdpa_kernel(Backend.MATH):
            self.assertNotIn("Flash", self.attend())
        with sdpa_kernel([Backend.FLASH_ATTENTION]):
            self.assertIn("Flash", self.attend())
            with self.assertRaisesRegex(RuntimeError, "No available kernel.  Aborting execution."):
                self.attend(dropout_p=0.5)
        with sdpa_kernel(Backend.EFFICIENT_ATTENTION), self.assertRaisesRegex(RuntimeError, "No viable backend"):
            self.attend()
        self.assertIn("Flash", self.attend())

    def test_state(self):
        before = attention._cur_sdpa_kernel_backends()
        with sdpa_kernel([Backend.MATH, Backend.FLASH_ATTENTION]):
            self.assertEqual(
                (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled(),
                 torch.backends.cuda.mem_efficient_sdp_enabled(), torch.backends.cuda.cudnn_sdp_enabled()),
                (True, True, False, False))
        self.assertEqual(attention._cur_sdpa_kernel_backends(), before)
        with self.assertRaises(AssertionError):
            sdpa_kernel(None).__enter__()
        torch.backends.cuda.enable_math_sdp(False)
        try:
            self.assertNotIn(Backend.MATH, attention._cur_sdpa_kernel_backends())
        finally:
            torch.backends.cuda.enable_math_sdp(True)


if __name__ == "__main__":
    unittest.main()
