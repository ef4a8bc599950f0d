"""Quantized convolutions."""

from __future__ import annotations

import corten
from corten import nn
from corten.ao.nn import intrinsic as nni
from corten.ao.nn.intrinsic import qat as nniqat
from corten.nn import functional as F
from corten.nn.modules.utils import _ntuple
from corten.nn.utils.fusion import fuse_conv_bn_weights

from .utils import WeightedQuantizedModule, _quantize_weight, check_qconfig, check_weight_dtype, number_from

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_SUPPORTED_PADDING = {"zeros", "reflect"}
_NO_QCONFIG = "Input float module must have qconfig defined."

#: What a convolution is pickled as, in this order, its weight and bias before the last three.
_SETTINGS = (
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "transposed", "output_padding",
    "groups", "padding_mode",
)


def _reverse_repeat_padding(padding):
    """Paddings as ``pad`` takes them: the last first, each twice."""
    return [width for width in reversed(padding) for _ in range(2)]


class _ConvNd(WeightedQuantizedModule):
    """What all convolutions share: `_rank` spatial dimensions, operators by name."""

    _FLOAT_MODULE: type
    _NNIQAT_CONV_BN_MODULE: type | None = None
    _NNI_CONV_RELU_MODULE: type | None = None
    _NNI_CONV_ADD_MODULE: type | None = None
    _NNI_CONV_ADD_RELU_MODULE: type | None = None
    _rank = 0
    _op = ""
    _prepack = ""
    _unpack = ""
    _shape = ""

    def _init(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups,
        bias, padding_mode="zeros", device=None, dtype=None,
    ):
        super().__init__()
        if out_channels <= 0:
            raise ValueError(f"out_channels must be greater than 0, got {out_channels}")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in _SUPPORTED_PADDING:
            raise ValueError(f"'padding_mode' {padding_mode} is not supported by quantized convolution")
        spread = _ntuple(self._rank)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = spread(kernel_size)
        self.stride = spread(stride)
        self.padding = padding if isinstance(padding, str) else spread(padding)
        self.dilation = spread(dilation)
        self.transposed = transposed
        self.output_padding = spread(output_padding)
        self.groups = groups
        self.padding_mode = padding_mode
        ends = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        weight = corten._empty_affine_quantized(
            [ends[0], ends[1] // groups, *self.kernel_size], scale=1, zero_point=0, dtype=corten.qint8,
            device=device,
        )
        self.set_weight_bias(
            weight, corten.zeros(out_channels, dtype=corten.float, device=device) if bias else None
        )
        self.scale = 1.0
        self.zero_point = 0

    def _get_name(self):
        return f"Quantized{'ConvTranspose' if self.transposed else 'Conv'}{self._rank}d"

    def _weight_bias(self):
        return getattr(corten.ops.quantized, self._unpack)(self._packed_params)

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The float bias, or None."""
        return self._weight_bias()[1]

    def _check_input(self, input):
        if input.dim() != self._rank + 2:
            raise ValueError(f"Input shape must be `{self._shape}`!")

    def _padded(self, input):
        """The input, with the padding that the operator does not do."""
        return input

    def forward(self, input):
        self._check_input(input)
        op = getattr(corten.ops.quantized, self._op)
        return op(self._padded(input), self._packed_params, self.scale, self.zero_point)

    def extra_repr(self):
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias() is None:
            text += ", bias=False"
        return text

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        weight, bias = self._weight_bias()
        destination[prefix + "weight"] = weight
        destination[prefix + "bias"] = bias
        destination[prefix + "scale"] = corten.tensor(self.scale)
        destination[prefix + "zero_point"] = corten.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        self.scale = number_from(state_dict, prefix + "scale", float)
        self.zero_point = number_from(state_dict, prefix + "zero_point", int)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __getstate__(self):
        settings = tuple(getattr(self, name) for name in _SETTINGS)
        return (*settings, *self._weight_bias(), self.scale, self.zero_point, self.training)

    def __setstate__(self, state):
        if "_modules" not in self.__dict__:
            # Unpickling makes a module without its constructor.
            nn.Module.__init__(self)
        for name, value in zip(_SETTINGS, state):
            setattr(self, name, value)
        self.set_weight_bias(state[10], state[11])
        self.scale, self.zero_point, self.training = state[12:15]

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        nn.Module.__init__(made)
        made.__setstate__(self.__getstate__())
        return made

    def __copy__(self):
        return self.__deepcopy__({})

    @classmethod
    def _check_float(cls, mod, text):
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(text)
        check_qconfig(mod, _NO_QCONFIG)

    @classmethod
    def _positional(cls, mod):
        """The arguments of the constructor, from a convolution."""
        return (
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.dilation, mod.groups,
            mod.bias is not None, mod.padding_mode,
        )

    @classmethod
    def get_qconv(cls, mod, activation_post_process, weight_post_process=None):
        """The module of a convolution with the parameters that observers find or found."""
        observer = mod.qconfig.weight() if weight_post_process is None else weight_post_process
        observer(mod.weight)
        check_weight_dtype(observer, "have a dtype of qint8")
        made = cls(*cls._positional(mod))
        made.set_weight_bias(_quantize_weight(mod.weight.float(), observer), mod.bias)
        if activation_post_process is not None and activation_post_process.dtype != corten.float:
            scale, zero_point = activation_post_process.calculate_qparams()
            made.scale = float(scale)
            made.zero_point = int(zero_point)
        return made

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float or trained one, with the parameters that its observers found."""
        if hasattr(mod, "weight_fake_quant"):
            if type(mod) is cls._NNIQAT_CONV_BN_MODULE:
                fold(mod)
            if not hasattr(mod, "activation_post_process"):
                raise AssertionError("Input QAT module must have observer attached")
            return cls.get_qconv(mod, mod.activation_post_process, mod.weight_fake_quant)
        cls._check_float(
            mod,
            f"nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__} "
            f"but got: {type(mod).__name__}",
        )
        activation = getattr(mod, "activation_post_process", None)
        if type(mod) in (cls._NNI_CONV_RELU_MODULE, cls._NNI_CONV_ADD_MODULE, cls._NNI_CONV_ADD_RELU_MODULE):
            mod = mod[0]
        return cls.get_qconv(mod, activation, mod.qconfig.weight())

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        """The module of a reference module."""
        weight = ref_qconv.weight
        made = cls(*cls._positional(ref_qconv), device=weight.device, dtype=weight.dtype)
        made.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        made.scale = float(output_scale)
        made.zero_point = int(output_zero_point)
        return made


def fold(mod):
    """Folds the batch normalisation of a trained convolution into its weight and bias."""
    bn = mod.bn
    mod.weight, mod.bias = fuse_conv_bn_weights(
        mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )


class _Conv(_ConvNd):
    """A forward convolution."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):
        if self._rank == 3 and padding_mode == "reflect":
            raise AssertionError("Conv3d does not support reflection padding")
        self._init(
            in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias, padding_mode,
            device, dtype,
        )

    def set_weight_bias(self, w, b):
        """Packs a weight and a bias or None. Padding that is no zeros is done before the convolution."""
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self._rank
        prepack = getattr(corten.ops.quantized, self._prepack)
        self._packed_params = prepack(w, b, self.stride, padding, self.dilation, self.groups)

    def _padded(self, input):
        if self.padding_mode == "zeros":
            return input
        return F.pad(input, _reverse_repeat_padding(self.padding[: self._rank]), mode=self.padding_mode)


class Conv1d(_Conv):
    """A convolution of signals with a weight of signed 8 bits and a float bias."""

    _FLOAT_MODULE = nn.Conv1d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBn1d
    _NNI_CONV_RELU_MODULE = nni.ConvReLU1d
    _rank = 1
    _op = "conv1d"
    _prepack = "conv1d_prepack"
    _unpack = "conv1d_unpack"
    _shape = "(N, C, L)"


class Conv2d(_Conv):
    """A convolution of images with a weight of signed 8 bits and a float bias."""

    _FLOAT_MODULE = nn.Conv2d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBn2d
    _NNI_CONV_RELU_MODULE = nni.ConvReLU2d
    _NNI_CONV_ADD_MODULE = nni.ConvAdd2d
    _NNI_CONV_ADD_RELU_MODULE = nni.ConvAddReLU2d
    _rank = 2
    _op = "conv2d"
    _prepack = "conv2d_prepack"
    _unpack = "conv2d_unpack"
    _shape = "(N, C, H, W)"


class Conv3d(_Conv):
    """A convolution of volumes with a weight of signed 8 bits and a float bias."""

    _FLOAT_MODULE = nn.Conv3d
    _NNIQAT_CONV_BN_MODULE = nniqat.ConvBn3d
    _NNI_CONV_RELU_MODULE = nni.ConvReLU3d
    _rank = 3
    _op = "conv3d"
    _prepack = "conv3d_prepack"
    _unpack = "conv3d_unpack"
    _shape = "(N, C, D, H, W)"


class _ConvTransposeNd(_ConvNd):
    """The adjoint of a convolution."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._init(
            in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding, groups, bias,
            padding_mode, device, dtype,
        )

    def _input_padding(self, kernel_size, dilation, padding):
        """The padding of the convolution over spread inputs that gives the same."""
        return [step * (size - 1) - width for size, step, width in zip(kernel_size, dilation, padding)]

    def set_weight_bias(self, w, b):
        """Packs a weight and a bias or None."""
        prepack = getattr(corten.ops.quantized, self._prepack)
        self._packed_params = prepack(
            w, b, self.stride, self.padding, self.output_padding, self.dilation, self.groups
        )

    @classmethod
    def _positional(cls, mod):
        return (
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.output_padding,
            mod.groups, mod.bias is not None, mod.dilation, mod.padding_mode,
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float one, with the parameters that its observers found."""
        cls._check_float(mod, f" nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        return cls.get_qconv(mod, getattr(mod, "activation_post_process", None), mod.qconfig.weight())


class ConvTranspose1d(_ConvTransposeNd):
    """The adjoint of :class:`Conv1d`."""

    _FLOAT_MODULE = nn.ConvTranspose1d
    _rank = 1
    _op = "conv_transpose1d"
    _prepack = "conv_transpose1d_prepack"
    _unpack = "conv_transpose1d_unpack"
    _shape = "(N, C, L)"


class ConvTranspose2d(_ConvTransposeNd):
    """The adjoint of :class:`Conv2d`."""

    _FLOAT_MODULE = nn.ConvTranspose2d
    _rank = 2
    _op = "conv_transpose2d"
    _prepack = "conv_transpose2d_prepack"
    _unpack = "conv2d_unpack"
    _shape = "(N, C, H, W)"


class ConvTranspose3d(_ConvTransposeNd):
    """The adjoint of :class:`Conv3d`."""

    _FLOAT_MODULE = nn.ConvTranspose3d
    _rank = 3
    _op = "conv_transpose3d"
    _prepack = "conv_transpose3d_prepack"
    _unpack = "conv3d_unpack"
    _shape = "(N, C, T, H, W)"
