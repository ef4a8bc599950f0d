"""Operators of ``torch.ops.quantized`` that take packed parameters, which are objects of Python.

The objects stand in ``packed``; what multiplies is ``corten::quantized_linear`` and its like, which take tensors.
All other operators of the namespace are in the registry.
"""

from __future__ import annotations

import importlib

from corten import ops

_LINEAR = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
_CONV = "__torch__.torch.classes.quantized.Conv{}dPackedParamsBase"
_TABLE = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase"
_CELL = "__torch__.torch.classes.rnn.CellParamsBase"


def _linear():
    x, y = f"(Tensor X, {_LINEAR} W_prepack", ") -> Tensor Y"
    scale, reduced = ", float Y_scale_i, int Y_zero_point_i", ", bool reduce_range=False"
    given = f"(Tensor X, float X_scale, int X_zero_point, {_LINEAR} W_prepack"
    rows = {
        "linear": x + scale + y, "linear_relu": x + scale + y,
        "linear_leaky_relu": x + scale + ", float negative_slope" + y, "linear_tanh": x + scale + y,
        "linear_dynamic": x + reduced + y, "linear_relu_dynamic": x + reduced + y,
        "linear_dynamic_fp16": x + y, "linear_relu_dynamic_fp16": x + y,
        "linear_dynamic_fp16_unpacked_weight": "(Tensor X, Tensor weight, Tensor? bias" + y,
        "linear_prepack": f"(Tensor W, Tensor? B=None) -> {_LINEAR} W_prepack",
        "linear_prepack_fp16": f"(Tensor W, Tensor? B=None) -> {_LINEAR} W_prepack",
        "linear_unpack": f"({_LINEAR} W_prepack) -> (Tensor W_origin, Tensor? B_origin)",
        "linear_unpack_fp16": f"({_LINEAR} W_prepack) -> (Tensor W_origin, Tensor? B_origin)",
        "linear_with_input_q_dq_qweight_dq_output_fp32": given + y,
        "linear_with_input_q_dq_qweight_dq_relu_output_fp32": given + y,
    }
    return {name: ("linear", {"": schema}) for name, schema in rows.items()}


def _conv():
    rows = {}
    lists = "int[] stride, int[] padding, int[] dilation, int groups, "
    scale = "float output_scale, int output_zero_point) -> Tensor"
    for dims in (1, 2, 3):
        packed = _CONV.format(max(dims, 2))
        taken = f"(Tensor qx, {packed} packed_weight, "
        for end in ("", "_relu"):
            new = taken + scale
            old = f"(Tensor qx, {packed} weight, {lists}{scale}"
            rows[f"conv{dims}d{end}"] = {"": new} if dims == 1 else {"": old, "new": new}
        for name, more in ((f"conv{dims}d", ""), (f"conv_transpose{dims}d", "int[] output_padding, ")):
            moved = lists.replace("int[] dilation", f"{more}int[] dilation").rstrip(", ")
            rows[f"{name}_prepack"] = {"": f"(Tensor weight, Tensor? bias, {moved}) -> {packed}"}
            rows[f"{name}_unpack"] = {
                "": f"({packed} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)"
            }
            rows[f"{name}_dynamic"] = {"": taken + "bool reduce_range=False) -> Tensor"}
            if dims > 1:
                for part in ("stride", "padding", "output_padding", "dilation"):
                    rows[f"{name}_{part}"] = {"": f"({packed} packed_weights) -> int[]"}
                for part in ("groups", "transpose"):
                    rows[f"{name}_{part}"] = {"": f"({packed} packed_weights) -> int"}
        rows[f"conv_transpose{dims}d"] = {"": taken + scale}
    packed = _CONV.format(2)
    for end in ("", "_relu"):
        rows[f"conv2d_add{end}"] = {"": f"(Tensor qx, Tensor qaccum, {packed} packed_weight, {scale}"}
    rows["conv_prepack"], rows["conv_unpack"] = rows["conv2d_prepack"], rows["conv2d_unpack"]
    rows["conv2d_unpack_sizes"] = {"": "(Any packed_weights) -> Any"}
    return {name: ("conv", schemas) for name, schemas in rows.items()}


