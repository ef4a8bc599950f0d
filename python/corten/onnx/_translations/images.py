"""Interpolation, sampling and boxes."""

from __future__ import annotations

from corten.onnx._graph import FLOAT, INT64
from corten.onnx._table import translation


def _sizes(g, value, output_size, scales):
    """What Resize is given: scales where PyTorch computes positions with them, else sizes."""
    known = value.shape[2:]
    if scales is not None and None not in scales:
        exact = output_size is None or all(
            isinstance(size, int) and int(size * scale) == given for size, scale, given in zip(known, scales, output_size)
        )
        if exact:
            return None, g.vector([1.0, 1.0, *(float(scale) for scale in scales)], FLOAT)
    return g.ints([g.size(value, 0), g.size(value, 1), *output_size]), None


def _resize(g, value, output_size, scales, **attributes):
    scales = None if scales is None or all(scale is None for scale in scales) else list(scales)
    output_size = None if output_size is None or not list(output_size) else list(output_size)
    sizes, factors = _sizes(g, value, output_size, scales)
    return g.op("Resize", value, None, factors, sizes, **attributes)


def _scales(label, output_size, rest):
    """The scales of an overload: ``vec`` has them in a list, others one by one behind the sizes."""
    if label.endswith(".vec"):
        return rest[0] if rest else None
    return rest


@translation("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(g, self, output_size, *scales, **options):
    scales = _scales(g.label, output_size, scales)
    return _resize(g, self, output_size, scales, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")


@translation("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def upsample_nearest_exact(g, self, output_size, *scales):
    scales = _scales(g.label, output_size, scales)
    return _resize(g, self, output_size, scales, mode="nearest", nearest_mode="round_prefer_ceil",
                   coordinate_transformation_mode="half_pixel")


@translation("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa")
def upsample_linear(g, self, output_size, align_corners, *scales):
    return _smooth(g, self, output_size, align_corners, scales, "linear")


@translation("upsample_bicubic2d", "_upsample_bicubic2d_aa")
def upsample_bicubic(g, self, output_size, align_corners, *scales):
    # With antialiasing PyTorch has Pillow's coefficient.
    coefficient = -0.5 if "_aa" in g.label else -0.75
    return _smooth(g, self, output_size, align_corners, scales, "cubic", cubic_coeff_a=coefficient)


def _smooth(g, value, output_size, align_corners, scales, mode, **attributes):
    scales = _scales(g.label, output_size, scales)
    transformation = "align_corners" if align_corners else "pytorch_half_pixel"
    if mode == "cubic" and not align_corners:
        transformation = "half_pixel"
    if "_aa" in g.label:
        attributes.update(antialias=1, exclude_outside=1)
        transformation = "half_pixel" if not align_corners else transformation
    return _resize(g, value, output_size, scales, mode=mode, coordinate_transformation_mode=transformation, **attributes)


@translation("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(g, input, grid, interpolation_mode, padding_mode, align_corners):  # noqa: A002
    names = ("linear", "nearest", "cubic") if g.opset >= 20 else ("bilinear", "nearest", "bicubic")
    padding = ("zeros", "border", "reflection")[padding_mode]
    return g.op("GridSample", input, grid, mode=names[interpolation_mode], padding_mode=padding, align_corners=int(align_corners))


@translation("affine_grid_generator")
def affine_grid_generator(g, theta, size, align_corners):
    if g.opset < 20:
        g.refuse("it needs opset 20")
    return g.op("AffineGrid", theta, g.ints(size), align_corners=int(align_corners))


@translation("im2col")
def im2col(g, self, kernel_size, dilation, padding, stride):
    """Windows as columns, gathered row by row and column by column."""
    if self.rank != 4 or not all(isinstance(size, int) for size in self.shape[1:]):
        g.refuse("the sizes of the image must be known")
    channels, height, width = self.shape[1:]
    image = g.op("Pad", self, g.vector([0, 0, *padding] * 2), shape=(None,) * 4) if any(padding) else self
    rows = _windows(height + 2 * padding[0], kernel_size[0], dilation[0], stride[0])
    columns = _windows(width + 2 * padding[1], kernel_size[1], dilation[1], stride[1])
    found = g.op("Gather", image, g.graph.constant(sum(rows, []), INT64, (len(rows), len(rows[0]))), shape=(None,) * 5, axis=2)
    found = g.op("Gather", found, g.graph.constant(sum(columns, []), INT64, (len(columns), len(columns[0]))), shape=(None,) * 6, axis=4)
    found = g.transpose(found, [0, 1, 2, 4, 3, 5])
    return g.op("Reshape", found, g.vector([-1, channels * len(rows) * len(columns), len(rows[0]) * len(columns[0])]))


def _windows(size, kernel, dilation, stride):
    """The positions of each element of a window, window by window."""
    count = (size - dilation * (kernel - 1) - 1) // stride + 1
    return [[start * stride + i * dilation for start in range(count)] for i in range(kernel)]


# Boxes of torchvision.


@translation("torchvision.nms")
def nms(g, dets, scores, iou_threshold):
    boxes, rows = g.unsqueeze(dets, [0]), g.unsqueeze(scores, [0, 1])
    most = g.vector([2**31 - 1])
    found = g.op("NonMaxSuppression", boxes, rows, most, g.vector([iou_threshold], FLOAT), dtype=INT64, shape=(None, 3))
    return g.op("Gather", found, g.scalar(2, INT64), axis=1)


@translation("torchvision.roi_align")
def roi_align(g, input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):  # noqa: A002
    batch = g.op("Gather", rois, g.scalar(0, INT64), shape=(None,), axis=1)
    boxes = g.slice(rois, [1], [5], [1])
    return g.op(
        "RoiAlign", input, boxes, g.cast(batch, INT64), output_height=pooled_height, output_width=pooled_width,
        sampling_ratio=max(0, sampling_ratio), spatial_scale=float(spatial_scale), mode="avg",
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )


@translation("torchvision.roi_pool")
def roi_pool(g, input, rois, spatial_scale, pooled_height, pooled_width):  # noqa: A002
    found = g.op("MaxRoiPool", input, rois, pooled_shape=[pooled_height, pooled_width], spatial_scale=float(spatial_scale))
    return found, None
