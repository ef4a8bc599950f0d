"""Replaces operations between dequantise and quantise by quantised modules and operators.

Note [Lowering]: a reference graph computes in floats: what is quantised is dequantised before every operation
and its result quantised again. Where a kernel exists, ``dequantize``, the operation and
``quantize_per_tensor`` become one call, and what is left of the pairs is where a quantised part begins or
ends. Packed weights are computed once (:mod:`._fold`).
"""

from __future__ import annotations

import operator

import corten
import corten.ao.nn.intrinsic as nni
import corten.ao.nn.intrinsic.quantized as nniq
import corten.ao.nn.intrinsic.quantized.dynamic as nniqd
import corten.ao.nn.quantized as nnq
import corten.ao.nn.quantized.dynamic as nnqd
import corten.ao.nn.quantized.reference as nnqr
from corten import nn
from corten.fx import Node
from corten.nn import functional as F

from ..quantization_mappings import _same_names, get_quantized_operator
from ..utils import _parent_name
from ._fold import fold_weight
from .utils import (
    _get_module, create_node_from_old_node_preserve_meta, get_linear_prepack_op_for_dtype,
    get_qconv_prepack_op, is_dequantize_node,
)

_ops = corten.ops.quantized

STATIC_LOWER_MODULE_MAP = _same_names(nnqr, nnq, "Linear Conv1d Conv2d Conv3d")
DYNAMIC_LOWER_MODULE_MAP = _same_names(nnqr, nnqd, "Linear GRUCell LSTMCell RNNCell LSTM GRU")
WEIGHT_ONLY_LOWER_MODULE_MAP = _same_names(nnqr, nnq, "Embedding EmbeddingBag")
SPECIAL_PATTERN_LOWER_MODULE_MAP = {
    **_same_names(nnqr, nnq, "ConvTranspose1d ConvTranspose2d ConvTranspose3d"),
    **_same_names(
        nn, nnq,
        "BatchNorm2d BatchNorm3d ELU LeakyReLU Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d "
        "LayerNorm Dropout Softmax PReLU",
    ),
    **_same_names(nni, nniq, "BNReLU2d BNReLU3d"),
}
STATIC_LOWER_FUSED_MODULE_MAP = {
    **{
        getattr(nni, name): (nnqr.Linear, getattr(nniq, name))
        for name in ("LinearReLU", "LinearLeakyReLU", "LinearTanh")
    },
    **{
        getattr(nni, f"ConvReLU{d}d"): (getattr(nnqr, f"Conv{d}d"), getattr(nniq, f"ConvReLU{d}d"))
        for d in (1, 2, 3)
    },
}
STATIC_LOWER_FUSED_MODULE_TWO_INPUTS_MAP = {
    getattr(nni, name): (nnqr.Conv2d, getattr(nniq, name)) for name in ("ConvAdd2d", "ConvAddReLU2d")
}
DYNAMIC_LOWER_FUSED_MODULE_MAP = {nni.LinearReLU: (nnqr.Linear, nniqd.LinearReLU)}
STATIC_LOWER_FUNCTIONAL_MAP = {
    **{
        getattr(F, name): (getattr(_ops, name), getattr(_ops, f"{name}_relu"))
        for name in "linear conv1d conv2d conv3d".split()
    },
    **{
        getattr(F, name): (getattr(_ops, name), None)
        for name in "conv_transpose1d conv_transpose2d conv_transpose3d".split()
    },
}
DYNAMIC_LOWER_FUNCTIONAL_MAP = {
    F.linear: {
        (corten.quint8, corten.qint8): (_ops.linear_dynamic, _ops.linear_relu_dynamic),
        (corten.float16, corten.float16): (_ops.linear_dynamic_fp16, _ops.linear_relu_dynamic_fp16),
    },
    **{
        getattr(F, name): {(corten.quint8, corten.qint8): (getattr(_ops, f"{name}_dynamic"), None)}
        for name in "conv1d conv2d conv3d".split()
    },
}
CONV_TRANSPOSE_FUNCTIONAL_OPS = {F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d}
QBIN_OP_MAPPING = {
    operator.add: _ops.add, corten.add: _ops.add, operator.mul: _ops.mul, operator.matmul: _ops.matmul,
    corten.mul: _ops.mul, corten.matmul: _ops.matmul,
}
QBIN_RELU_OP_MAPPING = {
    operator.add: _ops.add_relu, corten.add: _ops.add_relu, operator.mul: _ops.mul_relu,
    corten.mul: _ops.mul_relu,
}
#: Arguments of functions that their quantised operators do not have.
QOP_TO_ARG_NAMES_TO_SKIP = {
    _ops.hardswish: ["inplace"], _ops.elu: ["inplace"], _ops.dropout: ["inplace"],
    _ops.instance_norm: ["running_mean", "running_var", "use_input_stats", "momentum"],
}


