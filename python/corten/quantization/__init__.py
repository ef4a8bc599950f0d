"""``torch.ao.quantization`` under its older name."""

from __future__ import annotations

from corten.ao.quantization.fake_quantize import *  # noqa: F403
from corten.ao.quantization.fuse_modules import fuse_modules
from corten.ao.quantization.fuser_method_mappings import *  # noqa: F403
from corten.ao.quantization.observer import *  # noqa: F403
from corten.ao.quantization.qconfig import *  # noqa: F403
from corten.ao.quantization.quant_type import *  # noqa: F403
from corten.ao.quantization.quantization_mappings import *  # noqa: F403
from corten.ao.quantization.quantize import *  # noqa: F403
from corten.ao.quantization.quantize_jit import *  # noqa: F403
from corten.ao.quantization.stubs import *  # noqa: F403
from corten.ao.quantization import default_eval_fn

__all__ = [
    "QuantWrapper", "QuantStub", "DeQuantStub", "quantize", "quantize_dynamic", "quantize_qat", "prepare",
    "convert", "prepare_qat", "quantize_jit", "quantize_dynamic_jit", "QuantType",
    "get_default_static_quant_module_mappings", "get_static_quant_module_class",
    "get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list", "get_default_compare_output_module_list",
    "get_quantized_operator", "get_fuser_method", "propagate_qconfig_", "add_quant_dequant", "swap_module",
    "default_eval_fn", "ObserverBase", "HistogramObserver", "default_observer", "default_weight_observer",
    "default_placeholder_observer", "default_per_channel_weight_observer", "default_fake_quant",
    "default_weight_fake_quant", "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant", "default_per_channel_weight_fake_quant",
    "default_histogram_fake_quant", "QConfig", "default_qconfig", "default_dynamic_qconfig",
    "float16_dynamic_qconfig", "float_qparams_weight_only_qconfig", "default_qat_qconfig", "fuse_modules",
]
