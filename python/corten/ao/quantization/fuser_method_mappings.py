"""What a sequence of modules is fused into."""

from __future__ import annotations

import itertools

import corten.ao.nn.intrinsic as nni
from corten import nn

from .utils import MatchAllNode, get_combined_dict

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_convtranspose_bn", "get_fuser_method",
    "get_fuser_method_new",
]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def _intrinsic(conv, name):
    """The fused class of a convolution's dimensions, or None."""
    if type(conv) not in _CONVOLUTIONS:
        return None
    return getattr(nni, f"{name}{type(conv).__name__[-2:]}")


def _check_norm(bn, features, what, norm, end):
    if bn.num_features != features:
        raise AssertionError(f"{what} must match num_features of {norm}{end}")
    if not bn.affine:
        raise AssertionError(f"Only support fusing {norm} with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError(f"Only support fusing {norm} with tracking_running_stats set to True")


def _check_same_mode(what, *modules):
    if len({module.training for module in modules}) > 1:
        raise AssertionError(f"{what} and BN both must be in the same mode (train or eval).")


def fuse_conv_bn(is_qat, conv, bn):
    """A convolution and the normalisation after it: fused modules for training, else one convolution."""
    _check_same_mode("Conv", conv, bn)
    if not is_qat:
        return nn.utils.fuse_conv_bn_eval(conv, bn)
    _check_norm(bn, conv.out_channels, "Output channel of Conv2d", "BatchNorm2d", ".")
    fused = _intrinsic(conv, "ConvBn")
    if fused is None:
        raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
    return fused(conv, bn)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    """As :func:`fuse_conv_bn`, with the activation after it."""
    _check_same_mode("Conv", conv, bn, relu)
    if is_qat:
        _check_norm(bn, conv.out_channels, "Output channel of Conv2d", "BatchNorm2d", "")
    fused = _intrinsic(conv, "ConvBnReLU" if is_qat else "ConvReLU")
    if fused is None:
        mode = "train" if is_qat else "eval"
        raise NotImplementedError(f"Cannot fuse {mode} modules: {(conv, bn, relu)}")
    if is_qat:
        return fused(conv, bn, relu)
    return fused(nn.utils.fusion.fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat, linear, bn):
    """A linear layer and the normalisation after it."""
    _check_same_mode("Linear", linear, bn)
    if not is_qat:
        return nn.utils.fusion.fuse_linear_bn_eval(linear, bn)
    _check_norm(bn, linear.out_features, "Output features of Linear", "BatchNorm1d", "")
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat, convt, bn):
    """A transposed convolution and the normalisation after it, not for training."""
    _check_same_mode("ConvTranspose", convt, bn)
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return nn.utils.fusion.fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequential_wrapper2(sequential):
    def fuser_method(is_qat, m1, m2):
        return sequential(m1, m2)

    return fuser_method


def _default_methods():
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    methods = {}
    for conv, norm in zip(_CONVOLUTIONS, norms):
        methods[conv, norm] = fuse_conv_bn
        methods[conv, norm, nn.ReLU] = fuse_conv_bn_relu
    for conv in _CONVOLUTIONS:
        methods[conv, nn.ReLU] = _sequential_wrapper2(getattr(nni, f"ConvReLU{conv.__name__[-2:]}"))
    methods[nn.Linear, nn.BatchNorm1d] = fuse_linear_bn
    methods[nn.Linear, nn.ReLU] = _sequential_wrapper2(nni.LinearReLU)
    methods[nn.BatchNorm2d, nn.ReLU] = _sequential_wrapper2(nni.BNReLU2d)
    methods[nn.BatchNorm3d, nn.ReLU] = _sequential_wrapper2(nni.BNReLU3d)
    for conv, norm in zip(transposed, norms):
        methods[conv, norm] = fuse_convtranspose_bn
    return methods


_DEFAULT_OP_LIST_TO_FUSER_METHOD = _default_methods()


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """The function that fuses modules of these classes."""
    methods = get_combined_dict(_DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {})
    method = methods.get(op_list)
    if method is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return method


def _reverse2(f):
    def reversed(is_qat, x, y):
        return f(is_qat, y, x)

    return reversed


def _reverse3(f):
    def reversed(is_qat, x, w):
        y, z = w
        return f(is_qat, z, y, x)

    return reversed


def _get_valid_patterns(op_pattern):
    """The pattern, and the patterns in which some of its parts match everything."""
    if isinstance(op_pattern, (tuple, list)):
        return list(itertools.product(*map(_get_valid_patterns, op_pattern)))
    return [op_pattern, MatchAllNode]


def get_fuser_method_new(op_pattern, fuser_method_mapping):
    """The function that fuses a pattern, or the least general pattern that matches it."""
    pattern = op_pattern
    for pattern in _get_valid_patterns(op_pattern):
        method = fuser_method_mapping.get(pattern)
        if method is not None:
            return method
    raise AssertionError(f"did not find fuser method for: {pattern} ")
