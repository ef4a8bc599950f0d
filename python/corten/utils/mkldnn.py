"""Modules for inference whose weights lie in the layout ``torch._mkldnn``.

The weights of linear layers are put in the order of the product by the first call, so that every
later one reads them as they lie. Inputs may be dense or of that layout; outputs are like the inputs.
"""

from __future__ import annotations

import corten

from .. import nn

_DTYPES = (corten.float, corten.bfloat16, corten.half)


class _Converted(nn.Module):
    """A module whose tensors are buffers of the layout; they are pickled as dense ones."""

    _OPAQUE = ()

    def _keep(self, dense_module, names, dtype):
        for name in names:
            value = getattr(dense_module, name, None)
            self.register_buffer(name, None if value is None else value.detach().to_mkldnn(dtype))
        self.training = dense_module.training

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_buffers"] = {
            name: value.to_dense() if value is not None and value.is_mkldnn else value
            for name, value in self._buffers.items()
        }
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        for name in self._OPAQUE:
            value = self._buffers.get(name)
            if value is not None and not value.is_mkldnn:
                self._buffers[name] = value.to_mkldnn()


class MkldnnLinear(_Converted):
    """A linear layer."""

    _OPAQUE = ("weight", "bias")

    def __init__(self, dense_module, dtype):
        super().__init__()
        self._keep(dense_module, self._OPAQUE, dtype)

    def forward(self, x):
        """The linear map of ``x``."""
        return nn.functional.linear(x, self.weight, self.bias)


class _MkldnnConvNd(_Converted):
    """A convolution."""

    _OPAQUE = ("weight", "bias")
    _FUNCTION = None

    def __init__(self, dense_module, dtype):
        super().__init__()
        self.stride = dense_module.stride
        self.padding = dense_module.padding
        self.dilation = dense_module.dilation
        self.groups = dense_module.groups
        self._keep(dense_module, self._OPAQUE, dtype)

    def forward(self, x):
        """The convolution of ``x``."""
        return type(self)._FUNCTION(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class MkldnnConv1d(_MkldnnConvNd):
    """A convolution over one dimension."""

    _FUNCTION = staticmethod(nn.functional.conv1d)


class MkldnnConv2d(_MkldnnConvNd):
    """A convolution over two dimensions."""

    _FUNCTION = staticmethod(nn.functional.conv2d)


class MkldnnConv3d(_MkldnnConvNd):
    """A convolution over three dimensions."""

    _FUNCTION = staticmethod(nn.functional.conv3d)


class MkldnnBatchNorm(_Converted):
    """A batch normalisation by running statistics."""

    _OPAQUE = ("weight", "bias", "running_mean", "running_var")

    def __init__(self, dense_module):
        super().__init__()
        if dense_module.training:
            raise AssertionError("Only support eval mode batchnorm for mkldnn path now")
        if not dense_module.track_running_stats:
            raise AssertionError("Only support track_running_stats=True for mkldnn path now")
        if not dense_module.affine:
            raise AssertionError("Only support affine=True for mkldnn path now")
        self.exponential_average_factor = (
            0.0 if dense_module.momentum is None else dense_module.momentum
        )
        self.eps = dense_module.eps
        # Statistics are of single precision, whatever the inputs are.
        self._keep(dense_module, self._OPAQUE, corten.float)

    def forward(self, x):
        """The normalisation of ``x``."""
        return nn.functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, False,
            self.exponential_average_factor, self.eps,
        )


class MkldnnPrelu(_Converted):
    """A parametric rectified linear unit."""

    _OPAQUE = ("weight",)

    def __init__(self, dense_module, dtype):
        super().__init__()
        self._keep(dense_module, self._OPAQUE, dtype)

    def forward(self, x):
        """The unit of ``x``."""
        return corten.prelu(x, self.weight)


_CONVOLUTIONS = ((nn.Conv1d, MkldnnConv1d), (nn.Conv2d, MkldnnConv2d), (nn.Conv3d, MkldnnConv3d))


def _converted(module, dtype):
    if isinstance(module, nn.Linear):
        return MkldnnLinear(module, dtype)
    for dense, converted in _CONVOLUTIONS:
        if isinstance(module, dense) and module.padding_mode == "zeros":
            return converted(module, dtype)
    if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d)):
        return MkldnnBatchNorm(module)
    if isinstance(module, nn.PReLU):
        return MkldnnPrelu(module, dtype)
    return module


def to_mkldnn(module, dtype=corten.float):
    """The module for inference, with the weights of its layers in the layout ``torch._mkldnn``.

    A layer becomes another module, which is returned; modules that contain layers get the converted
    ones in their place. ``dtype`` is that of the weights: ``float``, ``bfloat16`` or ``half``.
    """
    if dtype not in _DTYPES:
        raise AssertionError("MKLDNN only support float, bfloat16, and half path now")
    made = _converted(module, dtype)
    for name, child in module.named_children():
        setattr(made, name, to_mkldnn(child, dtype))
    return made
