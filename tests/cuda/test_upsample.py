"""Interpolation on the device, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

F = torch.nn.functional
SIZES = {1: [(7,), (3,), (12,)], 2: [(7, 9), (3, 4), (12, 5)], 3: [(3, 7, 5), (5, 2, 4)]}
INPUT = {1: (2, 3, 5), 2: (2, 3, 5, 6), 3: (1, 2, 3, 4, 5)}


@usable
class Upsample(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 1e-4, "torch.float64": 1e-6}

    def test_modes_and_sizes(self):
        for rank, mode in [(1, "nearest"), (2, "nearest"), (3, "nearest"), (1, "nearest-exact"), (2, "nearest-exact"),
                           (3, "nearest-exact"), (1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")]:
            for size in SIZES[rank]:
                for align in ([None] if "nearest" in mode else [False, True]):
                    run = lambda x: F.interpolate(x, size, mode=mode, align_corners=align)  # noqa: E731
                    self.check_gradient(run, torch.randn(INPUT[rank]), name=f"{mode} {size} {align}")

    def test_scales(self):
        for scale in (2.0, 0.6, 1.7):
            for mode in ("nearest", "bilinear", "bicubic"):
                run = lambda x: F.interpolate(x, scale_factor=scale, mode=mode)  # noqa: E731
                self.check_gradient(run, torch.randn(2, 3, 6, 7), name=f"{mode} {scale}")

    def test_wide_filters(self):
        for mode in ("bilinear", "bicubic"):
            for size in [(3, 4), (9, 11), (2, 9)]:
                run = lambda x: F.interpolate(x, size, mode=mode, antialias=True)  # noqa: E731
                self.check_gradient(run, torch.randn(2, 3, 6, 8), name=f"{mode} {size}")

    def test_dtypes_and_memory_formats(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            for mode in ("nearest", "bilinear"):
                self.check(lambda x: F.interpolate(x, (7, 5), mode=mode), torch.randn(1, 2, 4, 6).to(dtype), name=mode)
        self.check(lambda x: F.interpolate(x, (7, 5)), torch.randint(0, 255, (1, 2, 4, 6)).to(torch.uint8))
        for mode in ("bilinear", "bicubic"):
            self.check(lambda x: F.interpolate(x, (7, 5), mode=mode), torch.randint(0, 255, (1, 2, 4, 6)).to(torch.uint8))
        last = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
        for mode in ("nearest", "bilinear", "bicubic"):
            self.check_gradient(lambda x: F.interpolate(x, (7, 6), mode=mode), last, name=mode)

    def test_results_far_from_their_elements(self):
        x = torch.randn(1, 2, 3, 40)
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
            self.check_gradient(lambda x: F.interpolate(x, (70, 3), mode=mode), x, name=mode)
            self.check_gradient(lambda x: F.interpolate(x, scale_factor=(1.3, 1.02), mode=mode), x, name=mode)

    def test_many_planes(self):
        for shape, mode in [((3, 13, 20, 50), "bilinear"), ((1, 39, 20, 50), "nearest"), ((39, 1, 20, 50), "nearest")]:
            self.check(lambda x: F.interpolate(x[:, :, ::2], (90, 110), mode=mode), torch.randn(shape), name=f"{shape} {mode}")
        self.check_gradient(lambda x: F.interpolate(x, (55, 45)), torch.randn(3, 13, 110, 90))
        self.check(lambda x: F.interpolate(x[:, ::2], (90, 110)), torch.randn(3, 26, 9, 9))

    def test_antialiased_lanczos(self):
        def run(x):
            return torch._upsample_lanczos2d_aa(x, [3, 5], False)

        self.check_gradient(run, torch.randn(2, 3, 7, 9))

    def test_infinities_beyond_a_filter_stay_there(self):
        x = torch.randn(1, 1, 12, 12)
        x[0, 0, 6, 6] = float("inf")
        self.check(lambda x: F.interpolate(x, (6, 6), mode="bilinear", antialias=True), x)

    def test_strided_inputs_and_empty_batches(self):
        for mode in ("nearest", "bilinear"):
            x = torch.randn(2, 6, 5, 4)
            for view in (lambda x: x[:, ::2], lambda x: x.transpose(2, 3), lambda x: x[..., ::2], lambda x: x[:, :2]):
                self.check(lambda x: F.interpolate(view(x), (7, 6), mode=mode), x, name=mode)
            self.check(lambda x: F.interpolate(x, (7, 6), mode=mode), x[:0], name=mode)

    def test_errors(self):
        with self.assertRaises(RuntimeError):
            F.interpolate(torch.randn(1, 2, 0, 4).to("cuda"), (3, 3))


if __name__ == "__main__":
    unittest.main()