def _embedding():
    bag = (
        "Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, bool pruned_weights=False, "
        "Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, bool include_last_offset=False"
        ") -> Tensor"
    )
    rows = {
        "embedding_bag_prepack": f"(Tensor weight) -> {_TABLE} W_prepack",
        "embedding_bag_unpack": f"({_TABLE} W_prepack) -> Tensor W_origin",
        "embedding_bag_byte_prepack": "(Tensor weight) -> Tensor",
        "embedding_bag_byte_unpack": "(Tensor weight) -> Tensor",
        "embedding_bag_byte_rowwise_offsets": f"(Tensor weight, {bag}",
    }
    for bits, name in ((8, "byte"), (4, "4bit")):
        rows[f"embedding_{name}"] = f"({_TABLE} weight, Tensor indices, bool pruned_weights=False) -> Tensor"
        rows[f"embedding_bag_{name}"] = f"({_TABLE} weight, {bag}"
    for name in ("4bit", "2bit"):
        rows[f"embedding_bag_{name}_prepack"] = (
            "(Tensor weight, bool optimized_qparams=False, int nbins=200, float ratio=0.16) -> Tensor"
        )
        rows[f"embedding_bag_{name}_unpack"] = "(Tensor weight) -> Tensor"
        rows[f"embedding_bag_{name}_rowwise_offsets"] = f"(Tensor weight, {bag}"
    return {name: ("embedding", {"": schema}) for name, schema in rows.items()}


def _recurrent():
    two = f"{_LINEAR} w_ih, {_LINEAR} w_hh"
    rows = {
        "make_quantized_cell_params_dynamic":
            f"({two}, Tensor bias_ih, Tensor bias_hh, bool reduce_range=False) -> {_CELL}",
        "make_quantized_cell_params_fp16": f"({two}) -> {_CELL}",
        "quantized_lstm_cell_dynamic":
            f"(Tensor input, Tensor[] hx, {two}, Tensor bias_ih, Tensor bias_hh) -> (Tensor, Tensor)",
    }
    for cell in ("gru", "rnn_relu", "rnn_tanh"):
        rows[f"quantized_{cell}_cell_dynamic"] = (
            f"(Tensor input, Tensor hx, {two}, Tensor b_ih, Tensor b_hh) -> Tensor"
        )
    return {name: ("recurrent", {"": schema}) for name, schema in rows.items()}


#: The module of each operator and the schemas of its overloads, without their names.
OPERATORS = {**_linear(), **_conv(), **_embedding(), **_recurrent()}


class Overload(ops.Overload):
    """An overload that is a function of Python."""

    def __init__(self, name):
        super().__init__(name)
        packet, _, overload = name.partition("::")[2].partition(".")
        module, schemas = OPERATORS[packet]
        self._function = getattr(importlib.import_module(f"corten._quantized.{module}"), packet)
        self._arguments = schemas[overload]

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    @property
    def schema(self):
        """The schema."""
        return self._qualified + self._arguments

    _schema = schema

    def __reduce__(self):
        return Overload, (self._qualified,)


class Packet(ops.Packet):
    """The overloads of an operator that is a function of Python."""

    def __init__(self, name):
        self._qualified_op_name = name
        self.__name__ = name.partition("::")[2]
        self._overloads = list(OPERATORS[self.__name__][1])

    def __getattr__(self, overload):
        name = "" if overload == "default" else overload
        if overload.startswith("__") or name not in self._overloads:
            return super().__getattr__(overload)
        found = Overload(f"{self._qualified_op_name}.{name}" if name else self._qualified_op_name)
        setattr(self, overload, found)
        return found

    def __call__(self, *args, **kwargs):
        return getattr(self, self._overloads[0] or "default")(*args, **kwargs)

    def __reduce__(self):
        return Packet, (self._qualified_op_name,)


def packet(name):
    """The operator of a name, or nothing."""
    return Packet(f"quantized::{name}") if name in OPERATORS else None
