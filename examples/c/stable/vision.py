"""Kernels of torchvision's library beside Corten's own: python vision.py PATH/_C_stable.so."""

import sys

import corten as torch
from corten import _C

vision = torch.ops.torchvision
torch.manual_seed(0)


def boxes(count, scale):
    found = torch.rand(count, 4) * scale
    found[:, 2:] += found[:, :2]
    return found


images = torch.randn(2, 4, 24, 24)
regions = torch.cat([torch.randint(0, 2, (6, 1)).float(), boxes(6, 10.0)], 1)
weight, bias = torch.randn(6, 4, 3, 3), torch.randn(6)
offsets, mask = torch.randn(2, 18, 22, 22), torch.rand(2, 9, 22, 22)
candidates, scores = boxes(60, 20.0), torch.rand(60)
step = (1, 1, 0, 0, 1, 1, 1, 1)

CASES = {
    "nms": (lambda x, r: vision.nms(candidates.to(x.dtype), scores.to(x.dtype), 0.4), False),
    "roi_align": (lambda x, r: vision.roi_align(x, r, 0.5, 5, 6, 2, True), True),
    "roi_align adaptive": (lambda x, r: vision.roi_align(x, r, 1.0, 3, 3, -1, False), True),
    "roi_pool": (lambda x, r: vision.roi_pool(x, r, 0.5, 5, 6), True),
    "ps_roi_align": (lambda x, r: vision.ps_roi_align(x, r, 0.5, 2, 2, 2), True),
    "ps_roi_pool": (lambda x, r: vision.ps_roi_pool(x, r, 0.5, 2, 2), True),
    "deform_conv2d": (
        lambda x, r: vision.deform_conv2d(
            x, *(one.to(x.dtype) for one in (weight, offsets, mask, bias)), *step, True), True),
}


def results():
    found = {}
    for name, (call, differentiable) in CASES.items():
        for dtype in torch.float32, torch.float64:
            x = images.detach().clone().to(dtype).requires_grad_(differentiable)
            made = call(x, regions.to(dtype))
            made = list(made) if isinstance(made, (tuple, list)) else [made]
            if differentiable:
                made[0].square().sum().backward()
                made.append(x.grad)
            found[name, dtype] = [one.detach() for one in made]
    return found


own = results()
_C._load_library(sys.argv[1])
theirs = results()
for (name, dtype), expected in own.items():
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    largest = 0.0
    for a, b in zip(expected, theirs[name, dtype], strict=True):
        torch.testing.assert_close(a, b, **tolerance)
        largest = max(largest, float((a.double() - b.double()).abs().max()))
    print(f"{name:20} {str(dtype):14} largest difference {largest:.1e}")
try:
    vision.nms(candidates, scores[:3], 0.4)
except RuntimeError as error:
    assert "boxes and scores should have same number of elements" in str(error), error
else:
    raise AssertionError("wrong scores were taken")
print("torchvision", vision._cuda_version(), "is loaded")
