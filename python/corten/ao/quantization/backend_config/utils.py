"""What the patterns of a backend say, by pattern and by class."""

from __future__ import annotations

from ..fuser_method_mappings import _reverse2, _reverse3

__all__ = [
    "get_pattern_to_dtype_configs", "get_qat_module_classes", "get_fused_module_classes",
    "get_pattern_to_input_type_to_index", "get_root_module_to_quantized_reference_module",
    "get_fuser_method_mapping", "get_module_to_qat_module", "get_fusion_pattern_to_root_node_getter",
    "get_fusion_pattern_to_extra_inputs_getter", "remove_boolean_dispatch_from_name",
    "pattern_to_human_readable", "entry_to_pretty_str",
]


def _by_pattern(backend_config, attribute):
    """A setting of the patterns that have it, by pattern."""
    found = {}
    for pattern, config in backend_config._pattern_complex_format_to_config.items():
        value = getattr(config, attribute)
        if value is not None:
            found[pattern] = value
    return found


def _classes(backend_config, attribute):
    found = {getattr(config, attribute) for config in backend_config.configs}
    return tuple(found - {None})


def get_pattern_to_dtype_configs(backend_config):
    """Combinations of dtypes by pattern."""
    return _by_pattern(backend_config, "dtype_configs")


def get_qat_module_classes(backend_config):
    """Classes for training that knows of quantisation."""
    return _classes(backend_config, "qat_module")


def get_fused_module_classes(backend_config):
    """Classes that patterns are fused into."""
    return _classes(backend_config, "fused_module")


def get_pattern_to_input_type_to_index(backend_config):
    """Positions of weight and bias by pattern."""
    return _by_pattern(backend_config, "_input_type_to_index")


def get_root_module_to_quantized_reference_module(backend_config):
    """Classes that compute in floats with quantised weights, by the classes that have the weights."""
    return {
        config.root_module: config.reference_quantized_module
        for config in backend_config.configs
        if config.root_module is not None and config.reference_quantized_module is not None
    }


def get_fuser_method_mapping(backend_config):
    """Functions that fuse, by pattern; they take modules from the last to the first."""
    return {
        pattern: _get_fuser_method_in_reversed_nested_tuple_format(config)
        for pattern, config in backend_config._pattern_complex_format_to_config.items()
        if config.fuser_method is not None
    }


def get_module_to_qat_module(backend_config):
    """Classes for training that knows of quantisation, by pattern."""
    return _by_pattern(backend_config, "qat_module")


def get_fusion_pattern_to_root_node_getter(backend_config):
    """Functions that find a pattern's root node, by pattern."""
    return _by_pattern(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(backend_config):
    """Functions that find inputs beside those of the root node, by pattern."""
    return _by_pattern(backend_config, "_extra_inputs_getter")


def remove_boolean_dispatch_from_name(p):
    """The full name of a pooling function, whose own name says nothing; others as they are."""
    from corten.nn import functional

    kinds = ["fractional_max_pool2d", "fractional_max_pool3d"]
    kinds += [f"{kind}max_pool{d}d" for kind in ("", "adaptive_") for d in (1, 2, 3)]
    for name in kinds:
        if p is getattr(functional, name):
            return f"torch.nn.functional.{name}"
    if "boolean_dispatch" in str(p):
        raise AssertionError(
            f"{p} does not have a human readable representation in quantization documentation"
        )
    return p


def pattern_to_human_readable(p):
    """A pattern with full names."""
    if isinstance(p, tuple):
        return tuple(map(pattern_to_human_readable, p))
    return p if isinstance(p, str) else remove_boolean_dispatch_from_name(p)


def entry_to_pretty_str(entry):
    """A pattern's dictionary as text."""
    lines = ["{"]
    if "pattern" in entry:
        lines.append(f"  'pattern': {pattern_to_human_readable(entry['pattern'])},")
    if "dtype_configs" in entry:
        lines.append("  'dtype_configs': [")
        for config in entry["dtype_configs"]:
            lines += ["    {", *(f"      '{key}': {value}," for key, value in config.items()), "    },"]
        lines.append("  ],")
    if "num_tensor_args_to_observation_type" in entry:
        counts = entry["num_tensor_args_to_observation_type"]
        lines.append("  'num_tensor_args_to_observation_type': {")
        lines += [*(f"    {key}: {value}," for key, value in counts.items()), "  },"]
    done = ("pattern", "dtype_configs", "num_tensor_args_to_observation_type")
    lines += [f"  '{key}': {value}," for key, value in entry.items() if key not in done]
    return "\n".join([*lines, "}"])


def _get_pattern_in_reversed_nested_tuple_format(config):
    """The pattern from its last operation to its first: ``(c, (b, a))`` of ``(a, b, c)``."""
    pattern = config.pattern
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    if pattern is None:
        raise ValueError("Either 'pattern' or 'pattern_complex_format' must be specified")
    if not isinstance(pattern, tuple):
        return pattern
    if len(pattern) not in (2, 3):
        raise ValueError(f"Expected a tuple with 2 or 3 elements, got: {pattern}")
    first, second, *third = pattern
    return (third[0], (second, first)) if third else (second, first)


def _get_fuser_method_in_reversed_nested_tuple_format(config):
    """The function that fuses, for modules in the order of the pattern above."""
    if config.fuser_method is None:
        raise AssertionError("config.fuser_method must be provided")
    if config._pattern_complex_format is not None:
        return config.fuser_method
    if not isinstance(config.pattern, tuple):
        raise ValueError(f"Expected pattern to be a tuple, got: {config.pattern}")
    if len(config.pattern) not in (2, 3):
        raise ValueError(f"Expected a tuple with 2 or 3 elements, got: {config.pattern}")
    return (_reverse2 if len(config.pattern) == 2 else _reverse3)(config.fuser_method)
