"""Convolutions over packed parameters."""

from __future__ import annotations

import corten
from corten import _C
from corten._quantized.packed import Conv2dPackedParamsBase, Conv3dPackedParamsBase

_call = _C._op_call


def _apply(qx, packed, scale, zero_point, relu, addend=None, dims=None):
    if not qx.is_quantized:
        raise NotImplementedError(
            f"Could not run 'quantized::conv{dims or packed._dims}d' with arguments from the 'CPU' backend: the input is "
            "not quantized"
        )
    lists = packed._lists
    return _call(
        "corten::quantized_convolution", qx, *packed._parts, packed._bias, lists["stride"], lists["padding"],
        lists["dilation"], lists["output_padding"], packed._groups, packed._transpose, scale, zero_point, relu,
        packed.onednn, addend,
    )


def _of_signal(qx, packed, scale, zero_point, relu):
    """A convolution of signals, as of images of height 1."""
    if qx.dim() != 3:
        raise RuntimeError(f"Input shape must be `(N, C, L)`!, but the input has {qx.dim()} dimensions")
    return _apply(qx.unsqueeze(2), packed, scale, zero_point, relu, dims=1).squeeze(2)


def conv1d(qx, packed_weight, output_scale, output_zero_point):
    """A convolution of signals, on a scale."""
    return _of_signal(qx, packed_weight, output_scale, output_zero_point, False)


def conv1d_relu(qx, packed_weight, output_scale, output_zero_point):
    """The same, or 0 where that is more."""
    return _of_signal(qx, packed_weight, output_scale, output_zero_point, True)


conv_transpose1d = conv1d


def _conv(relu):
    def conv(qx, packed_weight, *numbers, **named):
        # An older overload repeats the numbers of the convolution, which are packed.
        scale, zero_point = (
            named.get("output_scale", numbers[-2] if len(numbers) > 1 else None),
            named.get("output_zero_point", numbers[-1] if numbers else None),
        )
        if scale is None or zero_point is None:
            raise TypeError("quantized convolution: missing output_scale or output_zero_point")
        return _apply(qx, packed_weight, scale, zero_point, relu)

    return conv


conv2d, conv2d_relu = _conv(False), _conv(True)
conv3d, conv3d_relu = conv2d, conv2d_relu
conv_transpose2d = conv_transpose3d = conv2d


def conv2d_add(qx, qaccum, packed_weight, output_scale, output_zero_point):
    """A convolution to which a quantised tensor is added, on a scale."""
    _only_onednn(packed_weight, "conv2d_add")
    return _apply(qx, packed_weight, output_scale, output_zero_point, False, qaccum)


def conv2d_add_relu(qx, qaccum, packed_weight, output_scale, output_zero_point):
    """The same, or 0 where that is more."""
    _only_onednn(packed_weight, "conv2d_add_relu")
    return _apply(qx, packed_weight, output_scale, output_zero_point, True, qaccum)


def _only_onednn(packed, name):
    if not packed.onednn:
        raise RuntimeError(f"Didn't find engine for operation quantized::{name}.X86")


def conv2d_prepack(weight, bias, stride, padding, dilation, groups):
    """Packs the weight of a convolution of images."""
    return Conv2dPackedParamsBase(weight, bias, stride, padding, [0] * len(stride), dilation, groups, False)


def conv3d_prepack(weight, bias, stride, padding, dilation, groups):
    """Packs the weight of a convolution of volumes."""
    return Conv3dPackedParamsBase(weight, bias, stride, padding, [0] * len(stride), dilation, groups, False)


def conv_transpose2d_prepack(weight, bias, stride, padding, output_padding, dilation, groups):
    """Packs the weight of a transposed convolution of images."""
    return Conv2dPackedParamsBase(weight, bias, stride, padding, output_padding, dilation, groups, True)


def conv_transpose3d_prepack(weight, bias, stride, padding, output_padding, dilation, groups):
    """Packs the weight of a transposed convolution of volumes."""
    return Conv3dPackedParamsBase(weight, bias, stride, padding, output_padding, dilation, groups, True)


def _image(numbers, filler):
    return [filler, *numbers] if len(numbers) == 1 else list(numbers)


def conv1d_prepack(weight, bias, stride, padding, dilation, groups):
    """Packs the weight of a convolution of signals."""
    return conv2d_prepack(
        weight.unsqueeze(-2), bias, _image(stride, 1), _image(padding, 0), _image(dilation, 1), groups
    )


def conv_transpose1d_prepack(weight, bias, stride, padding, output_padding, dilation, groups):
    """Packs the weight of a transposed convolution of signals."""
    return conv_transpose2d_prepack(
        weight.unsqueeze(-2), bias, _image(stride, 1), _image(padding, 0), _image(output_padding, 0),
        _image(dilation, 1), groups,
    )


def conv2d_unpack(packed_weights):
    """The weight and the bias."""
    return packed_weights.unpack()


conv3d_unpack = conv_unpack = conv_transpose2d_unpack = conv_transpose3d_unpack = conv2d_unpack
conv_prepack = conv2d_prepack


def conv1d_unpack(packed_weights):
    """The weight of a convolution of signals, and the bias."""
    weight, bias = packed_weights.unpack()
    return weight.squeeze(2), bias


conv_transpose1d_unpack = conv1d_unpack


def conv2d_unpack_sizes(packed_weights):
    """The shapes of the weight and the bias, and the numbers of the convolution."""
    weight, bias = packed_weights.unpack()
    sizes = None if bias is None else list(bias.shape)
    return (
        list(weight.shape), sizes, packed_weights.stride(), packed_weights.padding(), packed_weights.dilation(),
        packed_weights.groups(),
    )


def conv2d_stride(packed_weights):
    """The distance of two windows."""
    return packed_weights.stride()


def conv2d_padding(packed_weights):
    """The pixels around the image."""
    return packed_weights.padding()


def conv2d_output_padding(packed_weights):
    """The pixels behind the image of a transposed convolution."""
    return packed_weights.output_padding()


def conv2d_dilation(packed_weights):
    """The distance of two pixels of a window."""
    return packed_weights.dilation()


def conv2d_groups(packed_weights):
    """The number of groups."""
    return packed_weights.groups()


def conv2d_transpose(packed_weights):
    """1 for a transposed convolution, else 0."""
    return int(packed_weights.transpose())


for _name in ("stride", "padding", "output_padding", "dilation", "groups", "transpose"):
    for _kind in ("conv3d", "conv_transpose2d", "conv_transpose3d"):
        globals()[f"{_kind}_{_name}"] = globals()[f"conv2d_{_name}"]


def conv2d_dynamic(qx, packed_weight, reduce_range=False):
    """A convolution of numbers, which are quantised by their range. As in PyTorch the result is quantised by that
    range, too, and what is beyond it is cut off."""
    scale, zero_point = corten._choose_qparams_per_tensor(qx, reduce_range)
    quantised = corten.quantize_per_tensor(qx, scale, zero_point, corten.quint8)
    return _apply(quantised, packed_weight, scale, zero_point, False).dequantize()


conv3d_dynamic = conv_transpose2d_dynamic = conv_transpose3d_dynamic = conv2d_dynamic


def conv1d_dynamic(qx, packed_weight, reduce_range=False):
    """The same of signals."""
    return conv2d_dynamic(qx.unsqueeze(2), packed_weight, reduce_range).squeeze(2)


conv_transpose1d_dynamic = conv1d_dynamic
