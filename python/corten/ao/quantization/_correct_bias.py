"""Corrects biases by the mean error that quantisation brings into each channel."""

from __future__ import annotations

import corten
import corten.ao.nn.quantized as nnq

__all__ = ["get_module", "parent_child_names", "get_param", "bias_correction"]

_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}


def get_module(model, name):
    """The module of this name."""
    return dict(model.named_modules())[name]


def parent_child_names(name):
    """The name of the module around, and the last part."""
    parent, _, child = name.rpartition(".")
    return parent, child


def get_param(module, attr):
    """A parameter, or what the method of that name returns."""
    value = getattr(module, attr, None)
    return value() if callable(value) else value


class _Means:
    """A hook that sums the errors of a layer's outputs by channel, for the inputs that it gets."""

    def __init__(self, float_module):
        self.float_module, self.error, self.count = float_module, None, 0

    def __call__(self, module, inputs, output):
        quantized = output.dequantize() if output.is_quantized else output
        exact = self.float_module(*(x.dequantize() if x.is_quantized else x for x in inputs))
        error = quantized.detach() - exact.detach()
        dims = [dim for dim in range(error.dim()) if dim != 1]
        error = corten.mean(error, dims)
        self.error = error if self.error is None else self.error + error
        self.count += 1


def bias_correction(
    float_model, quantized_model, img_data, target_modules=_supported_modules_quantized, neval_batches=None
):
    """Subtracts from the bias of every quantised layer the mean error of its outputs, one after another.

    Args:
        float_model: The model before quantisation.
        quantized_model: The model after it, whose biases are changed.
        img_data: Pairs whose first part is an input.
        target_modules: Classes of layers whose biases are corrected.
        neval_batches: The number of inputs that are used.
    """
    floats = dict(float_model.named_modules())
    for name, module in list(quantized_model.named_modules()):
        if type(module) not in target_modules or get_param(module, "bias") is None:
            continue
        means = _Means(floats[name])
        handle = module.register_forward_hook(means)
        for count, data in enumerate(img_data, start=1):
            quantized_model(data[0])
            if count == neval_batches:
                break
        handle.remove()
        if means.count:
            bias = get_param(module, "bias").detach() - means.error / means.count
            module.set_weight_bias(get_param(module, "weight"), bias)
