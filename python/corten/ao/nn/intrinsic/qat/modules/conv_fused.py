"""Convolutions that train as one with their batch normalisation or their rectifier."""

from __future__ import annotations

import math

import corten
from corten import nn
from corten.ao.nn import intrinsic as nni
from corten.ao.nn import qat as nnqat
from corten.ao.nn.qat.modules.conv import float_conv
from corten.nn import functional as F
from corten.nn import init
from corten.nn.utils.fusion import fuse_conv_bn_weights

from ._normalized import NormalizedModule

__all__ = [
    "ConvBn1d", "ConvBnReLU1d", "ConvReLU1d", "ConvBn2d", "ConvBnReLU2d", "ConvReLU2d", "ConvBn3d",
    "ConvBnReLU3d", "ConvReLU3d", "update_bn_stats", "freeze_bn_stats",
]

_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}

#: Names of the first version of state dicts, by those of the second.
_FIRST_NAMES = {
    "bn.weight": "gamma", "bn.bias": "beta", "bn.running_mean": "running_mean", "bn.running_var": "running_var",
    "bn.num_batches_tracked": "num_batches_tracked",
}


class _ConvBnNd(nn.modules.conv._Conv, NormalizedModule):
    """A convolution and a batch normalisation with fake quantization of the folded weight."""

    _version = 2
    _FLOAT_MODULE: type
    _FLOAT_CONV_MODULE: type
    _FLOAT_BN_MODULE: type | None = None
    _FLOAT_RELU_MODULE: type | None = None

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=None,
        padding_mode="zeros", eps=1e-5, momentum=0.1, freeze_bn=False, qconfig=None,
    ):
        nn.modules.conv._Conv.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False, padding_mode
        )
        self._set_normalization(out_channels, bias, _NORMS[self._rank], eps, momentum, freeze_bn, qconfig)
        self._enable_slow_path_for_better_numerical_stability = False

    def reset_bn_parameters(self):
        """Draws the scale of the normalisation and the bias, and forgets the statistics."""
        super().reset_bn_parameters()
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def _forward(self, input):
        zero = corten.zeros(self.out_channels, device=self.weight.device, dtype=input.dtype)

        def product(weight):
            return self._conv_forward(input, weight, zero)

        if self._enable_slow_path_for_better_numerical_stability:
            return self._forward_slow(product)
        return self._normalized(product)

    def forward(self, input):
        return self._forward(input)

    def _forward_slow(self, product):
        """The same without a division by the factor, which may be near zero, at twice the cost in training."""
        if self.bn.running_var is None:
            raise AssertionError("self.bn.running_var must not be None")
        if self.bn.running_mean is None:
            raise AssertionError("self.bn.running_mean must not be None")
        scale, shift = self.bn.weight, self.bn.bias
        if self.bn.training:
            exact = product(self.weight)
            with corten.no_grad():
                # Only the running statistics are wanted of this.
                self.bn(exact if self.bias is None else exact + self._across(self.bias))
            running_std = self._running_std()
            result = product(self._folded_weight(scale / running_std))
            dims = [0, *range(2, self.weight.dim())]
            mean = exact.mean(dims)
            var = corten.square(exact - self._across(mean)).mean(dims)
            std = corten.sqrt(var + self.bn.eps)
            result = result * self._across(running_std / std)
        else:
            std = self._running_std()
            result = product(self._folded_weight(scale / std))
            mean = self.bn.running_mean - (0 if self.bias is None else self.bias)
        result = result + self._across(shift - scale * mean / std)
        if self.bias is not None:
            # A bias changes nothing before a normalisation, but its gradient shall be zero, not None.
            result = result + self._across(self.bias - self.bias)
        return result

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if local_metadata.get("version") in (None, 1):
            for name, first in _FIRST_NAMES.items():
                if prefix + first in state_dict:
                    state_dict[prefix + name] = state_dict.pop(prefix + first)
                elif prefix + name not in state_dict and strict:
                    missing_keys.append(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module in training for a fused float module with a ``qconfig``; parameters are shared."""
        cls._check_float(mod, cls._FLOAT_MODULE)
        conv, bn = mod[0], mod[1]
        made = cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation,
            conv.groups, conv.bias is not None, conv.padding_mode, bn.eps, bn.momentum, False, mod.qconfig,
        )
        return made._share(conv, bn)

    def to_float(self):
        """The convolution that includes the normalisation, with its rectifier where there is one."""
        result = conv = float_conv(self)
        if self._FLOAT_BN_MODULE:
            conv.weight, conv.bias = fuse_conv_bn_weights(conv.weight, conv.bias, *self._norm_arguments())
        if self._FLOAT_RELU_MODULE:
            result = self._FUSED_FLOAT_MODULE(conv, self._FLOAT_RELU_MODULE())
        result.train(self.training)
        return result


class _ReLUAfterNorm:
    """A rectifier after a convolution with normalisation."""

    _FLOAT_RELU_MODULE = nn.ReLU

    def forward(self, input):
        return F.relu(self._forward(input))


class _ReLUAfterConv:
    """A rectifier after a convolution."""

    _FLOAT_BN_MODULE = None
    _FLOAT_RELU_MODULE = nn.ReLU

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", qconfig=None,
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation,
            groups=groups, bias=bias, padding_mode=padding_mode, qconfig=qconfig,
        )

    def forward(self, input):
        return F.relu(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))


class ConvBn1d(_ConvBnNd, nn.Conv1d):
    """A convolution of signals in training and a batch normalisation."""

    _FLOAT_MODULE = nni.ConvBn1d
    _FLOAT_CONV_MODULE = nn.Conv1d
    _FLOAT_BN_MODULE = nn.BatchNorm1d


class ConvBnReLU1d(_ReLUAfterNorm, ConvBn1d):
    """A convolution of signals in training, a batch normalisation and a rectifier."""

    _FLOAT_MODULE = nni.ConvBnReLU1d
    _FUSED_FLOAT_MODULE = nni.ConvReLU1d


class ConvReLU1d(_ReLUAfterConv, nnqat.Conv1d, nni._FusedModule):
    """A convolution of signals in training and a rectifier."""

    _FLOAT_MODULE = nni.ConvReLU1d


class ConvBn2d(_ConvBnNd, nn.Conv2d):
    """A convolution of images in training and a batch normalisation."""

    _FLOAT_MODULE = nni.ConvBn2d
    _FLOAT_CONV_MODULE = nn.Conv2d
    _FLOAT_BN_MODULE = nn.BatchNorm2d


class ConvBnReLU2d(_ReLUAfterNorm, ConvBn2d):
    """A convolution of images in training, a batch normalisation and a rectifier."""

    _FLOAT_MODULE = nni.ConvBnReLU2d
    _FUSED_FLOAT_MODULE = nni.ConvReLU2d


class ConvReLU2d(_ReLUAfterConv, nnqat.Conv2d, nni._FusedModule):
    """A convolution of images in training and a rectifier."""

    _FLOAT_MODULE = nni.ConvReLU2d


class ConvBn3d(_ConvBnNd, nn.Conv3d):
    """A convolution of volumes in training and a batch normalisation."""

    _FLOAT_MODULE = nni.ConvBn3d
    _FLOAT_CONV_MODULE = nn.Conv3d
    _FLOAT_BN_MODULE = nn.BatchNorm3d


class ConvBnReLU3d(_ReLUAfterNorm, ConvBn3d):
    """A convolution of volumes in training, a batch normalisation and a rectifier."""

    _FLOAT_MODULE = nni.ConvBnReLU3d
    _FUSED_FLOAT_MODULE = nni.ConvReLU3d


class ConvReLU3d(_ReLUAfterConv, nnqat.Conv3d, nni._FusedModule):
    """A convolution of volumes in training and a rectifier."""

    _FLOAT_MODULE = nni.ConvReLU3d


_NORMALIZED = {ConvBn1d, ConvBn2d, ConvBn3d, ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d}


def update_bn_stats(mod):
    """Lets the normalisation of a module follow the statistics of batches; for ``Module.apply``."""
    if type(mod) in _NORMALIZED:
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """Lets the normalisation of a module keep its statistics; for ``Module.apply``."""
    if type(mod) in _NORMALIZED:
        mod.freeze_bn_stats()
