"""Values at the points of grids on the device, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

F = torch.nn.functional


@usable
class Grid(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 2e-4, "torch.float64": 1e-7}

    def test_modes_paddings_and_alignments(self):
        for rank in (2, 3):
            x = torch.randn(2, 3, *([5, 4, 3][:rank]))
            grid = torch.rand(2, *([3, 4, 2][:rank]), rank) * 3 - 1.5
            for mode in ("bilinear", "nearest", "bicubic")[:5 - rank]:
                for padding in ("zeros", "border", "reflection"):
                    for align in (False, True):
                        run = lambda x, g: F.grid_sample(x, g, mode, padding, align)  # noqa: E731
                        self.check_gradient(run, x, grid, name=f"{rank} {mode} {padding} {align}")

    def test_other_dtypes_and_empty_batches(self):
        x, grid = torch.randn(1, 2, 4, 5), torch.rand(1, 3, 3, 2) * 2 - 1
        self.check(lambda x, g: F.grid_sample(x, g, align_corners=False), x.double(), grid.double())
        self.check(lambda x, g: F.grid_sample(x, g, align_corners=False), x[:0], grid[:0])

    def test_deterministic_gradients(self):
        x, grid = torch.randn(2, 3, 4, 5), torch.rand(2, 6, 7, 2) * 2 - 1
        torch.use_deterministic_algorithms(True)
        try:
            self.check_gradient(lambda x, g: F.grid_sample(x, g, align_corners=False), x, grid)
        finally:
            torch.use_deterministic_algorithms(False)

    def test_half_precision_computes_in_single(self):
        x, grid = torch.randn(1, 20, 4, 5).half(), (torch.rand(1, 3, 3, 2) * 2 - 1).half()
        for mode in ("bilinear", "nearest", "bicubic"):
            wanted = F.grid_sample(x.float(), grid.float(), mode, align_corners=False).half()
            found = F.grid_sample(x.to("cuda"), grid.to("cuda"), mode, align_corners=False)
            self.same(found, wanted, mode)


if __name__ == "__main__":
    unittest.main()
