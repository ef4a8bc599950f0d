"""Settings of the graph mode beside configurations: what is not traced, what stays quantised, custom classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..quant_type import QuantType, _get_quant_type_to_str, _quant_type_from_str

__all__ = [
    "ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig", "StandaloneModuleConfigEntry",
]

STANDALONE_MODULE_NAME_DICT_KEY = "standalone_module_name"
STANDALONE_MODULE_CLASS_DICT_KEY = "standalone_module_class"
FLOAT_TO_OBSERVED_DICT_KEY = "float_to_observed_custom_module_class"
OBSERVED_TO_QUANTIZED_DICT_KEY = "observed_to_quantized_custom_module_class"
NON_TRACEABLE_MODULE_NAME_DICT_KEY = "non_traceable_module_name"
NON_TRACEABLE_MODULE_CLASS_DICT_KEY = "non_traceable_module_class"
INPUT_QUANTIZED_INDEXES_DICT_KEY = "input_quantized_idxs"
OUTPUT_QUANTIZED_INDEXES_DICT_KEY = "output_quantized_idxs"
PRESERVED_ATTRIBUTES_DICT_KEY = "preserved_attributes"

#: Lists of a PrepareCustomConfig: attribute and key.
_LISTS = (
    ("non_traceable_module_names", NON_TRACEABLE_MODULE_NAME_DICT_KEY),
    ("non_traceable_module_classes", NON_TRACEABLE_MODULE_CLASS_DICT_KEY),
    ("input_quantized_indexes", INPUT_QUANTIZED_INDEXES_DICT_KEY),
    ("output_quantized_indexes", OUTPUT_QUANTIZED_INDEXES_DICT_KEY),
    ("preserved_attributes", PRESERVED_ATTRIBUTES_DICT_KEY),
)


class _Config:
    """Settings that are shown as far as they are not empty."""

    def __init__(self):
        self.preserved_attributes = []

    def __repr__(self):
        shown = {name: value for name, value in self.__dict__.items() if len(value) > 0}
        return f"{type(self).__name__}({shown})"

    def set_preserved_attributes(self, attributes):
        """Names of attributes that the new module gets from the old one."""
        self.preserved_attributes = attributes
        return self

    def _classes_to_dict(self, mapping):
        return {_get_quant_type_to_str(kind): classes for kind, classes in mapping.items()}

    def _classes_from_dict(self, classes, setter):
        for name, mapping in classes.items():
            for source, target in mapping.items():
                setter(source, target, _quant_type_from_str(name))


@dataclass
class StandaloneModuleConfigEntry:
    """How a module is quantised that is prepared apart from the model around it."""

    qconfig_mapping: Any
    example_inputs: tuple
    prepare_custom_config: Any
    backend_config: Any


def _of_dict(kind, given, key):
    """A setting of this class, or of its dictionary, or None."""
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, dict):
        return kind.from_dict(given)
    raise ValueError(
        f"Expected {kind.__name__} in prepare_custom_config_dict[\"{key}\"], got '{type(given)}'"
    )


class PrepareCustomConfig(_Config):
    """Settings of ``prepare_fx`` and ``prepare_qat_fx``.

    Example::

        >>> PrepareCustomConfig().set_input_quantized_indexes([0])
        PrepareCustomConfig({'input_quantized_indexes': [0]})
    """

    def __init__(self):
        self.standalone_module_names = {}
        self.standalone_module_classes = {}
        self.float_to_observed_mapping = {}
        for attribute, _key in _LISTS:
            setattr(self, attribute, [])

    def set_standalone_module_name(
        self, module_name, qconfig_mapping, example_inputs, prepare_custom_config, backend_config
    ):
        """A module by name that is prepared apart, with its own settings."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_standalone_module_class(
        self, module_class, qconfig_mapping, example_inputs, prepare_custom_config, backend_config
    ):
        """Modules of a class that are prepared apart, with their own settings."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_float_to_observed_mapping(self, float_class, observed_class, quant_type=QuantType.STATIC):
        """The observed class of a custom class; it is made by ``observed_class.from_float``."""
        if quant_type != QuantType.STATIC:
            raise ValueError(
                "set_float_to_observed_mapping is currently only supported for static quantization"
            )
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names):
        """Names of modules that become one node."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes):
        """Classes of modules that become one node."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes):
        """Positions of the inputs that are quantised already."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes):
        """Positions of the outputs that stay quantised."""
        self.output_quantized_indexes = indexes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict):
        """The settings of a dictionary that :meth:`to_dict` made."""
        from ..backend_config import BackendConfig
        from ..qconfig_mapping import QConfigMapping

        given, config = prepare_custom_config_dict, cls()
        for key, setter in (
            (STANDALONE_MODULE_NAME_DICT_KEY, config.set_standalone_module_name),
            (STANDALONE_MODULE_CLASS_DICT_KEY, config.set_standalone_module_class),
        ):
            for one, mapping, inputs, custom, backend in given.get(key, []):
                setter(
                    one, _of_dict(QConfigMapping, mapping, key), inputs,
                    _of_dict(PrepareCustomConfig, custom, key), _of_dict(BackendConfig, backend, key),
                )
        classes = given.get(FLOAT_TO_OBSERVED_DICT_KEY, {})
        config._classes_from_dict(classes, config.set_float_to_observed_mapping)
        for attribute, key in _LISTS:
            setattr(config, attribute, given.get(key, []))
        return config

    def to_dict(self):
        """What is set, in a dictionary."""
        values = {}
        for key, entries in (
            (STANDALONE_MODULE_NAME_DICT_KEY, self.standalone_module_names),
            (STANDALONE_MODULE_CLASS_DICT_KEY, self.standalone_module_classes),
        ):
            for one, entry in entries.items():
                parts = (entry.qconfig_mapping, entry.prepare_custom_config)
                mapping, custom = (part.to_dict() if part else None for part in parts)
                row = (one, mapping, entry.example_inputs, custom, entry.backend_config)
                values.setdefault(key, []).append(row)
        if self.float_to_observed_mapping:
            values[FLOAT_TO_OBSERVED_DICT_KEY] = self._classes_to_dict(self.float_to_observed_mapping)
        for attribute, key in _LISTS:
            if getattr(self, attribute):
                values[key] = getattr(self, attribute)
        return values


