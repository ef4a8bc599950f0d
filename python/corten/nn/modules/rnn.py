"""Recurrent networks."""

from __future__ import annotations

import math
import warnings

import corten
from corten import _C
from corten.nn import init
from corten.nn.functional._ops import find
from corten.nn.parameter import Parameter
from corten.nn.utils.rnn import PackedSequence

from . import _recurrence
from .module import Module

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _permuted(tensor, permutation, dim=1):
    return tensor if permutation is None else tensor.index_select(dim, permutation)


class RNNBase(Module):
    """Layers of cells over time, in one or two directions."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None,
    ):
        super().__init__()
        _check_sizes(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size
        )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._flat_weights_names = []
        self._all_weights = []
        for layer in range(num_layers):
            for direction in range(self._directions):
                names = self._add_cell(layer, direction, {"device": device, "dtype": dtype})
                self._flat_weights_names += names
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    @property
    def _out_size(self):
        return self.proj_size or self.hidden_size

    def _add_cell(self, layer, direction, made):
        rows = _GATES[self.mode] * self.hidden_size
        width = self.input_size if layer == 0 else self._out_size * self._directions
        shapes = {"weight_ih": (rows, width), "weight_hh": (rows, self._out_size)}
        if self.bias:
            shapes.update(bias_ih=(rows,), bias_hh=(rows,))
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        suffix = "_reverse" if direction == 1 else ""
        names = []
        for kind, shape in shapes.items():
            name = f"{kind}_l{layer}{suffix}"
            setattr(self, name, Parameter(corten.empty(shape, **made)))
            names.append(name)
        return names

    @property
    def _flat_weights(self):
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        """The parameters of each cell."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """For programs that call it: the memory layout of the weights is free here."""

    def reset_parameters(self):
        """Draws all parameters from ``U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    def forward(self, input, hx=None):
        """The outputs of the last layer at all times, and the final states of all layers."""
        packed = isinstance(input, PackedSequence)
        order = (input.sorted_indices, input.unsorted_indices) if packed else (None, None)
        batch_sizes = input.batch_sizes if packed else None
        x = input.data if packed else self._time_first(input)
        squeeze = not packed and input.dim() == 2
        batch = int(batch_sizes[0]) if packed else x.size(1)
        states = self._states(hx, x, batch, squeeze)
        if hx is not None:
            states = tuple(_permuted(state, order[0]) for state in states)
        self._check(x, states, batch, packed)
        output, finals = self._run(x, states, batch_sizes)
        if packed:
            output = PackedSequence(output, batch_sizes, *order)
        else:
            output = self._time_back(output, squeeze)
        finals = tuple(_permuted(final, order[1]) for final in finals)
        if squeeze:
            finals = tuple(final.squeeze(1) for final in finals)
        return output, self._packed_states(finals)

    def _time_first(self, input):
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        if input.dim() == 2:
            return input.unsqueeze(1)
        return input.transpose(0, 1) if self.batch_first else input

    def _time_back(self, output, squeeze):
        if squeeze:
            return output.squeeze(1)
        return output.transpose(0, 1) if self.batch_first else output

    def _state_widths(self):
        return (self._out_size,)

    def _packed_states(self, finals):
        return finals[0]

    def _given_states(self, hx):
        return (hx,)

    def _states(self, hx, x, batch, squeeze):
        count = self.num_layers * self._directions
        if hx is None:
            return tuple(
                corten.zeros(count, batch, width, dtype=x.dtype, device=x.device)
                for width in self._state_widths()
            )
        states = self._given_states(hx)
        rank = 2 if squeeze else 3
        for state in states:
            if state.dim() != rank:
                kind, expected = ("unbatched 2-D", 2) if squeeze else ("batched 3-D", 3)
                raise RuntimeError(
                    f"For {kind} input, hx {'and cx ' if len(states) == 2 else ''}should also be "
                    f"{expected}-D but got {'-D, '.join(str(s.dim()) for s in states)}-D tensor"
                )
        return tuple(state.unsqueeze(1) for state in states) if squeeze else states

    def _check(self, x, states, batch, packed):
        expected_rank = 2 if packed else 3
        if x.dim() != expected_rank:
            raise RuntimeError(f"input must have {expected_rank} dimensions, got {x.dim()}")
        if x.size(-1) != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {x.size(-1)}"
            )
        weight = getattr(self, self._flat_weights_names[0])
        if x.dtype != weight.dtype and not corten.is_autocast_enabled(x.device.type):
            raise ValueError(
                f"RNN input dtype ({x.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({x.dtype})"
            )
        count = self.num_layers * self._directions
        for i, (state, width) in enumerate(zip(states, self._state_widths())):
            expected = (count, batch, width)
            if tuple(state.size()) != expected:
                name = f"hidden[{i}] " if len(states) == 2 else "hidden "
                raise RuntimeError(
                    f"Expected {name}size {expected}, got {list(state.size())}"
                )

    def _run(self, x, states, batch_sizes):
        if self.mode == "LSTM" and batch_sizes is None and self.proj_size == 0:
            x, states = _cast_for_layer(x, states)
        op = find({"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}[self.mode])
        if op is None:
            return _recurrence.run(
                self.mode, x, states, self._flat_weights, len(self._all_weights[0]),
                self.num_layers, self.dropout, self.training, self.bidirectional, batch_sizes,
            )
        hx = states if self.mode == "LSTM" else states[0]
        tail = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
                self.bidirectional)
        if batch_sizes is None:
            output, *finals = op(x, hx, *tail, False)
        else:
            output, *finals = op(x, batch_sizes, hx, *tail)
        return output, tuple(finals)


def _check_dropout(dropout, kinds):
    """A probability is a number of these kinds between 0 and 1."""
    if not isinstance(dropout, kinds) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )


