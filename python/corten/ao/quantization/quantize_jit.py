"""Names of the quantisation of TorchScript's graphs. There are none here: quantise before scripting."""

from __future__ import annotations

__all__ = [
    "script_qconfig", "script_qconfig_dict", "fuse_conv_bn_jit", "prepare_jit", "prepare_dynamic_jit",
    "convert_jit", "convert_dynamic_jit", "quantize_jit", "quantize_dynamic_jit",
]


def _absent(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(
            f"torch.ao.quantization.{name}: graphs of TorchScript cannot be quantized. "
            "Quantize the module with prepare and convert, or prepare_fx and convert_fx, and script it then."
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Not supported: raises and names what to use."
    return refuse


script_qconfig = _absent("script_qconfig")
script_qconfig_dict = _absent("script_qconfig_dict")
fuse_conv_bn_jit = _absent("fuse_conv_bn_jit")
prepare_jit = _absent("prepare_jit")
prepare_dynamic_jit = _absent("prepare_dynamic_jit")
convert_jit = _absent("convert_jit")
convert_dynamic_jit = _absent("convert_dynamic_jit")
quantize_jit = _absent("quantize_jit")
quantize_dynamic_jit = _absent("quantize_dynamic_jit")
