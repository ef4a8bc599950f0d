"""Boxes and regions of torchvision's operators against the CPU's results."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

OPS = torch.ops.torchvision


@usable
class VisionTest(CudaTest):
    def setUp(self):
        torch.manual_seed(1)
        corners = torch.rand(6, 4) * 12 - 1
        corners[:, 2:] = corners[:, :2] + torch.rand(6, 2) * 9
        self.rois = torch.cat([torch.randint(0, 2, (6, 1)).float(), corners], 1)
        self.images = torch.randn(2, 8, 10, 12)

    def test_nms(self):
        corners = torch.rand(150, 2) * 5
        boxes = torch.cat([corners, corners + torch.rand(150, 2) * 3], 1)
        self.check(lambda b, s: OPS.nms(b, s, 0.4), boxes, torch.rand(150))
        self.check(lambda b, s: OPS.nms(b, s, 0.4), torch.zeros(0, 4), torch.zeros(0))

    def test_rotated(self):
        boxes = torch.cat([torch.rand(9, 4) * 4 + 0.1, torch.rand(9, 1) * 180], 1)
        self.check(lambda a, b: OPS.box_iou_rotated(a, b), boxes, boxes.flip(0)[:5].contiguous())

    def regions(self, run):
        """The results and the gradient of the images."""
        self.check_gradient(lambda images: run(images, self.rois.to(images.device)), self.images)

    def test_align(self):
        for ratio, aligned in ((2, False), (-1, True), (0, False)):
            self.regions(lambda images, rois: OPS.roi_align(images, rois, 0.8, 3, 2, ratio, aligned))
            self.regions(lambda images, rois: OPS.ps_roi_align(images, rois, 0.8, 2, 2, ratio))

    def test_pool(self):
        self.regions(lambda images, rois: OPS.roi_pool(images, rois, 0.8, 3, 2))
        self.regions(lambda images, rois: OPS.ps_roi_pool(images, rois, 0.8, 2, 2))

    def test_moved_taps(self):
        images, offset, mask = torch.randn(2, 4, 6, 7), torch.randn(2, 2 * 2 * 6, 4, 4), torch.rand(2, 2 * 6, 4, 4)
        weight, bias = torch.randn(6, 2, 3, 2), torch.randn(6)
        for use_mask in (True, False):
            self.check_gradient(
                lambda *tensors: OPS.deform_conv2d(*tensors, 1, 2, 0, 1, 1, 1, 2, 2, use_mask),
                images, weight, offset, mask, bias,
            )

    def test_a_region_of_no_image(self):
        rois = torch.tensor([[5.0, 0, 0, 3, 3]], device="cuda")
        OPS.roi_align(self.images.cuda(), rois, 1.0, 2, 2, 2, False)
        with self.assertRaisesRegex(RuntimeError, "device-side assert"):
            torch.cuda.synchronize()


if __name__ == "__main__":
    unittest.main()