def _warn_of_idle_dropout(dropout, num_layers, stacklevel):
    """Says that one layer has nothing behind it whose inputs could be dropped."""
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=stacklevel,
        )


def _check_sizes(
    mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size
):
    if mode not in _GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}")
    _check_dropout(dropout, (int, float))
    _warn_of_idle_dropout(dropout, num_layers, 5)
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    if input_size <= 0:
        raise ValueError("input_size must be greater than zero")
    if hidden_size <= 0:
        raise ValueError("hidden_size must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNN(RNNBase):
    """Elman network with tanh or a rectifier."""

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        args = list(args)
        nonlinearity = args.pop(3) if len(args) > 3 else kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory; states are pairs of output and cell."""

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def _state_widths(self):
        return self._out_size, self.hidden_size

    def _packed_states(self, finals):
        return finals

    def _given_states(self, hx):
        return tuple(hx)


class RNNCellBase(Module):
    """One step of a recurrent network."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(corten.empty((rows, input_size), **made))
        self.weight_hh = Parameter(corten.empty((rows, hidden_size), **made))
        if bias:
            self.bias_ih = Parameter(corten.empty(rows, **made))
            self.bias_hh = Parameter(corten.empty(rows, **made))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws all parameters from ``U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _step(self, cell, input, states):
        """Runs `cell` with a batch dimension, which is added and removed if there is none."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for state in states:
            if state is not None and state.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {state.dim()}D instead")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if x.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.size(1)} expected {self.input_size}"
            )
        prepared = []
        for place, state in enumerate(states):
            if state is None:
                state = corten.zeros(x.size(0), self.hidden_size, dtype=x.dtype, device=x.device)
            elif not batched:
                state = state.unsqueeze(0)
            if state.size(0) != x.size(0):
                raise RuntimeError(
                    f"Input batch size {x.size(0)} doesn't match hidden{place} batch size {state.size(0)}"
                )
            if state.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{place} has inconsistent hidden_size: got {state.size(1)}, expected "
                    f"{self.hidden_size}"
                )
            prepared.append(state)
        result = cell(x, prepared, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return result if batched else tuple(r.squeeze(0) for r in result)


class RNNCell(RNNCellBase):
    """One step of an Elman network."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        cells = {"tanh": _recurrence.tanh_cell, "relu": _recurrence.relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        cell = cells[self.nonlinearity]
        return self._step(lambda x, states, *w: (cell(x, states[0], *w),), input, (hx,))[0]


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        step = lambda x, states, *w: (_recurrence.gru_cell(x, states[0], *w),)  # noqa: E731
        return self._step(step, input, (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of long short-term memory; the state is a pair of output and cell."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        return tuple(self._step(_recurrence.lstm_cell, input, hx if hx is not None else (None, None)))


def _cast_for_layer(x, states):
    """Under autocast a whole LSTM computes in the short dtype, its states included."""
    kind = x.device.type
    if kind not in ("cpu", "cuda") or not _C._autocast_enabled(kind) or x.dtype is corten.float64:
        return x, states
    dtype = _C._autocast_dtype(kind)
    return x.to(dtype), tuple(state.to(dtype) for state in states)
