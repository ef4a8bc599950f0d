"""Chains of modules that are observed and quantized as one."""

from __future__ import annotations

from corten import nn
from corten.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d",
    "ConvReLU2d", "ConvReLU3d", "LinearReLU", "BNReLU2d", "BNReLU3d", "LinearBn1d", "LinearLeakyReLU",
    "LinearTanh", "ConvAdd2d", "ConvAddReLU2d",
]


class _FusedModule(nn.Sequential):
    """A chain whose parts keep their places: the first has the weights."""


class _TypedModule(_FusedModule):
    """A chain of modules of certain types."""

    _PARTS: tuple = ()
    _type_of = staticmethod(type_before_parametrizations)

    def _set_parts(self, *parts):
        found = [self._type_of(part) for part in parts]
        if found != list(self._PARTS):
            first, *middle, last = [kind.__name__ for kind in found]
            names = f"{first}, {middle[0]}, and {last}" if middle else f"{first} and {last}"
            raise AssertionError(f"Incorrect types for input modules: {names}")
        nn.Sequential.__init__(self, *parts)


class _ConvReLU(_TypedModule):
    def __init__(self, conv, relu):
        self._set_parts(conv, relu)


class ConvReLU1d(_ConvReLU):
    """A convolution of signals and a rectifier."""

    _PARTS = (nn.Conv1d, nn.ReLU)


class ConvReLU2d(_ConvReLU):
    """A convolution of images and a rectifier."""

    _PARTS = (nn.Conv2d, nn.ReLU)


class ConvReLU3d(_ConvReLU):
    """A convolution of volumes and a rectifier."""

    _PARTS = (nn.Conv3d, nn.ReLU)


class LinearReLU(_TypedModule):
    """A linear map and a rectifier."""

    _PARTS = (nn.Linear, nn.ReLU)

    def __init__(self, linear, relu):
        self._set_parts(linear, relu)


class _ConvBn(_TypedModule):
    def __init__(self, conv, bn):
        self._set_parts(conv, bn)


class ConvBn1d(_ConvBn):
    """A convolution of signals and a batch normalisation."""

    _PARTS = (nn.Conv1d, nn.BatchNorm1d)


class ConvBn2d(_ConvBn):
    """A convolution of images and a batch normalisation."""

    _PARTS = (nn.Conv2d, nn.BatchNorm2d)


class ConvBn3d(_ConvBn):
    """A convolution of volumes and a batch normalisation."""

    _PARTS = (nn.Conv3d, nn.BatchNorm3d)


class _ConvBnReLU(_TypedModule):
    def __init__(self, conv, bn, relu):
        self._set_parts(conv, bn, relu)


class ConvBnReLU1d(_ConvBnReLU):
    """A convolution of signals, a batch normalisation and a rectifier."""

    _PARTS = (nn.Conv1d, nn.BatchNorm1d, nn.ReLU)


class ConvBnReLU2d(_ConvBnReLU):
    """A convolution of images, a batch normalisation and a rectifier."""

    _PARTS = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)


class ConvBnReLU3d(_ConvBnReLU):
    """A convolution of volumes, a batch normalisation and a rectifier."""

    _PARTS = (nn.Conv3d, nn.BatchNorm3d, nn.ReLU)


class _BNReLU(_TypedModule):
    def __init__(self, batch_norm, relu):
        self._set_parts(batch_norm, relu)


class BNReLU2d(_BNReLU):
    """A batch normalisation of images and a rectifier."""

    _PARTS = (nn.BatchNorm2d, nn.ReLU)


class BNReLU3d(_BNReLU):
    """A batch normalisation of volumes and a rectifier."""

    _PARTS = (nn.BatchNorm3d, nn.ReLU)


class LinearBn1d(_TypedModule):
    """A linear map and a batch normalisation."""

    _PARTS = (nn.Linear, nn.BatchNorm1d)

    def __init__(self, linear, bn):
        self._set_parts(linear, bn)


class LinearLeakyReLU(_TypedModule):
    """A linear map and a leaky rectifier."""

    _PARTS = (nn.Linear, nn.LeakyReLU)
    _type_of = staticmethod(type)

    def __init__(self, linear, leaky_relu):
        self._set_parts(linear, leaky_relu)


class LinearTanh(_TypedModule):
    """A linear map and a hyperbolic tangent."""

    _PARTS = (nn.Linear, nn.Tanh)
    _type_of = staticmethod(type)

    def __init__(self, linear, tanh):
        self._set_parts(linear, tanh)


class ConvAdd2d(_FusedModule):
    """A convolution of images whose result is added to another tensor; ``add`` is any function of both."""

    def __init__(self, conv, add):
        super().__init__(conv)
        self.add = add

    def forward(self, x1, x2):
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution of images whose result is added to another tensor, and a rectifier."""

    def __init__(self, conv, add, relu):
        super().__init__(conv)
        self.add = add
        self.relu = relu

    def forward(self, x1, x2):
        return self.relu(self.add(self[0](x1), x2))
