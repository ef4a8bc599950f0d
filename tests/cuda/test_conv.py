"""Convolutions, their transposes and gradients, and sliding blocks on the device, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

F = torch.nn.functional
# The package's own kernels: those of cuDNN have a file of their own.
torch.backends.cudnn.enabled = False


@usable
class Convolution(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 2e-4, "torch.float16": 1e-2, "torch.complex64": 2e-4}

    CASES = [
        (1, (2, 4, 9), (6, 4, 3), {"stride": 2, "padding": 1}),
        (1, (2, 4, 9), (6, 2, 3), {"groups": 2, "dilation": 2}),
        (2, (2, 3, 7, 8), (8, 3, 3, 2), {"padding": (1, 0)}),
        (2, (1, 4, 9, 6), (4, 2, 2, 3), {"groups": 2, "stride": (2, 1), "dilation": (1, 2)}),
        (2, (2, 6, 6, 5), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
        (2, (2, 4, 6, 5), (8, 1, 3, 3), {"groups": 4, "stride": 2}),
        (2, (1, 5, 4, 4), (3, 5, 1, 1), {}),
        (2, (1, 70, 5, 5), (66, 70, 3, 3), {"padding": 1}),
        (3, (1, 2, 4, 5, 3), (6, 2, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    ]

    def test_convolutions_and_gradients(self):
        for rank, image, kernel, options in self.CASES:
            conv = getattr(F, f"conv{rank}d")
            x, w, b = torch.randn(image), torch.randn(kernel), torch.randn(kernel[0])
            name = f"{image} {kernel} {options}"
            self.check_gradient(lambda x, w, b: conv(x, w, b, **options), x, w, b, name=name)
            self.check(lambda x, w: conv(x, w, **options), x.double(), w.double(), name=name)

    def test_transposed_convolutions_and_gradients(self):
        for rank, image, kernel, options in [
            (1, (2, 4, 5), (4, 3, 3), {"stride": 2, "output_padding": 1}),
            (2, (1, 4, 5, 4), (4, 2, 3, 2), {"groups": 2, "stride": (2, 1), "padding": 1}),
            (2, (2, 3, 4, 4), (3, 5, 3, 3), {"dilation": 2}),
            (2, (2, 4, 4, 4), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
            (3, (1, 2, 3, 3, 2), (2, 3, 2, 2, 2), {"stride": 2}),
        ]:
            conv = getattr(F, f"conv_transpose{rank}d")
            x, w = torch.randn(image), torch.randn(kernel)
            b = torch.randn(kernel[1] * options.get("groups", 1))
            self.check_gradient(lambda x, w, b: conv(x, w, b, **options), x, w, b, name=f"{image} {kernel} {options}")

    def test_other_dtypes(self):
        x, w, b = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3), torch.randn(4)
        for dtype in (torch.float16, torch.complex64):
            self.check(lambda x, w, b: F.conv2d(x, w, b), x.to(dtype), w.to(dtype), b.to(dtype))

    def test_channels_last(self):
        x = torch.randn(2, 3, 6, 5).contiguous(memory_format=torch.channels_last)
        self.check_gradient(lambda x, w: F.conv2d(x, w, padding=1), x, torch.randn(4, 3, 3, 3))

    def test_single_samples_and_empty_batches(self):
        self.check(lambda x, w: F.conv2d(x, w), torch.randn(3, 5, 5), torch.randn(4, 3, 2, 2))
        self.check(lambda x, w: F.conv2d(x, w), torch.randn(0, 3, 5, 5), torch.randn(4, 3, 2, 2))

    def test_long_sums_in_parts(self):
        x, w = torch.randn(1, 150, 4, 4), torch.randn(5, 150, 3, 3)
        self.check_gradient(lambda x, w: F.conv2d(x, w, padding=1), x.double(), w.double())

    def test_errors(self):
        x = torch.randn(1, 3, 4, 4).to("cuda")
        with self.assertRaisesRegex(RuntimeError, "channels"):
            F.conv2d(x, torch.randn(2, 4, 3, 3).to("cuda"))
        with self.assertRaises(RuntimeError):
            F.conv2d(x, torch.randn(2, 3, 5, 5).to("cuda"))

    def test_sliding_blocks(self):
        for dtype in (torch.float32, torch.float16, torch.complex64):
            x = torch.randn(2, 3, 6, 7).to(dtype)
            self.check(lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), x)
        self.check_gradient(lambda x: F.unfold(x, 3, padding=1, stride=2), torch.randn(2, 3, 6, 7))
        self.check_gradient(
            lambda x: F.fold(x, (5, 6), (2, 3), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), torch.randn(2, 12, 6))


if __name__ == "__main__":
    unittest.main()