def _named(module, names):
    return {getattr(module, name) for name in names.split()}


#: Functions and modules with quantised counterparts that take a scale and a zero point for their result.
_DEFAULT_FUNCTIONS = _named(F, "elu hardswish instance_norm layer_norm leaky_relu dropout")
_DEFAULT_MODULES = {*SPECIAL_PATTERN_LOWER_MODULE_MAP} - {nn.Softmax}
#: Those whose result has a known scale.
_FIXED = (
    {*_named(F, "hardsigmoid sigmoid"), corten.sigmoid, corten.tanh},
    {*"hardsigmoid hardsigmoid_ sigmoid sigmoid_ tanh tanh_".split()},
    _named(nn, "Hardsigmoid Sigmoid Tanh Softmax"),
)
#: Those that take quantised values themselves and keep their scale.
_COPYING = (
    {
        *_named(
            F,
            "adaptive_avg_pool2d adaptive_avg_pool3d hardtanh hardtanh_ interpolate max_pool1d max_pool2d "
            "max_pool3d relu relu6 avg_pool2d avg_pool3d pixel_shuffle pixel_unshuffle",
        ),
        *_named(
            corten,
            "adaptive_avg_pool1d avg_pool1d clamp flatten mean channel_shuffle narrow transpose "
            "repeat_interleave squeeze stack unsqueeze cat",
        ),
        operator.floordiv,
    },
    {
        *"clamp mean relu relu_ contiguous detach detach_ permute repeat repeat_interleave reshape resize_ "
        "shape size squeeze squeeze_ transpose unsqueeze unsqueeze_ view".split()
    },
    _named(
        nn,
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AvgPool1d AvgPool2d AvgPool3d Hardtanh "
        "MaxPool1d MaxPool2d MaxPool3d ReLU ReLU6 ChannelShuffle Identity PixelShuffle PixelUnshuffle",
    ),
)


def _among(node, modules, functions, methods, classes):
    if node.op == "call_function":
        return node.target in functions
    if node.op == "call_method":
        return node.target in methods
    return node.op == "call_module" and type(modules[str(node.target)]) in classes


def _is_call(node, function):
    return isinstance(node, Node) and node.op == "call_function" and node.target is function


