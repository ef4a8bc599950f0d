"""Recurrent networks, an operator for each layer."""

from __future__ import annotations

from corten.onnx._graph import Value
from corten.onnx._table import translation

#: Where ONNX has the gates that PyTorch has in the order i f g o, and r z n.
_ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


@translation("lstm.input")
def lstm(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):  # noqa: A002
    return _layers(g, "LSTM", input, list(hx), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@translation("gru.input")
def gru(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):  # noqa: A002
    return _layers(g, "GRU", input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@translation("rnn_tanh.input", "rnn_relu.input")
def rnn(g, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):  # noqa: A002
    activation = "Tanh" if "tanh" in g.label else "Relu"
    return _layers(g, "RNN", input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, activation)


@translation("lstm", "gru", "rnn_tanh", "rnn_relu")
def packed(g, *arguments, **options):
    g.refuse("packed sequences are not supported")


def _layers(g, kind, value, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, activation=None):
    directions = 2 if bidirectional else 1
    if dropout and train and num_layers > 1:
        g.refuse("dropout between layers is not supported in training mode; call model.eval() first")
    each = len(params) // (num_layers * directions)
    if each > (4 if has_biases else 2):
        g.refuse("projections are not supported")
    if batch_first:
        value = g.transpose(value, [1, 0, 2])
    last = []
    for layer in range(num_layers):
        parts = [params[(layer * directions + i) * each :][:each] for i in range(directions)]
        start, end = layer * directions, (layer + 1) * directions
        initial = [state if num_layers == 1 else g.slice(state, [start], [end], [0]) for state in states]
        value, finals = _layer(g, kind, value, parts, initial, has_biases, directions, activation)
        last.append(finals)
    if batch_first:
        value = g.transpose(value, [1, 0, 2])
    return (value, *(_joined(g, column) for column in zip(*last)))


def _joined(g, parts):
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=0)


def _layer(g, kind, value, parts, initial, has_biases, directions, activation):
    """One layer: the results of all steps, and the last states."""
    weights = _stacked(g, kind, [part[0] for part in parts])
    recurrent = _stacked(g, kind, [part[1] for part in parts])
    biases = None
    if has_biases:
        rows = [g.op("Concat", _gates(g, kind, part[2]), _gates(g, kind, part[3]), shape=(None,), axis=0) for part in parts]
        biases = _joined(g, [g.unsqueeze(row, [0]) for row in rows])
    hidden = parts[0][1].shape[1]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    if activation:
        attributes["activations"] = [activation] * directions
    found = g.op(kind, value, weights, recurrent, biases, None, *initial, outputs=1 + len(initial), **attributes)
    steps = found[0]
    steps.shape = (value.shape[0], directions, value.shape[1], hidden)
    if directions == 1:
        steps = g.squeeze(steps, [1])
    else:
        steps = g.transpose(steps, [0, 2, 1, 3])
        steps = g.op("Reshape", steps, g.vector([0, 0, -1]), shape=(value.shape[0], value.shape[1], 2 * hidden))
    return steps, found[1:]


def _stacked(g, kind, weights):
    return _joined(g, [g.unsqueeze(_gates(g, kind, weight), [0]) for weight in weights])


def _gates(g, kind, weight):
    """The gates of a weight or bias in the order of ONNX."""
    order = _ORDERS[kind]
    if len(order) == 1:
        return weight
    size = weight.shape[0] // len(order)
    gates = g.op("Split", weight, g.vector([size] * len(order)), outputs=len(order), axis=0)
    return g.op("Concat", *(gates[i] for i in order), shape=weight.shape, axis=0)


def _cell(g, kind, input, states, weights, biases):  # noqa: A002
    """One step: a sequence of one element."""
    value = g.unsqueeze(input, [0])
    part = [*weights, *biases]
    initial = [g.unsqueeze(state, [0]) for state in states]
    has_biases = bool(biases) and isinstance(biases[0], Value)
    _, finals = _layer(g, kind, value, [part], initial, has_biases, 1, None)
    for final in finals:
        final.shape = (1, None, None)
    return [g.squeeze(final, [0]) for final in finals]


@translation("lstm_cell")
def lstm_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):  # noqa: A002
    return tuple(_cell(g, "LSTM", input, hx, [w_ih, w_hh], [b_ih, b_hh]))


@translation("gru_cell")
def gru_cell(g, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):  # noqa: A002
    return _cell(g, "GRU", input, [hx], [w_ih, w_hh], [b_ih, b_hh])[0]
