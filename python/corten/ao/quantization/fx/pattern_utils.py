"""Patterns, the longest first, and the registers of patterns that programs fill."""

from __future__ import annotations

from ..fake_quantize import FixedQParamsFakeQuantize

__all__ = [
    "get_default_fusion_patterns", "get_default_quant_patterns",
    "get_default_output_activation_post_process_map",
]

_DEFAULT_FUSION_PATTERNS: dict = {}
_DEFAULT_QUANTIZATION_PATTERNS: dict = {}
_DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP: dict = {}
_DEFAULT_OUTPUT_OBSERVER_MAP: dict = {}


def _register_fusion_pattern(pattern):
    """A decorator that registers the handler of a pattern that is fused."""

    def insert(fn):
        _DEFAULT_FUSION_PATTERNS[pattern] = fn
        return fn

    return insert


def _register_quant_pattern(pattern, fixed_qparams_observer=None):
    """A decorator that registers the handler of a pattern, and the observer of its output."""

    def insert(fn):
        _DEFAULT_QUANTIZATION_PATTERNS[pattern] = fn
        if fixed_qparams_observer is not None:
            made = FixedQParamsFakeQuantize.with_args(observer=fixed_qparams_observer)
            _DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP[pattern] = made
            _DEFAULT_OUTPUT_OBSERVER_MAP[pattern] = fixed_qparams_observer
        return fn

    return insert


def get_default_fusion_patterns():
    """The patterns that are fused, as programs registered them."""
    return dict(_DEFAULT_FUSION_PATTERNS)


def get_default_quant_patterns():
    """The patterns that are quantised, as programs registered them."""
    return dict(_DEFAULT_QUANTIZATION_PATTERNS)


def get_default_output_activation_post_process_map(is_training):
    """What observes, or in training quantises, the outputs of patterns."""
    return dict(_DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP if is_training else _DEFAULT_OUTPUT_OBSERVER_MAP)


def _length(pattern):
    return sum(map(_length, pattern)) if isinstance(pattern, tuple) else 1


def _sorted_patterns_dict(patterns_dict):
    """The same with patterns of more operations first, and patterns of one operation last."""

    def key(item):
        return -_length(item[0]) if isinstance(item[0], tuple) else 1

    return dict(sorted(patterns_dict.items(), key=key))