class _Lowering:
    """Lowers a graph module."""

    def __init__(self, model, qconfigs):
        self.model, self.graph, self.qconfigs = model, model.graph, qconfigs
        self.modules = dict(model.named_modules(remove_duplicate=False))

    def run(self):
        """Lowers all that can be lowered, family by family."""
        for lower in (
            self.static_module, self.static_module_of_two, self.dynamic_module, self.weight_only_module,
            self.static_function,
        ):
            for node in self.graph.nodes:
                lower(node)
        for node in reversed(self.graph.nodes):
            self.dynamic_function(node)
        for lower in (self.binary, self.shape_of, self.special):
            for node in self.graph.nodes:
                lower(node)
        self.graph.eliminate_dead_code()

    def set_module(self, node, module):
        parent, name = _parent_name(node.target)
        setattr(self.modules[parent], name, module)

    def skipped(self, node):
        return self.qconfigs.get(node.name, node) is None

    def output_qparams(self, quantize):
        return tuple(getattr(self.model, quantize.args[index].target) for index in (1, 2))

    def is_relu(self, node, functions):
        if node.op == "call_function":
            return node.target in functions
        return type(_get_module(node, self.modules)) is nn.ReLU

    def matched(self, quantize, kinds, dequantized):
        """The activation, if there is one, and the operation before a node that quantises, if they are to
        be lowered: arguments at these positions are dequantised, one at least."""
        nothing = (None, None)
        if not _is_call(quantize, corten.quantize_per_tensor):
            return nothing
        relu, node = None, quantize.args[0]
        if self.is_relu(node, (F.relu, corten.relu)):
            relu, node = node, node.args[0]
        if self.skipped(node):
            return nothing
        key = node.target if node.op == "call_function" else type(_get_module(node, self.modules))
        if node.op not in ("call_function", "call_module") or key not in kinds:
            return nothing
        args = [node.args[index] for index in dequantized]
        if any(isinstance(arg, Node) and not is_dequantize_node(arg) for arg in args):
            return nothing
        return (relu, node) if any(map(is_dequantize_node, args)) else nothing

    def into_module(self, quantize, node, kind):
        """The module of a node becomes a quantised one that takes quantised values and gives them."""
        scale_and_zero = quantize.args[1:3]
        module = kind.from_reference(_get_module(node, self.modules), *self.output_qparams(quantize))
        self.set_module(node, module)
        for arg in node.args:
            if is_dequantize_node(arg):
                node.replace_input_with(arg, arg.args[0])
        quantize.replace_all_uses_with(node)
        for one in (quantize, *scale_and_zero):
            self.graph.erase_node(one)

    def quantized_class(self, module, alone, fused):
        """The class that a reference module is lowered to, or None."""
        if type(module) in fused:
            inner, kind = fused[type(module)]
            return kind if type(module[0]) is inner else None
        return alone.get(type(module))

    def static_module(self, quantize):
        fused = STATIC_LOWER_FUSED_MODULE_MAP
        _relu, node = self.matched(quantize, {*STATIC_LOWER_MODULE_MAP, *fused}, [0])
        if node is None:
            return
        module = _get_module(node, self.modules)
        kind = self.quantized_class(module, STATIC_LOWER_MODULE_MAP, fused)
        if kind is not None:
            self.into_module(quantize, node, kind)

    def static_module_of_two(self, quantize):
        if not _is_call(quantize, corten.quantize_per_tensor):
            return
        node = quantize.args[0]
        module = _get_module(node, self.modules)
        kind = self.quantized_class(module, {}, STATIC_LOWER_FUSED_MODULE_TWO_INPUTS_MAP)
        if kind is None or self.skipped(node):
            return
        if len(node.args) == 2 and all(map(is_dequantize_node, node.args)):
            self.into_module(quantize, node, kind)

    def dynamic_input(self, arg):
        """The node that quantises an argument while the model runs, to 8 bits or half precision, or None."""
        quantize = arg.args[0] if is_dequantize_node(arg) else None
        if not _is_call(quantize, corten.quantize_per_tensor_dynamic):
            return None
        dtypes = (corten.float16, corten.quint8, corten.qint8)
        return quantize if quantize.args[1] in dtypes else None

    def dynamic_module(self, node):
        module = _get_module(node, self.modules)
        kind = self.quantized_class(module, DYNAMIC_LOWER_MODULE_MAP, DYNAMIC_LOWER_FUSED_MODULE_MAP)
        quantize = self.dynamic_input(node.args[0]) if kind is not None else None
        if quantize is not None:
            self.set_module(node, kind.from_reference(module))
            node.replace_input_with(node.args[0], quantize.args[0])

    def weight_only_module(self, node):
        module = _get_module(node, self.modules)
        kind = WEIGHT_ONLY_LOWER_MODULE_MAP.get(type(module))
        if kind is not None:
            self.set_module(node, kind.from_reference(module))

    def packed(self, node, weight, rest):
        """Operator and arguments that pack the weight of a function."""
        args = [weight, *rest]
        if node.target is F.linear:
            return get_linear_prepack_op_for_dtype(weight.args[-1]), args
        # Packing takes lists of numbers.
        lists = {F.conv1d: (2, 3, 4), F.conv_transpose1d: (2, 3, 4, 6)}.get(node.target, ())
        for index in lists:
            if len(args) > index and isinstance(args[index], int):
                args[index] = (args[index],)
        if node.target in CONV_TRANSPOSE_FUNCTIONAL_OPS and len(args) > 6:
            args[5], args[6] = args[6], args[5]
        return get_qconv_prepack_op(node.target), args

    def static_function(self, quantize):
        relu, node = self.matched(quantize, STATIC_LOWER_FUNCTIONAL_MAP, [0, 1])
        if node is None:
            return
        _input, scale, zero_point, _dtype = quantize.args
        input, weight, *rest = node.args
        weight = weight.args[0]
        if not any(_is_call(weight, f) for f in (corten.quantize_per_tensor, corten.quantize_per_channel)):
            return
        operation, args = self.packed(node, weight, rest)
        kwargs = dict(node.kwargs)
        if node.target is F.linear and "bias" in kwargs:
            kwargs["B"] = kwargs.pop("bias")
        with self.graph.inserting_before(scale):
            packed = self.graph.create_node("call_function", operation, tuple(args), kwargs)
        plain, with_relu = STATIC_LOWER_FUNCTIONAL_MAP[node.target]
        node.target = with_relu if relu is not None and with_relu is not None else plain
        node.args, node.kwargs = (input.args[0], packed, scale, zero_point), {}
        quantize.replace_all_uses_with(node)
        # Scale and zero point are read after the place where the function was.
        zero_point.append(node)
        self.graph.erase_node(quantize)
        if relu is not None and with_relu is not None:
            self.graph.erase_node(relu)

    def dynamic_function(self, node):
        relu = None
        if self.is_relu(node, (F.relu,)):
            relu, node = node, node.args[0]
        known = DYNAMIC_LOWER_FUNCTIONAL_MAP.get(node.target) if node.op == "call_function" else None
        if known is None or self.skipped(node):
            return
        input, weight, *rest = node.args
        quantize = self.dynamic_input(input)
        if quantize is None or not is_dequantize_node(weight):
            return
        weight = weight.args[0]
        source, dtype, *reduce_range = quantize.args
        plain, with_relu = known.get((dtype, weight.args[-1]), (None, None))
        if plain is None or with_relu is None:
            # Convolutions whose scales are found while the model runs stay as they are.
            return
        operation, args = self.packed(node, weight, rest)
        kwargs, packing = dict(node.kwargs), {}
        if "bias" in kwargs:
            packing["B"] = kwargs.pop("bias")
        with self.graph.inserting_before(node):
            packed = self.graph.create_node("call_function", operation, tuple(args), packing)
        node.target = with_relu if relu is not None else plain
        node.args = (source, packed) if dtype == corten.float16 else (source, packed, *reduce_range)
        node.kwargs = kwargs
        if relu is not None:
            relu.replace_all_uses_with(node)
            self.graph.erase_node(relu)

    def binary(self, quantize):
        kinds = {operator.add, corten.add, operator.mul, corten.mul, corten.matmul}
        relu, node = self.matched(quantize, kinds, [0, 1])
        if node is None:
            return
        tensors = [arg for arg in node.args if is_dequantize_node(arg)]
        for arg in tensors:
            node.replace_input_with(arg, arg.args[0])
        operation = (QBIN_OP_MAPPING if relu is None else QBIN_RELU_OP_MAPPING)[node.target]
        # With a number as an operand, scale and zero point follow from those of the other.
        qparams = quantize.args[1:3] if len(tensors) == 2 else ()
        with self.graph.inserting_after(quantize):
            call = ("call_function", operation, (*node.args, *qparams), {})
            new = create_node_from_old_node_preserve_meta(self.graph, call, node)
            quantize.replace_all_uses_with(new)
        for one in (quantize, relu, node):
            if one is not None:
                self.graph.erase_node(one)

    def shape_of(self, node):
        """Sizes are read from quantised tensors."""
        attribute = _is_call(node, getattr) and node.args[1] == "shape"
        method = node.op == "call_method" and node.target in ("shape", "size")
        if (attribute or method) and is_dequantize_node(node.args[0]):
            node.args = (node.args[0].args[0], *node.args[1:])

    def special(self, quantize):
        """Operations that take quantised values themselves, or are replaced by a module or an operator."""
        exact = quantize.target is corten.quantize_per_tensor
        half = quantize.op == "call_method" and quantize.target == "to" and len(quantize.args) == 2
        if not exact and not (half and quantize.args[1] == corten.float16):
            return
        node = quantize.args[0]
        default = _among(node, self.modules, _DEFAULT_FUNCTIONS, (), _DEFAULT_MODULES)
        fixed = _among(node, self.modules, *_FIXED)
        if not exact and (default or fixed):
            return
        if not (default or fixed or _among(node, self.modules, *_COPYING)):
            return
        if not node.args and not node.kwargs:
            raise AssertionError("Expected ref_node to have args or kwargs")
        inputs = node.args[0] if node.args else next(iter(node.kwargs.values()))
        inputs = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
        if all(map(is_dequantize_node, inputs)):
            self.take_quantized(quantize, node, inputs, exact, default)

    def take_quantized(self, quantize, node, inputs, exact, default):
        kind = SPECIAL_PATTERN_LOWER_MODULE_MAP.get(type(_get_module(node, self.modules)))
        if kind is not None and exact:
            module = kind.from_reference(_get_module(node, self.modules), *self.output_qparams(quantize))
            self.set_module(node, module)
        for arg in inputs:
            node.replace_input_with(arg, arg.args[0])
        qparams = quantize.args[1:]
        quantize.replace_all_uses_with(quantize.args[0])
        self.graph.erase_node(quantize)
        if not (default and node.op == "call_function"):
            for one in qparams:
                if isinstance(one, Node):
                    self.graph.erase_node(one)
            return
        operation = get_quantized_operator(node.target)
        skipped = QOP_TO_ARG_NAMES_TO_SKIP.get(operation, ())
        kwargs = {name: value for name, value in node.kwargs.items() if name not in skipped}
        kwargs.update(output_scale=qparams[0], output_zero_point=qparams[1])
        with self.graph.inserting_after(qparams[1]):
            call = ("call_function", operation, node.args, kwargs)
            new = create_node_from_old_node_preserve_meta(self.graph, call, node)
            node.replace_all_uses_with(new)
            self.graph.erase_node(node)


def _lower_to_native_backend(model, qconfig_map, node_name_to_scope, keep_original_weights=False):
    """The graph module with quantised modules and operators where there are kernels."""
    _Lowering(model, qconfig_map).run()
    model = fold_weight(model, node_name_to_scope, keep_original_weights)
    model.graph.eliminate_dead_code()
    model.recompile()
    model.graph.lint()
    return model
