"""What a backend can quantise: patterns of operations, and the dtypes that they take and give."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import corten

__all__ = [
    "BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType",
]

INPUT_DTYPE_DICT_KEY = "input_dtype"
OUTPUT_DTYPE_DICT_KEY = "output_dtype"
WEIGHT_DTYPE_DICT_KEY = "weight_dtype"
BIAS_DTYPE_DICT_KEY = "bias_dtype"
IS_DYNAMIC_DICT_KEY = "is_dynamic"
NAME_DICT_KEY = "name"
CONFIGS_DICT_KEY = "configs"
PATTERN_DICT_KEY = "pattern"
PATTERN_COMPLEX_FORMAT_DICT_KEY = "pattern_complex_format"
OBSERVATION_TYPE_DICT_KEY = "observation_type"
DTYPE_CONFIGS_DICT_KEY = "dtype_configs"
ROOT_MODULE_DICT_KEY = "root_module"
QAT_MODULE_DICT_KEY = "qat_module"
REFERENCE_QUANTIZED_MODULE_DICT_KEY = "reference_quantized_module_for_root"
FUSED_MODULE_DICT_KEY = "fused_module"
FUSER_METHOD_DICT_KEY = "fuser_method"
ROOT_NODE_GETTER_DICT_KEY = "root_node_getter"
EXTRA_INPUTS_GETTER_DICT_KEY = "extra_inputs_getter"
NUM_TENSOR_ARGS_TO_OBSERVATION_TYPE_DICT_KEY = "num_tensor_args_to_observation_type"
INPUT_TYPE_TO_INDEX_DICT_KEY = "input_type_to_index"


class ObservationType(Enum):
    """How a pattern's output is observed: by an observer of its own, by that of its input, or not at all."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A dtype, and the limits of quantised values and scales that a backend takes."""

    dtype: Any = None
    quant_min_lower_bound: int | float | None = None
    quant_max_upper_bound: int | float | None = None
    scale_min_lower_bound: int | float | None = None
    scale_max_upper_bound: int | float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _constrained(dtype):
    return dtype if isinstance(dtype, DTypeWithConstraints) else DTypeWithConstraints(dtype=dtype)


@dataclass
class DTypeConfig:
    """A combination of dtypes that a backend supports.

    Example::

        >>> config = DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float)
        >>> config.weight_dtype
        torch.qint8
    """

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: Any
    is_dynamic: bool | None

    def __init__(
        self, input_dtype=None, output_dtype=None, weight_dtype=None, bias_dtype=None, is_dynamic=None
    ):
        self.input_dtype_with_constraints = _constrained(input_dtype)
        self.output_dtype_with_constraints = _constrained(output_dtype)
        self.weight_dtype_with_constraints = _constrained(weight_dtype)
        self.bias_dtype = bias_dtype
        self.is_dynamic = is_dynamic

    @property
    def input_dtype(self):
        """The dtype of activations."""
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self):
        """The dtype of results."""
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self):
        """The dtype of weights."""
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict):
        """The combination of a dictionary that :meth:`to_dict` made."""
        keys = (INPUT_DTYPE_DICT_KEY, OUTPUT_DTYPE_DICT_KEY, WEIGHT_DTYPE_DICT_KEY)
        for key in keys:
            value = dtype_config_dict.get(key)
            if value is not None and not isinstance(value, (corten.dtype, DTypeWithConstraints)):
                raise ValueError(f"Expected {key} to be a torch.dtype or DTypeWithConstraints")
        every = (*keys, BIAS_DTYPE_DICT_KEY, IS_DYNAMIC_DICT_KEY)
        return cls(*(dtype_config_dict.get(key) for key in every))

    def to_dict(self):
        """What is set, in a dictionary."""
        values = {}
        for name in ("input", "output", "weight"):
            constrained = getattr(self, f"{name}_dtype_with_constraints")
            if constrained.dtype is not None:
                values[f"{name}_dtype"] = constrained
        if self.bias_dtype is not None:
            values[BIAS_DTYPE_DICT_KEY] = self.bias_dtype
        if self.is_dynamic is not None:
            values[IS_DYNAMIC_DICT_KEY] = self.is_dynamic
        return values


