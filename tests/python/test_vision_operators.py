"""The operators of torchvision beside values that torchvision computed, and their derivatives."""

import json
import pathlib
import unittest

import numpy as np

from module_under_test import torch

GOLDENS = np.load(pathlib.Path(__file__).resolve().parent.parent / "goldens" / "vision.npz")
CASES = json.loads(str(GOLDENS["cases"]))
OPS = torch.ops.torchvision


def case(nr, dtype=None):
    """Name, tensors, other arguments, results, gradient of the first, and gradients."""
    name, count, others = CASES[nr]

    def part(what):
        found = torch.from_numpy(GOLDENS[f"{nr}/{what}"].copy())
        return found.to(dtype) if dtype and found.is_floating_point() else found

    known = [key.rpartition("/")[2] for key in GOLDENS.files if key.startswith(f"{nr}/")]
    results = [part(key) for key in sorted(known) if key.startswith("result")]
    gradients = {int(key[8:]): part(key) for key in known if key.startswith("gradient")}
    grad = part("grad") if "grad" in known else None
    return name, [part(f"argument{i}") for i in range(count)], others, results, grad, gradients


def called(name, tensors, others):
    result = getattr(OPS, name)(*tensors, *others)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def numbers(name):
    return [nr for nr, one in enumerate(CASES) if one[0] == name]


class Values(unittest.TestCase):
    def check(self, nr, dtype=None, rtol=1e-9, atol=1e-9):
        name, tensors, others, results, grad, gradients = case(nr, dtype)
        if tensors[0].dtype == torch.float32:
            rtol = atol = max(rtol, 2e-5)
        for place in gradients:
            tensors[place].requires_grad_()
        given = called(name, tensors, others)
        with self.subTest(name=name, nr=nr, others=others):
            for own, expected in zip(given, results, strict=True):
                torch.testing.assert_close(own.detach(), expected, rtol=rtol, atol=atol, equal_nan=True)
            if gradients:
                given[0].backward(grad)
            for place, expected in gradients.items():
                torch.testing.assert_close(tensors[place].grad, expected, rtol=rtol, atol=atol, equal_nan=True)

    def test_values_and_gradients(self):
        for nr in range(len(CASES)):
            self.check(nr)

    def test_half(self):
        for name in ("roi_align", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
            for dtype, near in ((torch.float16, 0.02), (torch.bfloat16, 0.2)):
                nr = numbers(name)[0]
                _, tensors, others, _, _, _ = case(nr, dtype)
                exact = called(name, [tensor.double() for tensor in tensors], others)[0]
                own = called(name, tensors, others)[0]
                self.assertEqual(own.dtype, dtype)
                torch.testing.assert_close(own.double(), exact, rtol=near, atol=near, equal_nan=True)

    def test_strides(self):
        for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
            nr = numbers(name)[0]
            _, tensors, others, results, _, _ = case(nr)
            turned = [
                tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor
                for tensor in tensors
            ]
            torch.testing.assert_close(called(name, turned, others)[0], results[0], equal_nan=True)

    def test_shapes_without_data(self):
        for nr, (name, _, _) in enumerate(CASES):
            if name == "nms":
                continue
            _, tensors, others, results, _, _ = case(nr)
            made = called(name, [tensor.to("meta") for tensor in tensors], others)
            for own, expected in zip(made, results, strict=True):
                self.assertEqual((own.shape, own.dtype), (expected.shape, expected.dtype), name)

    def test_no_regions(self):
        for name, channels in (("roi_align", 4), ("roi_pool", 4), ("ps_roi_align", 1), ("ps_roi_pool", 1)):
            others = list(case(numbers(name)[0])[2])
            others[1:3] = [2, 2]
            image = torch.rand(2, 4, 5, 6, requires_grad=True)
            out = called(name, [image, torch.zeros(0, 5)], others)[0]
            self.assertEqual(out.shape, (0, channels, 2, 2))
            out.sum().backward()
            self.assertEqual(image.grad.abs().sum(), 0)

    def test_regions_far_outside(self):
        image = torch.ones(1, 1, 4, 4)
        huge = torch.tensor([[0, -1e9, -1e9, 1e9, 1e9], [0, 1e30, 1e30, 1e38, 1e38], [0, 3, 3, 1e6, 1e6]])
        out = OPS.roi_align(image, huge, 1.0, 2, 2, -1, False)
        self.assertEqual(out.shape, (3, 1, 2, 2))
        self.assertTrue(bool(((out >= 0) & (out <= 1)).all()))
        self.assertEqual(OPS.roi_pool(image, huge, 1.0, 2, 2)[0].shape, (3, 1, 2, 2))

    def test_boxes_without_order(self):
        boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 6, 6]])
        scores = torch.tensor([0.5, float("nan"), 0.7])
        self.assertEqual(OPS.nms(boxes, scores, 0.5).tolist(), [1, 2])
        self.assertEqual(OPS.nms(boxes, torch.ones(3), 0.5).tolist(), [0, 2])


