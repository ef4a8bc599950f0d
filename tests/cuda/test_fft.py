"""Fourier transforms on the device, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

FFT = torch.fft


def numbers(*sizes, dtype=torch.complex64):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0), dtype=dtype)


@usable
class Fourier(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 1e-4, "torch.complex64": 1e-4}

    def test_lengths(self):
        # Each radix, several stages, large radices, a convolution, and several passes.
        for length in [1, 2, 3, 4, 5, 7, 8, 12, 30, 49, 64, 121, 127, 131, 360, 1000, 1024, 4096, 5000, 3 * 1021]:
            name = f"length {length}"
            self.check(lambda x: (FFT.fft(x), FFT.ifft(x)), numbers(3, length), name=name)
            self.check(lambda x: (FFT.rfft(x), FFT.ihfft(x)), numbers(2, length, dtype=torch.float32), name=name)
            half = numbers(2, length // 2 + 1)
            self.check(lambda x: (FFT.irfft(x, length), FFT.hfft(x, length)), half, name=name)

    def test_double_precision(self):
        for length in [6, 100, 257, 1024, 3000]:
            x = numbers(2, length, dtype=torch.complex128)
            self.check(lambda x: (FFT.fft(x), FFT.ifft(x), FFT.rfft(x.real), FFT.irfft(x)), x, name=str(length))

    def test_three_passes(self):
        x = numbers(1 << 19)
        found, wanted = FFT.fft(x.cuda()).cpu(), FFT.fft(x)
        self.assertLess(((found - wanted).abs().max() / wanted.abs().max()).item(), 1e-6)

    def test_dimensions(self):
        x = numbers(4, 6, 5, 3)
        for dims in [(0,), (1,), (2,), (0, 1), (1, 2, 3), (3, 0), (-1, -3), (0, 1, 2, 3)]:
            for norm in ["forward", "backward", "ortho"]:
                self.check(lambda x: (FFT.fftn(x, dim=dims, norm=norm), FFT.ifftn(x, dim=dims, norm=norm),
                                      FFT.rfftn(x.real, dim=dims, norm=norm), FFT.irfftn(x, dim=dims, norm=norm),
                                      FFT.hfftn(x, dim=dims, norm=norm)), x, name=f"{dims} {norm}")
        long = numbers(3, 2500, 2)
        self.check(lambda x: (FFT.fft(x, dim=1), FFT.ifft(x, n=2302, dim=1)), long)

    def test_layouts(self):
        x = numbers(6, 8, 10)
        for view in [x.mT, x[::2, :, 1:], x.conj(), x.permute(2, 0, 1), x[:, :0]]:
            if view.numel():
                self.check(lambda x: FFT.fft2(x), view)
            self.check(lambda x: FFT.fft(x), view)
        self.check(lambda x: FFT.fft(x, n=17), x)
        self.check(lambda x: FFT.rfft(x.real, n=5), x)

    def test_real_parts_that_are_not_symmetric(self):
        # The imaginary parts of the first and the middle point do not count.
        for length in (1, 2, 6, 7):
            self.check(lambda x: FFT.irfft(x, length), numbers(4, length // 2 + 1))

    def test_gradients(self):
        def parts(x):
            return [torch.view_as_real(FFT.rfft2(x)), FFT.irfft(FFT.rfft(x), x.shape[-1]), FFT.hfft(FFT.ihfft(x))]

        self.check_gradient(parts, numbers(4, 6, dtype=torch.float32))

    def test_short_time_transforms(self):
        window = torch.hann_window(32)
        self.check(lambda x, w: torch.stft(x, 32, window=w, return_complex=True), numbers(2, 200, dtype=torch.float32), window)

    def test_half_precision(self):
        x = numbers(3, 16, dtype=torch.float32)
        found = FFT.rfft(x.half().cuda())
        self.assertEqual(found.dtype, torch.complex32)
        self.assertLess((found.cpu().to(torch.complex64) - FFT.rfft(x)).abs().max().item(), 0.05)
        with self.assertRaisesRegex(RuntimeError, r"powers of two .* signal size of\[12\]"):
            FFT.rfft(x[:, :12].half().cuda())
        with self.assertRaisesRegex(RuntimeError, "Unsupported dtype BFloat16"):
            FFT.fft(x.bfloat16().cuda())


if __name__ == "__main__":
    unittest.main()
