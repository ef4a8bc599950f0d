"""Pooling on the device, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

F = torch.nn.functional


@usable
class Pool(CudaTest):
    def image(self, *shape):
        return torch.randn(shape)

    def test_max_pool(self):
        for options in [{}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"ceil_mode": True, "stride": 2}]:
            for x in [self.image(2, 3, 8, 9), self.image(3, 7, 8)]:
                self.check(lambda x: F.max_pool2d(x, 3, return_indices=True, **options), x, name=options)
                self.check_gradient(lambda x: F.max_pool2d(x, 3, **options), x, name=options)
        self.check_gradient(lambda x: F.max_pool1d(x, 3, 2), self.image(2, 3, 9))
        self.check_gradient(lambda x: F.max_pool3d(x, 2, 2, ceil_mode=True), self.image(2, 2, 4, 5, 3))
        self.check(lambda x: F.max_pool3d(x, 2, return_indices=True), self.image(2, 4, 5, 3))

    def test_largest_of_special_values(self):
        x = self.image(1, 2, 6, 6)
        x[0, 0, 1, 1], x[0, 1] = float("nan"), -float("inf")
        self.check(lambda x: F.max_pool2d(x, 3, return_indices=True), x)

    def test_integers(self):
        for dtype in (torch.int64, torch.uint8, torch.int32, torch.int16, torch.int8):
            x = torch.randint(0, 50, (1, 2, 6, 6)).to(dtype)
            self.check(lambda x: F.max_pool2d(x, 2, return_indices=True), x)
        x = torch.randint(-50, 50, (1, 2, 6, 6))
        self.check(lambda x: F.avg_pool2d(x, 3, 2, 1), x)

    def test_windows_without_an_element(self):
        for dtype in (torch.float32, torch.uint8, torch.int8, torch.int64):
            self.check(lambda x: F.max_pool2d(x, 2, 3, 1, 2), torch.ones(1, 1, 1, 3).to(dtype))

    def test_numbers_beyond_32_bits(self):
        x = self.image(2, 3, 7, 6)
        self.check_gradient(lambda x: F.max_pool2d(x, 1, 1, 0, 2**40), x)
        for pool in (F.max_pool2d, F.avg_pool2d):
            self.check_gradient(lambda x: pool(x, 3, 2**40, 1), x)

    def test_average_pool(self):
        for options in [{}, {"stride": 2, "padding": 1}, {"ceil_mode": True, "stride": 2},
                        {"padding": 1, "count_include_pad": False}, {"divisor_override": 5}]:
            self.check_gradient(lambda x: F.avg_pool2d(x, 3, **options), self.image(2, 3, 8, 9), name=options)
            self.check_gradient(lambda x: F.avg_pool3d(x, 2, **options), self.image(2, 2, 5, 4, 6), name=options)
        self.check_gradient(lambda x: F.avg_pool1d(x, 3, 2), self.image(2, 3, 9))

    def test_half_precision(self):
        x = self.image(2, 3, 8, 8).half()
        for f in (F.avg_pool2d, F.max_pool2d):
            self.check(lambda x: f(x, 2), x)

    def test_adaptive_pool(self):
        for size in (1, 3, (4, 7), (9, 2)):
            self.check_gradient(lambda x: F.adaptive_avg_pool2d(x, size), self.image(2, 3, 7, 8), name=size)
            self.check_gradient(lambda x: F.adaptive_max_pool2d(x, size), self.image(2, 3, 7, 8), name=size)
        self.check_gradient(lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), self.image(2, 3, 4, 5, 6))
        self.check_gradient(lambda x: F.adaptive_max_pool3d(x, (2, 3, 4)), self.image(2, 3, 4, 5, 6))
        self.check_gradient(lambda x: F.adaptive_avg_pool1d(x, 3), self.image(2, 3, 7))

    def test_channels_last(self):
        x = self.image(2, 3, 6, 7).contiguous(memory_format=torch.channels_last)
        for f in (lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 3, 2), lambda x: F.adaptive_avg_pool2d(x, 3)):
            self.check_gradient(f, x)
            self.check_gradient(lambda x: f(x[..., ::2]), x)
        x = self.image(2, 3, 4, 6, 5).contiguous(memory_format=torch.channels_last_3d)
        for f in (lambda x: F.max_pool3d(x, 2), lambda x: F.avg_pool3d(x, 3, 2), lambda x: F.adaptive_avg_pool3d(x, 3)):
            self.check_gradient(f, x)

    def test_random_windows(self):
        samples = torch.rand(2, 3, 2)
        self.check_gradient(
            lambda x: F.fractional_max_pool2d(x, 2, (4, 3), _random_samples=samples.to(x.device)), self.image(2, 3, 8, 7))
        samples = torch.rand(2, 3, 3)
        self.check_gradient(
            lambda x: F.fractional_max_pool3d(x, 2, (2, 3, 2), _random_samples=samples.to(x.device)), self.image(2, 3, 5, 6, 4))

    def test_unpool(self):
        x, places = F.max_pool2d(self.image(2, 3, 6, 8), 2, return_indices=True)
        self.check(lambda x, p: F.max_unpool2d(x, p, 2), x, places)
        x, places = F.max_pool3d(self.image(2, 3, 4, 6, 2), 2, return_indices=True)
        self.check(lambda x, p: F.max_unpool3d(x, p, 2), x, places)

    def test_empty_batches_and_errors(self):
        self.check(lambda x: F.max_pool2d(x, 2), self.image(0, 3, 4, 4))
        with self.assertRaisesRegex(RuntimeError, "too small"):
            F.avg_pool2d(self.image(1, 1, 2, 2).to("cuda"), 3)


@usable
class Distance(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 1e-4}

    def test_distances_between_rows(self):
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf")):
            x, y = torch.randn(2, 5, 4), torch.randn(2, 6, 4)
            self.check_gradient(lambda x, y: torch.cdist(x, y, p), x, y, name=p)
            self.check_gradient(lambda x: torch.pdist(x, p), torch.randn(6, 3), name=p)
        self.check(lambda x, y: torch.cdist(x, y), torch.randn(30, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64))
        self.check(lambda x, y: torch.cdist(x, y), torch.randn(0, 4), torch.randn(5, 4))


if __name__ == "__main__":
    unittest.main()
