"""What quantized modules share."""

from __future__ import annotations

import abc
import collections.abc
import itertools

import corten
from corten import nn

__all__ = ["WeightedQuantizedModule"]


class WeightedQuantizedModule(nn.Module, metaclass=abc.ABCMeta):
    """A quantized module with weights."""

    @classmethod
    @abc.abstractmethod
    def from_reference(cls, ref_module, output_scale, output_zero_point):
        """The quantized module of a reference module."""
        raise NotImplementedError


def _get_weight_observer(observer):
    """The observer within a fake quantization."""
    return getattr(observer, "activation_post_process", observer)


def _clamp_weights(qweight, observer, scale, zero_point):
    """The weight within the observer's range, where that is less than the range of the dtype."""
    observer = _get_weight_observer(observer)
    values = qweight.int_repr()
    info = corten.iinfo(values.dtype)
    low, high = observer.quant_min, observer.quant_max
    if low <= info.min and high >= info.max:
        return qweight
    values = values.clamp(low, high)
    if observer.qscheme in (corten.per_tensor_symmetric, corten.per_tensor_affine):
        return corten._make_per_tensor_quantized_tensor(values, scale.item(), zero_point.item())
    return corten._make_per_channel_quantized_tensor(values, scale, zero_point, axis=observer.ch_axis)


def _quantize_weight(float_wt, observer):
    """The weight in 8 bits, with the parameters that an observer found."""
    scale, zero_point = observer.calculate_qparams()
    scheme = observer.qscheme
    if scheme in (corten.per_tensor_symmetric, corten.per_tensor_affine):
        qweight = corten.quantize_per_tensor(float_wt, float(scale), int(zero_point), corten.qint8)
    elif scheme in (corten.per_channel_symmetric, corten.per_channel_affine):
        qweight = corten.quantize_per_channel(
            float_wt, scale.to(corten.double), zero_point.to(corten.int64), observer.ch_axis, corten.qint8
        )
    elif scheme == corten.per_channel_affine_float_qparams:
        qweight = corten.quantize_per_channel(
            float_wt, scale.to(corten.float), zero_point.to(corten.float), observer.ch_axis, observer.dtype
        )
    else:
        raise ValueError(f"Unexpected qscheme {scheme}")
    if qweight.dtype not in (corten.qint8, corten.quint8, corten.qint32):
        return qweight
    return _clamp_weights(qweight, observer, scale, zero_point)


def _ntuple_from_first(n):
    """A parser of sizes that repeats the first one where their number is not ``n``."""

    def parse(x):
        while isinstance(x, collections.abc.Sequence):
            if len(x) == n:
                break
            x = x[0]
        return tuple(itertools.repeat(x, n))

    return parse


_pair_from_first = _ntuple_from_first(2)


def _hide_packed_params_repr(self, params):
    """The representation of a module without its parts of certain types."""
    hidden = [name for name, module in self._modules.items() if isinstance(module, params)]
    return repr_without(self, hidden)


def repr_without(module, hidden):
    """The representation of a module without the parts of these names."""
    parts = {name: part for name, part in module._modules.items() if name not in hidden}
    lines = module.extra_repr().split("\n") if module.extra_repr() else []
    children = [f"({name}): " + repr(part).replace("\n", "\n  ") for name, part in parts.items()]
    if not lines and not children:
        return f"{module._get_name()}()"
    if len(lines) == 1 and not children:
        return f"{module._get_name()}({lines[0]})"
    inside = "\n  ".join(lines + children)
    return f"{module._get_name()}(\n  {inside}\n)"


def check_weight_dtype(observer, words="have dtype torch.qint8"):
    """Weights of linear maps and convolutions are signed."""
    if observer.dtype != corten.qint8:
        raise AssertionError(f"Weight observer must {words}, got {observer.dtype}")


def check_qconfig(mod, text="Input float module must have qconfig defined"):
    """A float module is converted as its configuration says."""
    if not hasattr(mod, "qconfig"):
        raise AssertionError(text)


def number_from(state_dict, key, kind):
    """A number that a state dict has as a tensor, which is taken out."""
    return kind(state_dict.pop(key))
