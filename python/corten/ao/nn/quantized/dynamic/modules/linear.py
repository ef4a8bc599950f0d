"""Dynamically quantized linear maps."""

from __future__ import annotations

import corten
from corten import nn
from corten.ao.nn import intrinsic as nni
from corten.ao.nn import quantized as nnq
from corten.ao.nn.qat import dynamic as nnqatd
from corten.ao.nn.quantized.modules.utils import _quantize_weight, check_qconfig

__all__ = ["Linear", "weight_observer_of"]


def weight_observer_of(mod):
    """What makes an observer of weights, as a float module's ``qconfig`` says or the usual one."""
    if mod.qconfig is not None and mod.qconfig.weight is not None:
        return mod.qconfig.weight
    from corten.ao.quantization.qconfig import default_dynamic_qconfig

    return default_dynamic_qconfig.weight


class Linear(nnq.Linear):
    """A linear map of floats whose weight has 8 bits, or half precision."""

    _version = 4
    _op = "linear"

    def __init__(self, in_features, out_features, bias_=True, dtype=corten.qint8):
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = 4

    def forward(self, x):
        packed = self._packed_params._packed_params
        ops, dtype = corten.ops.quantized, self._packed_params.dtype
        if dtype == corten.qint8:
            # Weights of older files may use their full range, which is why these know no other.
            reduced = self.version is not None and self.version >= 4
            result = getattr(ops, f"{self._op}_dynamic")(x, packed, reduce_range=reduced)
        elif dtype == corten.float16:
            result = getattr(ops, f"{self._op}_dynamic_fp16")(x, packed)
        else:
            raise RuntimeError(f"Unsupported dtype on dynamic quantized {self._op.replace('_', ' ')}!")
        return result.to(x.dtype)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        dtype = self._packed_params.dtype
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={dtype}"
        if dtype == corten.qint8:
            text += f", qscheme={self.weight().qscheme()}"
        return text

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float one with a ``qconfig``, or of one trained for it."""
        kinds = [nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear, nni.LinearReLU, nnqatd.Linear]
        if type(mod) not in kinds:
            raise AssertionError(
                "nn.quantized.dynamic.Linear.from_float only works for one of"
                f"{[kind.__name__ for kind in kinds]}, got {type(mod)}"
            )
        check_qconfig(mod)
        if type(mod) is nni.LinearReLU:
            mod = mod[0]
        observer = weight_observer_of(mod)()
        if observer.dtype not in (corten.qint8, corten.float16):
            raise AssertionError(
                "The only supported dtypes for dynamic quantized linear are qint8 and float16, got: "
                f"{observer.dtype}"
            )
        observer(mod.weight)
        weight = mod.weight.float()
        if observer.dtype == corten.qint8:
            weight = _quantize_weight(weight, observer)
        made = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        made.set_weight_bias(weight, mod.bias)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear):
        """The module of a reference module."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made