class BackendConfig:
    """All patterns that a backend can quantise.

    Example::

        >>> linear = BackendPatternConfig(torch.nn.Linear).add_dtype_config(DTypeConfig(torch.quint8))
        >>> len(BackendConfig("mine").set_backend_pattern_config(linear).configs)
        1
    """

    def __init__(self, name=""):
        self.name = name
        self._pattern_complex_format_to_config = {}

    def __repr__(self):
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name):
        """Sets the name."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config):
        """Adds a pattern, or replaces the entry of the same pattern."""
        from .utils import _get_pattern_in_reversed_nested_tuple_format

        pattern = _get_pattern_in_reversed_nested_tuple_format(config)
        self._pattern_complex_format_to_config[pattern] = config
        return self

    def set_backend_pattern_configs(self, configs):
        """Adds patterns."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self):
        """The patterns."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict):
        """The backend of a dictionary that :meth:`to_dict` made."""
        backend = cls(backend_config_dict.get(NAME_DICT_KEY, ""))
        for entry in backend_config_dict.get(CONFIGS_DICT_KEY, []):
            if isinstance(entry, dict):
                entry = BackendPatternConfig.from_dict(entry)
            elif not isinstance(entry, BackendPatternConfig):
                raise ValueError(f"Expected backend_config_dict['{CONFIGS_DICT_KEY}'] to be a dictionary")
            backend.set_backend_pattern_config(entry)
        return backend

    def to_dict(self):
        """Name and patterns, in a dictionary."""
        return {NAME_DICT_KEY: self.name, CONFIGS_DICT_KEY: [entry.to_dict() for entry in self.configs]}


#: Settings of a pattern that are left out of its dictionary while they are empty: attribute and key.
_OPTIONAL = (
    ("pattern", PATTERN_DICT_KEY),
    ("root_module", ROOT_MODULE_DICT_KEY),
    ("qat_module", QAT_MODULE_DICT_KEY),
    ("reference_quantized_module", REFERENCE_QUANTIZED_MODULE_DICT_KEY),
    ("fused_module", FUSED_MODULE_DICT_KEY),
    ("fuser_method", FUSER_METHOD_DICT_KEY),
    ("_root_node_getter", ROOT_NODE_GETTER_DICT_KEY),
    ("_extra_inputs_getter", EXTRA_INPUTS_GETTER_DICT_KEY),
    ("_num_tensor_args_to_observation_type", NUM_TENSOR_ARGS_TO_OBSERVATION_TYPE_DICT_KEY),
    ("_input_type_to_index", INPUT_TYPE_TO_INDEX_DICT_KEY),
    ("_pattern_complex_format", PATTERN_COMPLEX_FORMAT_DICT_KEY),
)


def _setter(attribute, doc):
    def set_to(self, value):
        setattr(self, attribute, value)
        return self

    set_to.__doc__ = doc
    return set_to


class BackendPatternConfig:
    """A pattern, a class of modules, a function, a method's name or a tuple of two or three of them, and how
    it is fused, observed and quantised."""

    def __init__(self, pattern=None):
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs = []
        self.root_module = None
        self.qat_module = None
        self.reference_quantized_module = None
        self.fused_module = None
        self.fuser_method = None
        self._root_node_getter = None
        self._extra_inputs_getter = None
        self._num_tensor_args_to_observation_type = {}
        self._input_type_to_index = {}
        self._pattern_complex_format = None

    def __repr__(self):
        values = self.__dict__.items()
        shown = {name: value for name, value in values if value is not None and value not in ([], {})}
        return f"BackendPatternConfig({shown})"

    def set_pattern(self, pattern):
        """Sets the pattern."""
        if self._pattern_complex_format is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        self.pattern = pattern
        return self

    def _set_pattern_complex_format(self, pattern):
        if self.pattern is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        self._pattern_complex_format = pattern
        return self

    def add_dtype_config(self, dtype_config):
        """Adds a combination of dtypes."""
        self.dtype_configs.append(dtype_config)
        return self

    set_observation_type = _setter("observation_type", "Sets how the output is observed.")
    set_dtype_configs = _setter("dtype_configs", "Sets the combinations of dtypes.")
    set_root_module = _setter("root_module", "Sets the class of the module that has the weight.")
    set_qat_module = _setter("qat_module", "Sets the class for training that knows of quantisation.")
    set_reference_quantized_module = _setter(
        "reference_quantized_module", "Sets the class that computes in floats with quantised weights."
    )
    set_fused_module = _setter("fused_module", "Sets the class that the pattern is fused into.")
    set_fuser_method = _setter("fuser_method", "Sets the function that fuses the pattern's modules.")
    _set_root_node_getter = _setter("_root_node_getter", "Sets the function that finds the root node.")
    _set_extra_inputs_getter = _setter(
        "_extra_inputs_getter", "Sets the function that finds inputs beside those of the root node."
    )
    _set_num_tensor_args_to_observation_type = _setter(
        "_num_tensor_args_to_observation_type", "Sets how outputs are observed by the number of tensors."
    )
    _set_input_type_to_index = _setter("_input_type_to_index", "Sets which arguments weight and bias are.")

    @classmethod
    def from_dict(cls, backend_pattern_config_dict):
        """The pattern of a dictionary that :meth:`to_dict` made."""
        given, config = backend_pattern_config_dict, cls()
        if OBSERVATION_TYPE_DICT_KEY in given:
            config.observation_type = given[OBSERVATION_TYPE_DICT_KEY]
        for entry in given.get(DTYPE_CONFIGS_DICT_KEY, []):
            if isinstance(entry, dict):
                entry = DTypeConfig.from_dict(entry)
            elif not isinstance(entry, DTypeConfig):
                raise ValueError(
                    "Expected a list of DTypeConfigs in backend_pattern_config_dict["
                    f"\"{DTYPE_CONFIGS_DICT_KEY}\"], got '{type(entry)}'"
                )
            config.add_dtype_config(entry)
        for attribute, key in _OPTIONAL:
            if key in given:
                setter = f"_set{attribute}" if attribute.startswith("_") else f"set_{attribute}"
                getattr(config, setter)(given[key])
        return config

    def to_dict(self):
        """What is set, in a dictionary."""
        values = {
            OBSERVATION_TYPE_DICT_KEY: self.observation_type,
            DTYPE_CONFIGS_DICT_KEY: [entry.to_dict() for entry in self.dtype_configs],
        }
        for attribute, key in _OPTIONAL:
            value = getattr(self, attribute)
            if value is not None and value != {}:
                values[key] = value
        return values