class ConvertCustomConfig(_Config):
    """Settings of ``convert_fx``."""

    def __init__(self):
        self.observed_to_quantized_mapping = {}
        super().__init__()

    def set_observed_to_quantized_mapping(
        self, observed_class, quantized_class, quant_type=QuantType.STATIC
    ):
        """The quantised class of an observed class; it is made by ``quantized_class.from_observed``."""
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = quantized_class
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict):
        """The settings of a dictionary that :meth:`to_dict` made."""
        given, config = convert_custom_config_dict, cls()
        classes = given.get(OBSERVED_TO_QUANTIZED_DICT_KEY, {})
        config._classes_from_dict(classes, config.set_observed_to_quantized_mapping)
        return config.set_preserved_attributes(given.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))

    def to_dict(self):
        """What is set, in a dictionary."""
        values = {}
        if self.observed_to_quantized_mapping:
            classes = self._classes_to_dict(self.observed_to_quantized_mapping)
            values[OBSERVED_TO_QUANTIZED_DICT_KEY] = classes
        if self.preserved_attributes:
            values[PRESERVED_ATTRIBUTES_DICT_KEY] = self.preserved_attributes
        return values


class FuseCustomConfig(_Config):
    """Settings of ``fuse_fx``."""

    @classmethod
    def from_dict(cls, fuse_custom_config_dict):
        """The settings of a dictionary that :meth:`to_dict` made."""
        attributes = fuse_custom_config_dict.get(PRESERVED_ATTRIBUTES_DICT_KEY, [])
        return cls().set_preserved_attributes(attributes)

    def to_dict(self):
        """What is set, in a dictionary."""
        attributes = self.preserved_attributes
        return {PRESERVED_ATTRIBUTES_DICT_KEY: attributes} if attributes else {}
