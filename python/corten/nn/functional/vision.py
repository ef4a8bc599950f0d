"""Resampling, padding and rearranging of images."""

from __future__ import annotations

import math
import warnings

import corten

from corten._overriding import dispatch, overridden
from corten._symbolic_functions import sym_float as _sym_float
from ._ops import available, direct, needs, ops, pair_of

direct(globals(), {name: name for name in (
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle",
)})


@needs("pad")
def pad(input, pad, mode="constant", value=None):
    """Pads the last dimensions: (left, right) of the last one first."""
    if overridden(input):
        return dispatch(_pad, (input,), locals())
    return ops.pad(input, pad, mode, value)


_pad = pad


@needs("im2col")
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Sliding windows of an image as columns."""
    if overridden(input):
        return dispatch(unfold, (input,), locals())
    arguments = (pair_of(a, 2) for a in (kernel_size, dilation, padding, stride))
    return ops.im2col(input, *arguments)


@needs("col2im")
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sums columns back into an image; the adjoint of :func:`unfold`."""
    if overridden(input):
        return dispatch(fold, (input,), locals())
    arguments = (pair_of(a, 2) for a in (output_size, kernel_size, dilation, padding, stride))
    return ops.col2im(input, *arguments)


_NEAREST = {3: "upsample_nearest1d", 4: "upsample_nearest2d", 5: "upsample_nearest3d"}
_EXACT = {3: "_upsample_nearest_exact1d", 4: "_upsample_nearest_exact2d",
          5: "_upsample_nearest_exact3d"}
_AREA = {3: "adaptive_avg_pool1d", 4: "adaptive_avg_pool2d", 5: "adaptive_avg_pool3d"}
_SMOOTH = {("linear", 3): "upsample_linear1d", ("bilinear", 4): "upsample_bilinear2d",
           ("trilinear", 5): "upsample_trilinear3d", ("bicubic", 4): "upsample_bicubic2d"}
_ANTIALIASED = {("bilinear", 4): "_upsample_bilinear2d_aa",
                ("bicubic", 4): "_upsample_bicubic2d_aa",
                ("lanczos", 4): "_upsample_lanczos2d_aa"}
_ALIGNABLE = ("linear", "bilinear", "bicubic", "trilinear", "lanczos")


def _sizes_and_scales(input, size, scale_factor, recompute):
    """What `interpolate` hands to the operators: output sizes, and scales if they are to be kept."""
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != n:
                raise ValueError(
                    "Input and output must have the same number of spatial dimensions, but got "
                    f"input with spatial dimensions of {list(input.shape[2:])} and output size of "
                    f"{size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                    "output size in (o1, o2, ...,oK) format."
                )
            if not all(corten.overrides.is_tensor_like(one) or hasattr(one, "__index__") for one in size):
                raise TypeError(
                    "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but "
                    f"got size with types {[type(one) for one in size]}"
                )
            return list(size), None
        return [size] * n, None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != n:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(input.shape[2:])} and scale_factor of "
                f"shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                "format and scale_factor in (s1, s2, ...,sK) format."
            )
        scales = list(scale_factor)
    else:
        scales = [scale_factor] * n
    sizes = [math.floor(_sym_float(input.size(i + 2)) * scales[i]) for i in range(n)]
    if any(type(one) is int and abs(one) >= 1 << 63 for one in sizes):
        raise RuntimeError("Overflow when unpacking long long")
    return sizes, None if recompute else scales


@needs("upsample_nearest2d", "upsample_bilinear2d")
def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None,
    recompute_scale_factor=None, antialias=False,
):
    """Resizes an (N, C, ...) input to ``size`` or by ``scale_factor``."""
    if overridden(input):
        return dispatch(interpolate, (input,), locals())
    rank = input.dim()
    if mode in _ALIGNABLE:
        align_corners = False if align_corners is None else align_corners
    elif align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear | lanczos"
        )
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and (mode, rank) not in _ANTIALIASED:
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes "
                         "and requires a 4-D tensor as input")
    recompute = bool(recompute_scale_factor) or mode == "area"
    sizes, scales = _sizes_and_scales(input, size, scale_factor, recompute)
    if antialias:
        per_side = scales or [None, None]
        return getattr(ops, _ANTIALIASED[mode, rank])(input, sizes, align_corners, *per_side)
    per_side = scales or [None] * (rank - 2)
    if mode == "area" and rank in _AREA:
        return getattr(ops, _AREA[rank])(input, sizes)
    table = {"nearest": _NEAREST, "nearest-exact": _EXACT}.get(mode)
    if table is not None and rank in table:
        return getattr(ops, table[rank])(input, sizes, *per_side)
    if (mode, rank) in _SMOOTH:
        return getattr(ops, _SMOOTH[mode, rank])(input, sizes, align_corners, *per_side)
    _refuse_interpolation(input, mode)


_RANK_OF_MODE = {"linear": 3, "bilinear": 4, "trilinear": 5, "bicubic": 4}


def _refuse_interpolation(input, mode):
    if mode in _RANK_OF_MODE and input.dim() in (3, 4, 5) and mode != "bicubic":
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {_RANK_OF_MODE[mode]}D input"
        )
    raise NotImplementedError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
        f"{input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area "
        f"| nearest-exact (got {mode})"
    )


@needs("upsample_nearest2d", "upsample_bilinear2d")
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Older name of :func:`interpolate`."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


@needs("upsample_nearest2d")
def upsample_nearest(input, size=None, scale_factor=None):
    """``interpolate(mode="nearest")``."""
    return interpolate(input, size, scale_factor, mode="nearest")


@needs("upsample_bilinear2d")
def upsample_bilinear(input, size=None, scale_factor=None):
    """``interpolate(mode="bilinear", align_corners=True)``."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


_SAMPLERS = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@needs("grid_sampler")
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """The values of ``input`` at the points of ``grid``, in [-1, 1]."""
    if overridden(input, grid):
        return dispatch(grid_sample, (input, grid), locals())
    if mode not in _SAMPLERS:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details.",
            stacklevel=2,
        )
        align_corners = False
    return ops.grid_sampler(input, grid, _SAMPLERS[mode], _PADDINGS[padding_mode], align_corners)


@needs("affine_grid_generator")
def affine_grid(theta, size, align_corners=None):
    """The sampling grid of the affine maps ``theta``, for an output of ``size``."""
    if overridden(theta):
        return dispatch(affine_grid, (theta,), locals())
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of affine_grid for details.",
            stacklevel=2,
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    expected = {4: (2, 3), 5: (3, 4)}.get(len(size))
    if expected is None:
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != expected:
        raise ValueError(
            f"Expected a batch of {expected[0]}D affine matrices of shape Nx{expected[0]}x"
            f"{expected[1]} for size {size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return ops.affine_grid_generator(theta, size, align_corners)


__all__ = available(globals())
