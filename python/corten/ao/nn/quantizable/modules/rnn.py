"""Long short-term memory whose every step can be observed and quantized."""

from __future__ import annotations

import numbers
import warnings

import corten
from corten import nn
from corten.nn.modules.rnn import _check_dropout, _warn_of_idle_dropout

__all__ = ["LSTMCell", "LSTM"]

_GATES = ("input", "forget", "cell", "output")


def _functional():
    from corten.ao.nn.quantized import FloatFunctional

    return FloatFunctional()


def _set_linear(linear, weight, bias):
    linear.weight = nn.Parameter(weight)
    if bias is not None:
        linear.bias = nn.Parameter(bias)


class LSTMCell(nn.Module):
    """One step. With ``split_gates`` each gate has maps of its own, so that each has its own scale."""

    _FLOAT_MODULE = nn.LSTMCell
    __constants__ = ["split_gates"]

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        self.input_size = input_dim
        self.hidden_size = hidden_dim
        self.bias = bias
        self.split_gates = split_gates
        made = {"bias": bias, "device": device, "dtype": dtype}
        if split_gates:
            self.igates = nn.ModuleDict()
            self.hgates = nn.ModuleDict()
            self.gates = nn.ModuleDict()
            for gate in _GATES:
                self.igates[gate] = nn.Linear(input_dim, hidden_dim, **made)
                self.hgates[gate] = nn.Linear(hidden_dim, hidden_dim, **made)
                self.gates[gate] = _functional()
        else:
            self.igates = nn.Linear(input_dim, 4 * hidden_dim, **made)
            self.hgates = nn.Linear(hidden_dim, 4 * hidden_dim, **made)
            self.gates = _functional()
        self.input_gate = nn.Sigmoid()
        self.forget_gate = nn.Sigmoid()
        self.cell_gate = nn.Tanh()
        self.output_gate = nn.Sigmoid()
        self.fgate_cx = _functional()
        self.igate_cgate = _functional()
        self.fgate_cx_igate_cgate = _functional()
        self.ogate_cy = _functional()
        self.initial_hidden_state_qparams = (1.0, 0)
        self.initial_cell_state_qparams = (1.0, 0)
        self.hidden_state_dtype = corten.quint8
        self.cell_state_dtype = corten.quint8

    def forward(self, x, hidden=None):
        """The next output and cell state."""
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        i, f, g, o = self._gate_values(x, hx)
        i, f = self.input_gate(i), self.forget_gate(f)
        g, o = self.cell_gate(g), self.output_gate(o)
        kept = self.fgate_cx.mul(f, cx)
        added = self.igate_cgate.mul(i, g)
        cy = self.fgate_cx_igate_cgate.add(kept, added)
        return self.ogate_cy.mul(o, corten.tanh(cy)), cy

    def _gate_values(self, x, hx):
        if not self.split_gates:
            return self.gates.add(self.igates(x), self.hgates(hx)).chunk(4, 1)
        return [self.gates[gate].add(self.igates[gate](x), self.hgates[gate](hx)) for gate in _GATES]

    def initialize_hidden(self, batch_size, is_quantized=False):
        """States of zeros, quantized as the module's parameters for them say."""
        h = corten.zeros((batch_size, self.hidden_size))
        c = corten.zeros((batch_size, self.hidden_size))
        if is_quantized:
            scale, zero_point = self.initial_hidden_state_qparams
            h = corten.quantize_per_tensor(h, scale=scale, zero_point=zero_point, dtype=self.hidden_state_dtype)
            scale, zero_point = self.initial_cell_state_qparams
            c = corten.quantize_per_tensor(c, scale=scale, zero_point=zero_point, dtype=self.cell_state_dtype)
        return h, c

    def _get_name(self):
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(cls, wi, wh, bi=None, bh=None, split_gates=False):
        """A cell with the weights and biases of a float cell."""
        if (bi is None) != (bh is None):
            raise AssertionError("bi and bh must both be None or both have values")
        cell = cls(
            input_dim=wi.shape[1], hidden_dim=wh.shape[1], bias=bi is not None, split_gates=split_gates
        )
        for maps, weight, bias in ((cell.igates, wi, bi), (cell.hgates, wh, bh)):
            if not split_gates:
                _set_linear(maps, weight, bias)
                continue
            biases = [None] * 4 if bias is None else bias.chunk(4, dim=0)
            for gate, part, its_bias in zip(maps.values(), weight.chunk(4, dim=0), biases):
                _set_linear(gate, part, its_bias)
        return cell

    @classmethod
    def from_float(cls, other, use_precomputed_fake_quant=False, split_gates=False):
        """A cell with the parameters and the ``qconfig`` of a float cell."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig"):
            raise AssertionError("The float module must have 'qconfig'")
        made = cls.from_params(
            other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh, split_gates=split_gates
        )
        made.qconfig = other.qconfig
        for maps in (made.igates, made.hgates):
            maps.qconfig = other.qconfig
            for gate in maps.values() if split_gates else ():
                gate.qconfig = other.qconfig
        return made


class _LSTMSingleLayer(nn.Module):
    """A cell over time."""

    def __init__(self, input_dim, hidden_dim, bias=True, device=None, dtype=None, *, split_gates=False):
        super().__init__()
        self.cell = LSTMCell(
            input_dim, hidden_dim, bias=bias, device=device, dtype=dtype, split_gates=split_gates
        )

    def forward(self, x, hidden=None):
        outputs = []
        for step in range(x.shape[0]):
            hidden = self.cell(x[step], hidden)
            outputs.append(hidden[0])
        return corten.stack(outputs, 0), hidden

    @classmethod
    def from_params(cls, *args, **kwargs):
        cell = LSTMCell.from_params(*args, **kwargs)
        layer = cls(cell.input_size, cell.hidden_size, cell.bias, split_gates=cell.split_gates)
        layer.cell = cell
        return layer


def _part(states, direction):
    """The states of a direction of a layer, or None where there are none."""
    if states is None:
        return None
    h, c = (None if state is None else state[direction] for state in states)
    return None if h is None and c is None else (h, c)


class _LSTMLayer(nn.Module):
    """A layer in one or both directions."""

    def __init__(
        self, input_dim, hidden_dim, bias=True, batch_first=False, bidirectional=False, device=None, dtype=None, *,
        split_gates=False,
    ):
        super().__init__()
        made = {"bias": bias, "device": device, "dtype": dtype, "split_gates": split_gates}
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.layer_fw = _LSTMSingleLayer(input_dim, hidden_dim, **made)
        if bidirectional:
            self.layer_bw = _LSTMSingleLayer(input_dim, hidden_dim, **made)

    def forward(self, x, hidden=None):
        if self.batch_first:
            x = x.transpose(0, 1)
        if not self.bidirectional:
            if hidden is not None and hidden[0] is None and hidden[1] is None:
                hidden = None
            result, states = self.layer_fw(x, hidden)
        else:
            result, forward = self.layer_fw(x, _part(hidden, 0))
            reverse, backward = self.layer_bw(x.flip(0), _part(hidden, 1))
            result = corten.cat([result, reverse.flip(0)], result.dim() - 1)
            states = tuple(corten.stack(pair, 0) for pair in zip(forward, backward))
        if self.batch_first:
            result.transpose_(0, 1)
        return result, tuple(states)

    @classmethod
    def from_float(cls, other, layer_idx=0, qconfig=None, **kwargs):
        """The layer of that position of a float module; keywords override what the module says of itself."""
        if not hasattr(other, "qconfig") and qconfig is None:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        names = ("input_size", "hidden_size", "bias", "batch_first", "bidirectional")
        split_gates = kwargs.get("split_gates", False)
        layer = cls(*(kwargs.get(name, getattr(other, name)) for name in names), split_gates=split_gates)
        layer.qconfig = getattr(other, "qconfig", qconfig)

        def direction(suffix):
            kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            parts = (getattr(other, f"{kind}_l{layer_idx}{suffix}", None) for kind in kinds)
            return _LSTMSingleLayer.from_params(*parts, split_gates=split_gates)

        layer.layer_fw = direction("")
        if other.bidirectional:
            layer.layer_bw = direction("_reverse")
        return layer


def _check_settings(dropout, num_layers):
    _check_dropout(dropout, numbers.Number)
    if dropout > 0:
        warnings.warn(
            "dropout option for quantizable LSTM is ignored. If you are training, please, use nn.LSTM version "
            "followed by `prepare` step.",
            stacklevel=3,
        )
        _warn_of_idle_dropout(dropout, num_layers, 4)


class LSTM(nn.Module):
    """Layers of cells over time, in one or two directions."""

    _FLOAT_MODULE = nn.LSTM

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
        device=None, dtype=None, *, split_gates=False,
    ):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.training = False
        _check_settings(dropout, num_layers)
        above = hidden_size * (2 if bidirectional else 1)
        widths = [input_size] + [above] * (num_layers - 1)
        self.layers = nn.ModuleList(
            _LSTMLayer(
                width, hidden_size, bias, batch_first=False, bidirectional=bidirectional, device=device,
                dtype=dtype, split_gates=split_gates,
            )
            for width in widths
        )

    def forward(self, x, hidden=None):
        """The outputs of the last layer at all times, and the final states of all layers."""
        if self.batch_first:
            x = x.transpose(0, 1)
        states = self._initial_states(x, hidden)
        finals = []
        for layer, its_states in zip(self.layers, states):
            x, after = layer(x, its_states)
            finals.append(after)
        h, c = (corten.stack(parts) for parts in zip(*finals))
        h, c = (state.reshape(-1, state.shape[-2], state.shape[-1]) for state in (h, c))
        if self.batch_first:
            x = x.transpose(0, 1)
        return x, (h, c)

    def _initial_states(self, x, hidden):
        """Pairs of states by layer."""
        directions = 2 if self.bidirectional else 1
        batch = x.size(1)
        if hidden is None:
            zeros = corten.zeros(directions, batch, self.hidden_size, dtype=corten.float, device=x.device)
            zeros = zeros.squeeze(0)
            if x.is_quantized:
                zeros = corten.quantize_per_tensor(zeros, scale=1.0, zero_point=0, dtype=x.dtype)
            return [(zeros, zeros)] * self.num_layers
        if not isinstance(hidden[0], corten.Tensor):
            return hidden
        h, c = (
            state.reshape(self.num_layers, directions, batch, self.hidden_size) for state in hidden
        )
        return [(h[i].squeeze(0), c[i].squeeze(0)) for i in range(self.num_layers)]

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other, qconfig=None, split_gates=False):
        """The observed module with the parameters of a float one."""
        from corten.ao import quantization

        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        if not hasattr(other, "qconfig") and not qconfig:
            raise AssertionError("other must have qconfig or qconfig must be provided")
        made = cls(
            other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first, other.dropout,
            other.bidirectional, split_gates=split_gates,
        )
        made.qconfig = getattr(other, "qconfig", qconfig)
        for i in range(other.num_layers):
            made.layers[i] = _LSTMLayer.from_float(other, i, qconfig, batch_first=False, split_gates=split_gates)
        if other.training:
            made.train()
            return quantization.prepare_qat(made, inplace=True)
        made.eval()
        return quantization.prepare(made, inplace=True)

    @classmethod
    def from_observed(cls, other):
        """Refused: the quantized module is made by ``torch.ao.nn.quantized.LSTM.from_observed``."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-quantizable LSTM module. Please, see the examples on "
            "quantizable LSTMs."
        )
