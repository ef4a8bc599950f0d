"""Recurrent networks as functions: ``lstm``, ``gru``, ``rnn_tanh``, ``rnn_relu`` and their cells."""

from __future__ import annotations

from corten import Tensor
from corten._overriding import as_operator
from corten.nn.modules import _recurrence

__all__ = [
    "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh",
    "rnn_tanh_cell",
]


def _run(mode, args):
    """All layers. Over a padded input: ``(input, hx, params, has_biases, num_layers, dropout, train,
    bidirectional, batch_first)``; over a packed one ``(data, batch_sizes, hx, params, …)`` without
    ``batch_first``."""
    args = list(args)
    # Padded inputs have a flag behind the parameters, packed ones a tensor before the states.
    packed = len(args) > 3 and isinstance(args[3], (list, tuple))
    data = args.pop(0)
    batch_sizes = args.pop(0) if packed else None
    hx, params, has_biases, num_layers, dropout, train, bidirectional = args[:7]
    batch_first = not packed and args[7]
    hx = (hx,) if isinstance(hx, Tensor) else tuple(hx)
    cells = num_layers * (2 if bidirectional else 1)
    per_cell = len(params) // cells
    data = data.transpose(0, 1) if batch_first else data
    output, finals = _recurrence.run(
        mode, data, hx, params, per_cell, num_layers, dropout, train, bidirectional, batch_sizes
    )
    return (output.transpose(0, 1) if batch_first else output, *finals)


@as_operator
def lstm(*args):
    """Long short-term memory of several layers: the outputs and the two final states."""
    return _run("LSTM", args)


@as_operator
def gru(*args):
    """Gated recurrent units of several layers: the outputs and the final state."""
    return _run("GRU", args)


@as_operator
def rnn_tanh(*args):
    """Elman networks of several layers: the outputs and the final state."""
    return _run("RNN_TANH", args)


@as_operator
def rnn_relu(*args):
    """Elman networks with rectifiers, of several layers: the outputs and the final state."""
    return _run("RNN_RELU", args)


@as_operator
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of long short-term memory: the two states."""
    return _recurrence.lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh)


@as_operator
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a gated recurrent unit: the state."""
    return _recurrence.gru_cell(input, hx, w_ih, w_hh, b_ih, b_hh)


@as_operator
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network: the state."""
    return _recurrence.tanh_cell(input, hx, w_ih, w_hh, b_ih, b_hh)


@as_operator
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an Elman network with a rectifier: the state."""
    return _recurrence.relu_cell(input, hx, w_ih, w_hh, b_ih, b_hh)