class Derivatives(unittest.TestCase):
    def small(self, name):
        generator = torch.Generator().manual_seed(1)
        image = torch.rand(2, 4, 5, 6, dtype=torch.float64, generator=generator)
        rois = torch.tensor([[0, 0.3, 0.2, 4.1, 3.3], [1, 1.2, 0.7, 3.9, 4.4]], dtype=torch.float64)
        others = {"roi_align": [1.0, 2, 2, 2, True], "ps_roi_align": [1.0, 2, 2, 2]}.get(name, [1.0, 2, 2])
        return image.requires_grad_(), rois, others

    def test_regions(self):
        for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"):
            with self.subTest(name=name):
                image, rois, others = self.small(name)

                def function(image):
                    return called(name, [image, rois], others)[0]

                self.assertTrue(torch.autograd.gradcheck(function, (image,)))
                self.assertTrue(torch.autograd.gradgradcheck(function, (image,)))

    def test_deformable_convolution(self):
        generator = torch.Generator().manual_seed(2)
        sizes = [(1, 2, 4, 4), (2, 1, 2, 2), (1, 16, 3, 3), (1, 8, 3, 3), (2,)]
        tensors = [torch.rand(*size, dtype=torch.float64, generator=generator).requires_grad_() for size in sizes]

        def function(*tensors):
            return OPS.deform_conv2d(*tensors, 1, 1, 0, 0, 1, 1, 2, 2, True)

        self.assertTrue(torch.autograd.gradcheck(function, tensors))
        out = function(*tensors)
        first = torch.autograd.grad(out.sum(), tensors, create_graph=True)[1]
        with self.assertRaisesRegex(RuntimeError, "double backwards on deform_conv2d not supported"):
            first.sum().backward()

    def test_positions_of_regions_have_no_gradient(self):
        image, rois, others = self.small("roi_align")
        OPS.roi_align(image, rois.requires_grad_(), *others).sum().backward()
        self.assertIsNone(rois.grad)
        self.assertGreater(image.grad.abs().sum(), 0)


