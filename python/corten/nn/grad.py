"""Gradients of convolutions as functions."""

from __future__ import annotations

import corten

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]


def _gradient(which, shapes, grad_output, other, stride, padding, dilation, groups):
    dims = grad_output.dim() - 2
    each = [v if isinstance(v, (tuple, list)) else (v,) * dims for v in (stride, padding, dilation)]
    absent = grad_output.new_empty(1).expand(shapes)
    input, weight = (absent, other) if which == 0 else (other, absent)
    mask = [which == 0, which == 1, False]
    return corten.ops.aten.convolution_backward(
        grad_output, input, weight, None, each[0], each[1], each[2], False, [0] * dims, groups, mask
    )[which]


def _functions(dims):
    def of_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return _gradient(0, input_size, grad_output, weight, stride, padding, dilation, groups)

    def of_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return _gradient(1, weight_size, grad_output, input, stride, padding, dilation, groups)

    for function, name in ((of_input, "input"), (of_weight, "weight")):
        function.__name__ = function.__qualname__ = f"conv{dims}d_{name}"
        function.__doc__ = f"The gradient of ``conv{dims}d`` in its {name}, of the given shape."
    return of_input, of_weight


conv1d_input, conv1d_weight = _functions(1)
conv2d_input, conv2d_weight = _functions(2)
conv3d_input, conv3d_weight = _functions(3)
