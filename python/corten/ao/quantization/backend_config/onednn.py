"""The backend oneDNN, which fuses sums with convolutions and more activations with linear layers."""

from __future__ import annotations

import operator

import corten
import corten.ao.nn.intrinsic as nni
import corten.ao.nn.quantized.reference as nnqr
from corten import nn
from corten.nn import functional as F

from ..utils import MatchAllNode
from . import _common_operator_config_utils as common
from .backend_config import BackendPatternConfig, DTypeConfig
from .native import (
    _INT8, backend, default_dynamic_int8_dtype_config, input_output_only_quint8_dtype_config,
    weighted_op_quint8_dtype_config,
)

__all__ = ["get_onednn_backend_config"]

onednn_weight_only_qint8_dtype_config = DTypeConfig(corten.float, corten.float, corten.qint8)


class _Sum:
    """A sum of a convolution, normalised or not, and another value, with an activation or not.

    The pattern runs from its last operation to its first, and so do the nodes and modules that match it:
    ``(relu, (add, (bn, conv), other))``.
    """

    def __init__(self, add, left, with_bn, with_relu):
        self.left, self.with_bn, self.with_relu = left, with_bn, with_relu
        conv = (nn.BatchNorm2d, nn.Conv2d) if with_bn else nn.Conv2d
        pattern = (add, conv, MatchAllNode) if left else (add, MatchAllNode, conv)
        self.pattern = (nn.ReLU, pattern) if with_relu else pattern
        self.fused = nni.ConvAddReLU2d if with_relu else nni.ConvAdd2d

    def parts(self, matched):
        """Activation, sum, normalisation, convolution and other value of what matched."""
        relu, matched = matched if self.with_relu else (None, matched)
        add, first, second = matched
        conv, other = (first, second) if self.left else (second, first)
        bn, conv = conv if self.with_bn else (None, conv)
        return relu, add, bn, conv, other

    def root(self, matched):
        return self.parts(matched)[3]

    def extra(self, matched):
        return [self.parts(matched)[4]]

    def fuse(self, is_qat, *matched):
        relu, add, bn, conv, _other = self.parts(matched)
        after = (add, relu) if self.with_relu else (add,)
        if bn is not None:
            if is_qat:
                raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn, *after)}")
            conv = nn.utils.fusion.fuse_conv_bn_eval(conv, bn)
        return self.fused(conv, *after)

    def config(self, dtype_configs):
        made = BackendPatternConfig()._set_pattern_complex_format(self.pattern)
        made.set_dtype_configs(list(dtype_configs)).set_fuser_method(self.fuse).set_fused_module(self.fused)
        return made._set_root_node_getter(self.root)._set_extra_inputs_getter(self.extra)


def _conv_configs():
    types = [weighted_op_quint8_dtype_config]
    configs = common._get_conv_configs(types)
    for with_relu in (False, True):
        for left in (True, False):
            for with_bn in (True, False):
                for add in (corten.add, operator.add):
                    configs.append(_Sum(add, left, with_bn, with_relu).config(types))
        fused = nni.ConvAddReLU2d if with_relu else nni.ConvAdd2d
        configs.append(common.weighted(fused, types, nn.Conv2d, nnqr.Conv2d))
    return configs


def _fuse_linear_bn_leaky_relu(is_qat, linear, bn, leaky_relu):
    if not linear.training == bn.training == leaky_relu.training:
        raise AssertionError(
            "Linear, BN and LeakyReLU all must be in the same mode (train or eval)."
        )
    mode = "train" if is_qat else "eval"
    if is_qat or type(linear) is not nn.Linear:
        raise NotImplementedError(f"Cannot fuse {mode} modules: {(linear, bn, leaky_relu)}")
    return nni.LinearLeakyReLU(nn.utils.fusion.fuse_linear_bn_eval(linear, bn), leaky_relu)


def _with_activation(types, module, function, kind):
    return [
        common.fused((nn.Linear, module), types, None, kind),
        common.fused((nn.Linear, function), types, None, kind),
        common.weighted(kind, types, nn.Linear, nnqr.Linear),
        common.pattern_config((F.linear, module), types),
        common.pattern_config((F.linear, function), types),
    ]


def _linear_configs():
    types = [weighted_op_quint8_dtype_config, default_dynamic_int8_dtype_config]
    normalised = (nn.Linear, nn.BatchNorm1d, nn.LeakyReLU)
    return [
        *common._get_linear_configs(types),
        *_with_activation(types, nn.LeakyReLU, F.leaky_relu, nni.LinearLeakyReLU),
        common.fused(normalised, types, _fuse_linear_bn_leaky_relu, nni.LinearLeakyReLU),
        *_with_activation(types, nn.Tanh, corten.tanh, nni.LinearTanh),
    ]


def get_onednn_backend_config():
    """What oneDNN supports."""
    return backend(
        "onednn", conv=_conv_configs(), linear=_linear_configs(), binary=_INT8, default=_INT8, fixed=_INT8,
        share=_INT8, layer_norm=[input_output_only_quint8_dtype_config],
        rnn=[default_dynamic_int8_dtype_config], embed=[onednn_weight_only_qint8_dtype_config],
    )