class Errors(unittest.TestCase):
    def refused(self, text, function, *args):
        with self.assertRaisesRegex(RuntimeError, text):
            function(*args)

    def test_boxes(self):
        boxes, scores = torch.rand(3, 4), torch.rand(3)
        self.refused("boxes should be a 2d tensor, got 1D", OPS.nms, boxes[0], scores, 0.5)
        self.refused("boxes should have 4 elements in dimension 1, got 3", OPS.nms, boxes[:, :3], scores, 0.5)
        self.refused("scores should be a 1d tensor, got 2D", OPS.nms, boxes, scores[None], 0.5)
        self.refused("same number of elements in dimension 0, got 3 and 2", OPS.nms, boxes, scores[:2], 0.5)
        self.refused("dets should have the same type as scores", OPS.nms, boxes, scores.double(), 0.5)
        self.refused("not implemented for", OPS.nms, boxes.long(), scores.long(), 0.5)
        self.refused("5 elements in dimension 1, got 4", OPS.box_iou_rotated, boxes, torch.rand(2, 5))

    def test_regions(self):
        image, rois = torch.rand(2, 4, 5, 6), torch.zeros(1, 5)
        for name, others in (
            ("roi_align", [1.0, 2, 2, 0, True]), ("roi_pool", [1.0, 2, 2]), ("ps_roi_align", [1.0, 2, 2, 0]),
            ("ps_roi_pool", [1.0, 2, 2]),
        ):
            function = getattr(OPS, name)
            self.refused("rois must have shape as", function, image, rois[:, :4], *others)
            self.refused("input should have the same type as rois", function, image, rois.double(), *others)
            self.refused("should have 4 dimensions", function, image[0], rois, *others)
            for number in (2.0, -1.0, float("nan"), float("inf")):
                self.refused("region 0 is of image", function, image, rois + number, *others)
            self.refused("not implemented for", function, image.long(), rois.long(), *others)
            self.refused("negative", function, image, rois, 1.0, -1, 2, *others[3:])
        self.refused("multiple of pooling height", OPS.ps_roi_pool, image[:, :3], rois, 1.0, 2, 2)
        places = torch.full((1, 4, 2, 2), 30, dtype=torch.int32)
        self.refused(
            "argmax is outside", OPS._roi_pool_backward, torch.rand(1, 4, 2, 2), rois, places, 1.0, 2, 2, 2, 4, 5, 6,
        )
        self.refused(
            "channel_mapping", OPS._ps_roi_pool_backward, torch.rand(1, 1, 2, 2), rois, places[:, :1], 1.0, 2, 2, 2, 4, 5, 6,
        )

    def test_deformable_convolution(self):
        sizes = {"input": (1, 4, 5, 5), "weight": (2, 4, 3, 3), "offset": (1, 18, 3, 3), "mask": (1, 9, 3, 3), "bias": (2,)}

        def refused(text, numbers=(1, 1, 0, 0, 1, 1, 1, 1, True), **changed):
            tensors = [torch.rand(*changed.get(name, size)) for name, size in sizes.items()]
            self.refused(text, OPS.deform_conv2d, *tensors, *numbers)

        refused("input should have 4 dimensions", input=(4, 5, 5))
        refused("weight should have 4 dimensions", weight=(4, 3, 3))
        refused("weight has 3 channels", weight=(2, 3, 3, 3))
        refused(r"offset.shape\[1\] is not valid: got: 17 expected: 18", offset=(1, 17, 3, 3))
        refused(r"mask.shape\[1\] is not valid: got: 8 expected: 9", mask=(1, 8, 3, 3))
        refused("invalid batch size of offset", offset=(2, 18, 3, 3))
        refused(r"offset output dims: \(4, 3\) - computed output dims: \(3, 3\)", offset=(1, 18, 4, 3))
        refused("invalid batch size of mask", mask=(2, 9, 3, 3))
        refused("bias should have the shape", bias=(3,))
        refused("stride_h: 0 stride_w: 1", (0, 1, 0, 0, 1, 1, 1, 1, True))
        refused("pad_h: -1 pad_w: 0", (1, 1, -1, 0, 1, 1, 1, 1, True))
        refused("dilation_h: 0 dilation_w: 1", (1, 1, 0, 0, 0, 1, 1, 1, True))
        refused("groups", (1, 1, 0, 0, 1, 1, 0, 1, True))

    def test_absurd_numbers(self):
        numbers = (2**62, -(2**62), 2**31, 2**33 + 1, -1, 0, 3)
        image, rois = torch.rand(1, 4, 5, 6), torch.tensor([[0, 1.0, 1, 3, 3]])
        places = torch.zeros(1, 4, 2, 2, dtype=torch.int32)
        own = torch.arange(4, dtype=torch.int32).view(1, 1, 2, 2)
        calls = [
            (OPS.roi_align, (image, rois, 1.0), [2, 2, 2], (True,)),
            (OPS._roi_align_backward, (image[:, :, :2, :2], rois, 1.0), [2, 2, 1, 4, 5, 6, 2], (True,)),
            (OPS.roi_pool, (image, rois, 1.0), [2, 2], ()),
            (OPS._roi_pool_backward, (image[:, :, :2, :2], rois, places, 1.0), [2, 2, 1, 4, 5, 6], ()),
            (OPS.ps_roi_align, (image, rois, 1.0), [2, 2, 2], ()),
            (OPS._ps_roi_align_backward, (image[:, :1, :2, :2], rois, own, 1.0), [2, 2, 2, 1, 4, 5, 6], ()),
            (OPS.ps_roi_pool, (image, rois, 1.0), [2, 2], ()),
            (OPS._ps_roi_pool_backward, (image[:, :1, :2, :2], rois, own, 1.0), [2, 2, 1, 4, 5, 6], ()),
        ]
        for channels in (4, 0):
            tensors = (
                image[:, :channels], torch.rand(2, channels, 3, 3), torch.rand(1, 18, 3, 4), torch.rand(1, 9, 3, 4),
                torch.rand(2),
            )
            calls.append((OPS.deform_conv2d, tensors, [1, 1, 0, 0, 1, 1, 1, 1], (True,)))
            tensors = (torch.rand(1, 2, 3, 4), *tensors)
            calls.append((OPS._deform_conv2d_backward, tensors, [1, 1, 0, 0, 1, 1, 1, 1], (True,)))
        for function, before, usual, after in calls:
            function(*before, *usual, *after) if before[0].numel() and before[1].numel() else None
            for first in range(len(usual)):
                for second in range(first, len(usual)):
                    for number in numbers:
                        given = list(usual)
                        given[first] = given[second] = number
                        try:
                            function(*before, *given, *after)
                        except RuntimeError as error:
                            self.assertNotRegex(str(error), "panic|INTERNAL")

    def test_quantized(self):
        self.assertIn("qroi_align(Tensor input", str(OPS.qroi_align.default.schema))
        with self.assertRaises(NotImplementedError):
            OPS.qnms(torch.rand(2, 4), torch.rand(2), 0.5)


if __name__ == "__main__":
    unittest.main()
