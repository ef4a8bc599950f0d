"""Which operation of a model has which configuration."""

from __future__ import annotations

from collections import OrderedDict

import corten
from corten import nn

from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    default_fixed_qparams_range_0to1_observer, default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer, default_weight_observer,
)
from .qconfig import (
    QConfig, default_quint8_weight_qconfig, default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig, default_symmetric_qnnpack_qconfig, get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["get_default_qconfig_mapping", "get_default_qat_qconfig_mapping", "QConfigMapping"]

_GLOBAL_DICT_KEY = ""
_OBJECT_TYPE_DICT_KEY = "object_type"
_MODULE_NAME_REGEX_DICT_KEY = "module_name_regex"
_MODULE_NAME_DICT_KEY = "module_name"
_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY = "module_name_object_type_order"

_FIXED_QPARAMS_OP_TO_OBSERVER = {
    **dict.fromkeys(
        (
            nn.Hardsigmoid, nn.functional.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid,
            corten.sigmoid, "sigmoid", "sigmoid_", nn.Softmax,
        ),
        default_fixed_qparams_range_0to1_observer,
    ),
    **dict.fromkeys(
        (nn.Tanh, corten.tanh, "tanh", "tanh_"), default_fixed_qparams_range_neg1to1_observer
    ),
}
_TRANSPOSED = (
    nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.functional.conv_transpose1d,
    nn.functional.conv_transpose2d, nn.functional.conv_transpose3d,
)

_QCONFIG_STYLE_ORDER = [
    "global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs",
    "module_name_object_type_order_qconfigs",
]


class QConfigMapping:
    """Configurations by what they are for; what is more special has the last word: the whole model, types
    of operations, regular expressions of modules' names, names, and places among operations of a type.

    Example::

        >>> mapping = QConfigMapping().set_global(default_qconfig).set_module_name("head", None)
        >>> mapping.module_name_qconfigs
        OrderedDict({'head': None})
    """

    def __init__(self):
        self.global_qconfig = None
        for style in _QCONFIG_STYLE_ORDER[1:]:
            setattr(self, style, OrderedDict())

    def set_global(self, global_qconfig):
        """The configuration of all that no other entry is for."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        """The configuration of a class of modules, a function or a method's name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        """The configuration of modules whose name matches; the first match counts."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        """The configuration of a module and of all within it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig):
        """The configuration of the operation of this type that is at this index in a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for style in _QCONFIG_STYLE_ORDER:
            lines.append(f" {style}")
            qconfigs = getattr(self, style)
            if isinstance(qconfigs, OrderedDict) and qconfigs:
                lines.extend(f"  {key}: {qconfig}" for key, qconfig in qconfigs.items())
            else:
                lines.append(f"  {qconfigs}")
        return "\n".join(lines) + "\n)"

    def to_dict(self):
        """The configurations in dictionaries and lists."""
        order = self.module_name_object_type_order_qconfigs
        return {
            _GLOBAL_DICT_KEY: self.global_qconfig,
            _OBJECT_TYPE_DICT_KEY: list(self.object_type_qconfigs.items()),
            _MODULE_NAME_REGEX_DICT_KEY: list(self.module_name_regex_qconfigs.items()),
            _MODULE_NAME_DICT_KEY: list(self.module_name_qconfigs.items()),
            _MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY: [(*key, value) for key, value in order.items()],
        }

    @classmethod
    def from_dict(cls, qconfig_dict):
        """The mapping of a dictionary that :meth:`to_dict` made."""
        mapping = cls()
        if _GLOBAL_DICT_KEY in qconfig_dict:
            mapping.set_global(qconfig_dict[_GLOBAL_DICT_KEY])
        for key, setter in (
            (_OBJECT_TYPE_DICT_KEY, mapping.set_object_type),
            (_MODULE_NAME_REGEX_DICT_KEY, mapping.set_module_name_regex),
            (_MODULE_NAME_DICT_KEY, mapping.set_module_name),
            (_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY, mapping.set_module_name_object_type_order),
        ):
            for entry in qconfig_dict.get(key, []):
                setter(*entry)
        return mapping


def _get_default_qconfig_mapping(is_qat, backend, version):
    qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    activation = qconfig.activation
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    # Transposed convolutions have no scales by channel.
    transposed = QConfig(activation, weight) if backend in ("fbgemm", "x86") else qconfig
    layer_norm = QConfig(activation, default_placeholder_observer)
    mapping = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for operation in _TRANSPOSED:
        mapping.set_object_type(operation, transposed)
    mapping.set_object_type(nn.functional.layer_norm, layer_norm).set_object_type(nn.LayerNorm, layer_norm)
    mapping.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    fixed = {}
    for operation, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        if observer not in fixed:
            made = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
            fixed[observer] = QConfig(made, weight)
        mapping.set_object_type(operation, fixed[observer])
    return mapping


def get_default_qconfig_mapping(backend="x86", version=0):
    """The mapping for calibration of a backend."""
    return _get_default_qconfig_mapping(False, backend, version)


def get_default_qat_qconfig_mapping(backend="x86", version=1):
    """The mapping for training of a backend."""
    return _get_default_qconfig_mapping(True, backend, version)


def _get_symmetric_qnnpack_qconfig_mapping():
    return _get_default_qconfig_mapping_with_default_qconfig(
        False, "qnnpack", default_symmetric_qnnpack_qconfig
    )


def _get_symmetric_qnnpack_qat_qconfig_mapping():
    return _get_default_qconfig_mapping_with_default_qconfig(
        True, "qnnpack", default_symmetric_qnnpack_qat_qconfig
    )


def _get_default_qconfig_mapping_with_default_qconfig(is_qat, backend, default_qconfig):
    make = get_default_qat_qconfig_mapping if is_qat else get_default_qconfig_mapping
    mapping = make(backend).set_global(default_qconfig)
    for pattern in mapping.object_type_qconfigs:
        if pattern not in _FIXED_QPARAMS_OP_TO_OBSERVER:
            mapping.set_object_type(pattern, default_qconfig)
    return mapping
