"""Replaces observers by nodes that quantise and dequantise."""

from __future__ import annotations

import operator

import corten
from corten import nn
from corten.fx import Node

from ..utils import is_per_channel, to_underlying_dtype
from .utils import create_getattr_from_value

SUPPORTED_QDTYPES = [
    corten.quint8, corten.qint8, corten.qint32, corten.uint8, corten.int8, corten.uint16, corten.int16,
    corten.int32, corten.float8_e5m2, corten.float8_e4m3fn,
]
_TENSOR_DTYPES = [
    corten.quint8, corten.qint8, corten.qint32, corten.float8_e5m2, corten.float8_e4m3fn,
]


def _has_none_qconfig(node, node_name_to_qconfig):
    """Whether a node is one that is not to be quantised."""
    return isinstance(node, Node) and node_name_to_qconfig.get(node.name, node) is None


def _get_module_path_and_prefix(obs_node, node_name_to_scope, node_name_to_qconfig):
    """The module that an observer's scale belongs to, and ``_input`` if it observes an input of it."""
    observed = obs_node.args[0]
    if not isinstance(observed, Node):
        raise AssertionError(f"Expecting observed node to be a Node, but got {observed}")
    owner, prefix = observed, ""
    if _has_none_qconfig(observed, node_name_to_qconfig):
        prefix, users = "_input", list(obs_node.users)
        linear = nn.functional.linear
        linears = [user for user in users if user.op == "call_function" and user.target is linear]
        owner = next(iter(linears or users), None)
    path = node_name_to_scope.get(owner.name, ("", None))[0] if owner else ""
    return path, prefix


class ObserverReplacer:
    """Replaces observers in a graph; ``decomposed`` ones by operators on integers."""

    def __init__(self, model, modules, scopes, qconfigs, device):
        self.model, self.graph, self.modules = model, model.graph, modules
        self.scopes, self.qconfigs, self.device = scopes, qconfigs, device

    def replace(self, node, decomposed):
        """Replaces an observer's node; by nothing if what it stands between is not quantised."""
        observer = self.modules[node.target]
        if decomposed and hasattr(observer, "convert"):
            observer.convert(self.model, node)
            return
        around = [*node.args, *node.users]
        if all(_has_none_qconfig(one, self.qconfigs) for one in around) or not self.supported(observer):
            new = node.args[0]
        else:
            path, prefix = _get_module_path_and_prefix(node, self.scopes, self.qconfigs)
            with self.graph.inserting_before(node):
                make = self.integer_pair if decomposed else self.tensor_pair
                new = make(node.args[0], observer, path + prefix)
        if new is not None:
            node.replace_all_uses_with(new)
            self.graph.erase_node(node)

    def supported(self, observer):
        dynamic = getattr(observer, "is_dynamic", False)
        return dynamic or observer.dtype in SUPPORTED_QDTYPES or observer.dtype == corten.float16

    def attribute(self, prefix, value):
        return create_getattr_from_value(self.model, self.graph, prefix, value, self.device)

    def tensor_pair(self, input, observer, prefix):
        """Nodes that make a quantised tensor, and a float one of it."""
        call, dtype = self.graph.call_function, observer.dtype
        if getattr(observer, "is_dynamic", False):
            reduce_range = corten.backends.quantized.engine in ("fbgemm", "x86")
            quantized = call(corten.quantize_per_tensor_dynamic, (input, dtype, reduce_range))
        elif dtype in _TENSOR_DTYPES:
            quantized = self.static_tensor(input, observer, prefix)
        elif dtype == corten.float16:
            quantized = self.graph.call_method("to", (input, dtype))
        else:
            return None
        return self.graph.call_method("dequantize", (quantized,))

    def static_tensor(self, input, observer, prefix):
        scale, zero_point = observer.calculate_qparams()
        if is_per_channel(observer.qscheme):
            operation, axis = corten.quantize_per_channel, [int(observer.ch_axis)]
        else:
            operation, axis = corten.quantize_per_tensor, []
            scale, zero_point = float(scale), int(zero_point)
        scale = self.attribute(f"{prefix}_scale_", scale)
        zero_point = self.attribute(f"{prefix}_zero_point_", zero_point)
        return self.graph.call_function(operation, (input, scale, zero_point, *axis, observer.dtype))

    def integer_pair(self, input, observer, prefix):
        """Nodes that make integers, and floats of them."""
        ops, dtype = corten.ops.quantized_decomposed, observer.dtype
        if getattr(observer, "is_dynamic", False):
            return self.dynamic_integers(input, observer)
        if dtype == corten.float16:
            convert = ops.convert_element_type.no_fuse
            half = self.graph.call_function(convert, (input, corten.float16))
            return self.graph.call_function(convert, (half, corten.float))
        rest = [observer.quant_min, observer.quant_max, to_underlying_dtype(dtype)]
        scale, zero_point = observer.calculate_qparams()
        if is_per_channel(observer.qscheme):
            quantize, dequantize = ops.quantize_per_channel.default, ops.dequantize_per_channel.default
            scale = self.attribute(f"{prefix}_scale_", scale)
            zero_point = self.attribute(f"{prefix}_zero_point_", zero_point)
            rest.insert(0, int(observer.ch_axis))
        else:
            quantize, dequantize = ops.quantize_per_tensor.default, ops.dequantize_per_tensor.default
            scale, zero_point = float(scale), int(zero_point)
        return self.pair(quantize, dequantize, input, (scale, zero_point, *rest))

    def pair(self, quantize, dequantize, input, rest):
        quantized = self.graph.call_function(quantize, (input, *rest))
        output = input.meta["val"].dtype if "val" in input.meta else corten.float32
        named = {} if output == corten.float32 else {"out_dtype": output}
        return self.graph.call_function(dequantize, (quantized, *rest), named)

    def dynamic_integers(self, input, observer):
        ops, dtype = corten.ops.quantized_decomposed, to_underlying_dtype(observer.dtype)
        if dtype not in (corten.uint8, corten.int8):
            raise AssertionError(
                "only uint8 and int8 are supported in reference flow for dynamic quantization right now"
            )
        choose = {
            corten.per_tensor_affine: ops.choose_qparams.tensor,
            corten.per_tensor_symmetric: ops.choose_qparams_symmetric.tensor,
        }[getattr(observer, "qscheme", corten.per_tensor_affine)]
        eps = getattr(observer, "eps", corten.finfo(corten.float32).eps)
        limits = (observer.quant_min, observer.quant_max)
        chosen = self.graph.call_function(choose, (input, *limits, eps, dtype))
        qparams = [self.graph.call_function(operator.getitem, (chosen, index)) for index in range(2)]
        quantize, dequantize = ops.quantize_per_tensor.tensor, ops.dequantize_per_tensor.tensor
        return self.pair(quantize, dequantize, input, (*qparams, *limits, dtype))
