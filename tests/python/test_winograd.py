"""Convolutions with 3x3 kernels and many channels, which are computed in fewer multiplications."""

import itertools
import unittest

from module_under_test import torch

F = torch.nn.functional
LAYOUTS = (torch.contiguous_format, torch.channels_last)


def whole(count, of, *sizes):
    """Whole numbers, of which products and sums of quarters are exact."""
    return (torch.arange(count) * 7919 % 97 % of - of // 2).reshape(sizes).float()


def gradients(x, weight, grad, convolve, layout, dtype=torch.float32):
    own = [t.to(dtype).contiguous(memory_format=layout).requires_grad_() for t in (x, weight)]
    return torch.autograd.grad(convolve(*own), own, grad.to(dtype).contiguous(memory_format=layout))


class Winograd(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())

    def assert_gradients(self, x, weight, convolve):
        wanted = convolve(x.double(), weight.double())
        grad = whole(wanted.numel(), 5, *wanted.shape)
        theirs = gradients(x, weight, grad, convolve, LAYOUTS[0], torch.float64)
        for layout, threads in itertools.product(LAYOUTS, (1, 2, 5)):
            torch.set_num_threads(threads)
            own = x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout)
            found = convolve(*own)
            self.assertTrue(found.is_contiguous(memory_format=layout))
            self.assertTrue(torch.equal(found, wanted.float()), (x.shape, layout, threads))
            for a, b in zip(gradients(x, weight, grad, convolve, layout), theirs):
                self.assertTrue(a.is_contiguous(memory_format=layout))
                self.assertTrue(torch.equal(a, b.float()), (x.shape, layout, threads))

    def test_whole_numbers_are_exact(self):
        for batch, channels, features, height, width, padding in (
            (1, 64, 48, 8, 10, 1), (3, 48, 64, 11, 7, 0), (9, 48, 80, 7, 5, (2, 1)), (2, 64, 64, 16, 24, (0, 2)),
            (8, 96, 64, 3, 4, 0), (2, 32, 64, 40, 9, 1),
        ):
            x = whole(batch * channels * height * width, 7, batch, channels, height, width)
            weight = whole(features * channels * 9, 5, features, channels, 3, 3)
            self.assert_gradients(x, weight, lambda x, w: F.conv2d(x, w, None, 1, padding))
            turned = weight.reshape(channels, features, 3, 3)
            self.assert_gradients(x, turned, lambda x, w: F.conv_transpose2d(x, w, None, 1, padding))

    def test_digits_do_not_depend_on_threads(self):
        torch.manual_seed(0)
        x, weight = torch.randn(4, 64, 14, 15), torch.randn(64, 64, 3, 3)
        grad = torch.randn(4, 64, 14, 15)
        convolve = lambda x, w: F.conv2d(x, w, None, 1, 1)
        wanted = gradients(x, weight, grad, convolve, LAYOUTS[0])
        precise = gradients(x, weight, grad, convolve, LAYOUTS[0], torch.float64)
        for layout, threads in itertools.product(LAYOUTS, (1, 2, 3)):
            torch.set_num_threads(threads)
            found = gradients(x, weight, grad, convolve, layout)
            for a, b, c in zip(found, wanted, precise):
                self.assertTrue(torch.equal(a, b))
                torch.testing.assert_close(a, c.float(), rtol=1e-5, atol=3e-4)

    def test_pixels_that_no_product_looks_at(self):
        # Beside them, pixels would lose their digits, and infinities would become what is no number.
        for large in (1e10, float("inf")):
            x = torch.randn(8, 64, 8, 8)
            x[:, :, 0, 0] = large
            weight = torch.randn(64, 64, 3, 3)
            grad = torch.zeros(8, 64, 6, 6)
            grad[:, :, 1, 1] = 1
            for layout in LAYOUTS:
                own = [t.contiguous(memory_format=layout).requires_grad_() for t in (x, weight)]
                found = F.conv2d(*own)
                wanted = F.conv2d(x.double(), weight.double())
                torch.testing.assert_close(found[:, :, 1:], wanted[:, :, 1:].float(), rtol=1e-5, atol=1e-4)
                (of_weight,) = torch.autograd.grad(found, own[1], grad)
                # A zero times an infinity is no number.
                if large < float("inf"):
                    pixels = x[:, :, 1:4, 1:4].sum(0).expand(64, 64, 3, 3)
                    torch.testing.assert_close(of_weight, pixels, rtol=1e-5, atol=1e-5)
                else:
                    nan = torch.zeros(3, 3, dtype=torch.bool)
                    nan[0, 0] = True
                    self.assertTrue(torch.equal(of_weight.isnan(), nan.expand(64, 64, 3, 3)))


if __name__ == "__main__":
    unittest.main()
