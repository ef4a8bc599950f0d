"""Dynamically quantized recurrent networks."""

from __future__ import annotations

import numbers
import warnings

import corten
from corten import nn
from corten.ao.nn.quantized.modules.utils import _quantize_weight, check_qconfig, repr_without
from corten.nn.modules.rnn import _check_dropout, _warn_of_idle_dropout
from corten.nn.utils.rnn import PackedSequence

from .linear import weight_observer_of

__all__ = [
    "pack_weight_bias", "PackedParameter", "RNNBase", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell",
    "apply_permutation",
]

_GATES = {"LSTM": 4, "GRU": 3}


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """A tensor's slices in another order; deprecated for ``index_select``."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead",
        FutureWarning, stacklevel=2,
    )
    return _apply_permutation(tensor, permutation, dim)


def pack_weight_bias(qweight, bias, dtype):
    """Weight and bias in the order that products read."""
    ops = corten.ops.quantized
    return (ops.linear_prepack if dtype == corten.qint8 else ops.linear_prepack_fp16)(qweight, bias)


def _pack_cell(weight_ih, weight_hh, bias_ih, bias_hh, version=2):
    """The parameters of a cell, of quantized weights or of float ones for half precision."""
    ops = corten.ops.quantized
    dtype = weight_ih.dtype if weight_ih.dtype == corten.qint8 else corten.float16
    packed_ih = pack_weight_bias(weight_ih, bias_ih, dtype)
    packed_hh = pack_weight_bias(weight_hh, bias_hh, dtype)
    if dtype == corten.float16:
        return ops.make_quantized_cell_params_fp16(packed_ih, packed_hh)
    if version is None or version < 2:
        return ops.make_quantized_cell_params_dynamic(packed_ih, packed_hh, bias_ih, bias_hh)
    return ops.make_quantized_cell_params_dynamic(packed_ih, packed_hh, bias_ih, bias_hh, True)


def _state_of(packed):
    """What packed parameters are pickled as."""
    return packed.__getstate__()[0]


def _observed_dtype(method):
    dtype = method().dtype
    if dtype not in (corten.qint8, corten.float16):
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {dtype}")
    return dtype


def _observed_weight(weight, method, dtype):
    if dtype == corten.float16:
        return weight.float()
    observer = method()
    observer(weight)
    return _quantize_weight(weight.float(), observer)


class PackedParameter(nn.Module):
    """The packed parameters of a cell, as a part with a state."""

    def __init__(self, param):
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self.param = state_dict[prefix + "param"]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )


class RNNBase(nn.Module):
    """Layers of cells over time, in one or two directions, of floats with weights of 8 bits."""

    _FLOAT_MODULE = nn.RNNBase
    _version = 2

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, dtype=corten.qint8,
    ):
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.dtype = dtype
        self.version = 2
        self.training = False
        _check_settings(mode, dropout, num_layers)
        gates = _GATES[mode] * hidden_size
        directions = 2 if bidirectional else 1
        cells = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * directions
            cells += [self._random_cell(gates, width) for _ in range(directions)]
        self._all_weight_values = nn.ModuleList(cells)

    def _random_cell(self, gates, width):
        """A cell to be replaced, as a module that is not converted has it."""
        weights = [corten.randn(gates, size) for size in (width, self.hidden_size)]
        biases = [corten.randn(gates) for _ in range(2)]
        if self.dtype == corten.qint8:
            weights = [
                corten.quantize_per_tensor(weight, scale=0.1, zero_point=0, dtype=corten.qint8) for weight in weights
            ]
        return PackedParameter(_pack_cell(*weights, *biases, self.version))

    def _get_name(self):
        return "DynamicQuantizedRNN"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                            ("bidirectional", False)):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        return text

    def __repr__(self):
        hidden = (PackedParameter, nn.ModuleList)
        return repr_without(self, [name for name, part in self._modules.items() if isinstance(part, hidden)])

    def check_input(self, input, batch_sizes):
        """Checks the shape of an input."""
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input, batch_sizes):
        """The shape of states."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.hidden_size

    def check_hidden_size(self, hx, expected_hidden_size, msg="Expected hidden size {}, got {}"):
        """Checks the shape of a state."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """Checks the shapes of an input and of its states."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """States in the order of the sequences."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def forward(self, input, hx=None):
        """The outputs of the last layer at all times, and the final states of all layers."""
        return (self.forward_packed if isinstance(input, PackedSequence) else self.forward_tensor)(input, hx)

    def forward_tensor(self, input, hx=None):
        """:meth:`forward` of a tensor."""
        batch = input.size(0) if self.batch_first else input.size(1)
        return self.forward_impl(input, hx, None, batch, None)

    def forward_packed(self, input, hx=None):
        """:meth:`forward` of a packed sequence."""
        data, batch_sizes, sorted_indices, unsorted_indices = input
        output, hidden = self.forward_impl(data, hx, batch_sizes, int(batch_sizes[0]), sorted_indices)
        output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return output, self.permute_hidden(hidden, unsorted_indices)

    def forward_impl(self, input, hx, batch_sizes, max_batch_size, sorted_indices):
        """The outputs and the final states, in the order of the sorted sequences."""
        if hx is None:
            count = self.num_layers * (2 if self.bidirectional else 1)
            hx = self._states(
                corten.zeros(count, max_batch_size, self.hidden_size, dtype=input.dtype, device=input.device)
            )
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        cells = [cell.param for cell in self._all_weight_values]
        settings = (cells, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            return self._run(input, hx, *settings, self.batch_first)
        return self._run(input, batch_sizes, hx, *settings)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _suffixes(self):
        """What names of parameters end in, by cell."""
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [f"l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def set_weight_bias(self, weight_bias_dict):
        """Packs weights and biases by their names in float modules."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        self._all_weight_values = nn.ModuleList(
            PackedParameter(_pack_cell(*(weight_bias_dict[f"{kind}_{end}"] for kind in kinds), self.version))
            for end in self._suffixes()
        )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float one with a ``qconfig``."""
        if type(mod) not in {nn.LSTM, nn.GRU}:
            raise AssertionError("nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU")
        check_qconfig(mod)
        method = weight_observer_of(mod)
        dtype = _observed_dtype(method)
        made = (LSTM if mod.mode == "LSTM" else GRU)(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, dtype,
        )
        if not mod.bias:
            raise AssertionError("mod.bias must be True")
        values = {}
        for end in made._suffixes():
            for kind in ("ih", "hh"):
                weight = getattr(mod, f"weight_{kind}_{end}")
                values[f"weight_{kind}_{end}"] = _observed_weight(weight, method, dtype)
                values[f"bias_{kind}_{end}"] = getattr(mod, f"bias_{kind}_{end}")
        made.set_weight_bias(values)
        return made

    @classmethod
    def from_reference(cls, ref_mod):
        """The module of a reference module."""
        if not hasattr(ref_mod, "weight_ih_l0_dtype"):
            raise AssertionError(
                f"We are assuming weight_ih_l0 exists in {cls.__name__}, may need to relax the assumption to support "
                "the use case"
            )
        made = cls(
            ref_mod.input_size, ref_mod.hidden_size, ref_mod.num_layers, ref_mod.bias, ref_mod.batch_first,
            ref_mod.dropout, ref_mod.bidirectional, ref_mod.weight_ih_l0_dtype,
        )
        made.set_weight_bias(ref_mod.get_quantized_weight_bias_dict())
        return made

    def _weight_bias(self):
        values = {"weight": {}, "bias": {}}
        for end, cell in zip(self._suffixes(), self._all_weight_values):
            for kind, packed in zip(("ih", "hh"), _state_of(cell.param)[4]):
                weight, bias = _state_of(packed)
                values["weight"][f"weight_{kind}_{end}"] = weight
                values["bias"][f"bias_{kind}_{end}"] = bias
        return values

    def get_weight(self):
        """The quantized weights by their names in float modules."""
        return self._weight_bias()["weight"]

    def get_bias(self):
        """The biases by their names in float modules."""
        return self._weight_bias()["bias"]


def _check_settings(mode, dropout, num_layers):
    _check_dropout(dropout, numbers.Number)
    _warn_of_idle_dropout(dropout, num_layers, 5)
    if mode not in _GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")


class LSTM(RNNBase):
    """Long short-term memory of floats with weights of 8 bits; states are pairs."""

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTM"

    def _states(self, zeros):
        return zeros, zeros

    def _run(self, *args):
        output, h, c = corten.quantized_lstm(*args, dtype=self.dtype, use_dynamic=True)
        return output, (h, c)

    def permute_hidden(self, hx, permutation):
        """States in the order of the sequences."""
        if permutation is None:
            return hx
        return tuple(_apply_permutation(state, permutation) for state in hx)

    def check_forward_args(self, input, hidden, batch_sizes):
        """Checks the shapes of an input and of its states."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        for i, state in enumerate(hidden):
            self.check_hidden_size(state, expected, f"Expected hidden[{i}] size {{}}, got {{}}")


class GRU(RNNBase):
    """Gated recurrent units of floats with weights of 8 bits."""

    _FLOAT_MODULE = nn.GRU

    def __init__(self, *args, **kwargs):
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedGRU"

    def _states(self, zeros):
        return zeros

    def _run(self, *args):
        return tuple(corten.quantized_gru(*args))


class RNNCellBase(nn.Module):
    """One step of a recurrent network of floats with weights of 8 bits."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias=True, num_chunks=4, dtype=corten.qint8):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.weight_dtype = dtype
        rows = num_chunks * hidden_size
        if bias:
            self.bias_ih = corten.randn(rows)
            self.bias_hh = corten.randn(rows)
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        weights = [corten.randn(rows, size) for size in (input_size, hidden_size)]
        if dtype == corten.qint8:
            weights = [
                corten.quantize_per_tensor(weight, scale=1, zero_point=0, dtype=corten.qint8) for weight in weights
            ]
        self._packed_weight_ih = pack_weight_bias(weights[0], self.bias_ih, dtype)
        self._packed_weight_hh = pack_weight_bias(weights[1], self.bias_hh, dtype)

    def _get_name(self):
        return "DynamicQuantizedRNNBase"

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def check_forward_input(self, input):
        """Checks the shape of an input."""
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}"
            )

    def check_forward_hidden(self, input, hx, hidden_label=""):
        """Checks the shape of a state."""
        if input.size(0) != hx.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} batch size {hx.size(0)}"
            )
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, expected {self.hidden_size}"
            )

    def _zeros(self, input):
        return corten.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def _step(self, name, input, hx):
        """The state after an input, by the operator of that name."""
        self.check_forward_input(input)
        hx = self._zeros(input) if hx is None else hx
        self.check_forward_hidden(input, hx, "")
        return self._run(name, input, hx)

    def _run(self, name, input, hx):
        op = getattr(corten.ops.quantized, f"quantized_{name}_cell_dynamic")
        return op(input, hx, self._packed_weight_ih, self._packed_weight_hh, self.bias_ih, self.bias_hh)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module of a float one with a ``qconfig``."""
        if type(mod) not in {nn.LSTMCell, nn.GRUCell, nn.RNNCell}:
            raise AssertionError(
                "nn.quantized.dynamic.RNNCellBase.from_float only works for nn.LSTMCell, nn.GRUCell and nn.RNNCell"
            )
        check_qconfig(mod)
        method = weight_observer_of(mod)
        dtype = _observed_dtype(method)
        kind = {nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell, nn.RNNCell: RNNCell}[type(mod)]
        settings = {"nonlinearity": mod.nonlinearity} if kind is RNNCell else {}
        made = kind(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **settings)
        if not mod.bias:
            raise AssertionError("mod.bias must be True")
        made._packed_weight_ih = pack_weight_bias(
            _observed_weight(mod.weight_ih, method, dtype), mod.bias_ih, dtype
        )
        made._packed_weight_hh = pack_weight_bias(
            _observed_weight(mod.weight_hh, method, dtype), mod.bias_hh, dtype
        )
        # PyTorch leaves the random biases of its constructor, which its operators do not read.
        made.bias_ih, made.bias_hh = (bias.detach() for bias in (mod.bias_ih, mod.bias_hh))
        return made

    @classmethod
    def from_reference(cls, ref_mod):
        """The module of a reference module."""
        if not hasattr(ref_mod, "weight_ih_dtype"):
            raise AssertionError(
                "We are assuming weight_ih exists in reference module, may need to relax the assumption to support "
                "the use case"
            )
        settings = {"nonlinearity": ref_mod.nonlinearity} if hasattr(ref_mod, "nonlinearity") else {}
        made = cls(
            ref_mod.input_size, ref_mod.hidden_size, ref_mod.bias, dtype=ref_mod.weight_ih_dtype, **settings
        )
        made.set_weight_bias({
            "weight": {
                "weight_ih": ref_mod.get_quantized_weight_ih(), "weight_hh": ref_mod.get_quantized_weight_hh(),
            },
            "bias": {"bias_ih": ref_mod.bias_ih, "bias_hh": ref_mod.bias_hh},
        })
        return made

    def _weight_bias(self):
        values = {"weight": {}, "bias": {}}
        for kind, packed in (("ih", self._packed_weight_ih), ("hh", self._packed_weight_hh)):
            values["weight"][f"weight_{kind}"], values["bias"][f"bias_{kind}"] = _state_of(packed)
        return values

    def get_weight(self):
        """The quantized weights by their names in float modules."""
        return self._weight_bias()["weight"]

    def get_bias(self):
        """The biases by their names in float modules."""
        return self._weight_bias()["bias"]

    def set_weight_bias(self, weight_bias_dict):
        """Packs weights and biases by their names in float modules."""
        weights, biases = weight_bias_dict["weight"], weight_bias_dict["bias"]
        dtype = self.weight_dtype
        self._packed_weight_ih = pack_weight_bias(weights["weight_ih"], biases["bias_ih"], dtype)
        self._packed_weight_hh = pack_weight_bias(weights["weight_hh"], biases["bias_hh"], dtype)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_weight_ih"] = self._packed_weight_ih
        destination[prefix + "_packed_weight_hh"] = self._packed_weight_hh

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self._packed_weight_ih = state_dict.pop(prefix + "_packed_weight_ih")
        self._packed_weight_hh = state_dict.pop(prefix + "_packed_weight_hh")
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )


class RNNCell(RNNCellBase):
    """One step of an Elman network."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=corten.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def _get_name(self):
        return "DynamicQuantizedRNNCell"

    def forward(self, input, hx=None):
        """The next state."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}", input, hx)


class LSTMCell(RNNCellBase):
    """One step of long short-term memory; states are pairs."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, num_chunks=4, **kwargs)

    def _get_name(self):
        return "DynamicQuantizedLSTMCell"

    def forward(self, input, hx=None):
        """The next pair of states."""
        self.check_forward_input(input)
        if hx is None:
            hx = (self._zeros(input),) * 2
        for i in range(2):
            self.check_forward_hidden(input, hx[i], f"[{i}]")
        return self._run("lstm", input, hx)


class GRUCell(RNNCellBase):
    """One step of gated recurrent units."""

    def __init__(self, input_size, hidden_size, bias=True, dtype=corten.qint8):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def _get_name(self):
        return "DynamicQuantizedGRUCell"

    def forward(self, input, hx=None):
        """The next state."""
        return self._step("gru", input, hx)
