"""What is known of a pattern that was found."""

from __future__ import annotations

from corten.fx import Node

from ..backend_config import ObservationType
from .utils import all_node_args_have_no_tensors

_FAMILIES = (
    "BinaryOp", "Cat", "ConvRelu", "LinearReLU", "BatchNorm", "Embedding", "RNNDynamic", "DefaultNode",
    "FixedQParamsOp", "CopyNode", "GeneralTensorShapeOp", "CustomModule", "StandaloneModule",
)
__all__ = ["QuantizeHandler", *(f"{family}QuantizeHandler" for family in _FAMILIES)]


def _default_root_node_getter(node_pattern):
    """The node of the first operation: the last in the pattern's form."""
    while node_pattern is not None and not isinstance(node_pattern, Node):
        node_pattern = node_pattern[-1]
    return node_pattern


class QuantizeHandler:
    """The root node of nodes that matched, and how their output is observed."""

    def __init__(
        self, node_pattern, modules, root_node_getter=None, is_custom_module=False,
        is_standalone_module=False, config=None,
    ):
        self.node_pattern, self.modules = node_pattern, modules
        self.root_node = (root_node_getter or _default_root_node_getter)(node_pattern)
        self.is_custom_module_, self.is_standalone_module_ = is_custom_module, is_standalone_module
        self.num_tensor_args, cache = 0, {}
        for arg in self.root_node.args if isinstance(self.root_node, Node) else ():
            if isinstance(arg, Node) and not all_node_args_have_no_tensors(arg, modules, cache):
                self.num_tensor_args += 1
        self.observation_type = self.dtype_configs = None
        if config is not None:
            self.dtype_configs = config.dtype_configs
            self.observation_type = self._observation(config)

    def _observation(self, config):
        by_count = config._num_tensor_args_to_observation_type
        if not by_count:
            return config.observation_type
        if self.num_tensor_args not in by_count:
            raise AssertionError(
                f"Must provide observation_type config for tensor number {self.num_tensor_args} in "
                f"num_tensor_args_to_observation_type for {self.node_pattern}"
            )
        return by_count[self.num_tensor_args]

    def is_general_tensor_value_op(self):
        """Whether the output shares the observer of the input."""
        return self.observation_type == ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT

    def is_custom_module(self):
        """Whether the node is a module of a custom class."""
        return self.is_custom_module_

    def is_standalone_module(self):
        """Whether the node is a module that is prepared apart."""
        return self.is_standalone_module_


def _get_pattern_to_quantize_handlers(backend_config):
    """Constructors of handlers by pattern."""

    def constructor(config):
        return lambda nodes, modules, getter: QuantizeHandler(nodes, modules, getter, config=config)

    return {
        pattern: constructor(config)
        for pattern, config in backend_config._pattern_complex_format_to_config.items()
    }


# Older names of handlers by family, which programs register patterns with.
for _family in _FAMILIES:
    _name = f"{_family}QuantizeHandler"
    globals()[_name] = type(_name, (QuantizeHandler,), {"__module__": __name__, "__doc__": QuantizeHandler.__doc__})
