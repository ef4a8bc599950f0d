"""The steps of recurrent networks, written over operators."""

from __future__ import annotations

import corten
from corten import _C
from corten.autograd import forward_ad
from corten.nn import functional as F
from corten.nn.parameter import Parameter


def tanh_cell(x, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of an Elman network."""
    return corten.tanh(F.linear(x, w_ih, b_ih) + F.linear(hx, w_hh, b_hh))


def relu_cell(x, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of an Elman network with a rectifier."""
    return F.relu(F.linear(x, w_ih, b_ih) + F.linear(hx, w_hh, b_hh))


def gru_cell(x, hx, w_ih, w_hh, b_ih, b_hh):
    """One step of a gated recurrent unit; rows of the weights are reset, update, new."""
    return _gru_step(F.linear(x, w_ih, b_ih), hx, w_hh, b_hh)


def lstm_cell(x, hx, w_ih, w_hh, b_ih, b_hh, w_hr=None):
    """One step of long short-term memory; rows of the weights are input, forget, cell, output."""
    return _lstm_step(F.linear(x, w_ih, b_ih), hx, w_hh, b_hh, w_hr)


def _tanh_step(gates, hx, w_hh, b_hh, w_hr=None):
    return corten.tanh(gates + F.linear(hx, w_hh, b_hh))


def _relu_step(gates, hx, w_hh, b_hh, w_hr=None):
    return F.relu(gates + F.linear(hx, w_hh, b_hh))


def _gru_step(gates, hx, w_hh, b_hh, w_hr=None):
    tensors = (gates, hx, w_hh, b_hh)
    if _is_fused_step(*tensors):
        return _C._corten.gru_sequence(gates[None], hx, w_hh, b_hh, False, _records(*tensors))[0][0]
    i_reset, i_update, i_new = gates.chunk(3, -1)
    h_reset, h_update, h_new = F.linear(hx, w_hh, b_hh).chunk(3, -1)
    reset = corten.sigmoid(h_reset + i_reset)
    update = corten.sigmoid(h_update + i_update)
    new = corten.tanh(i_new + h_new * reset)
    return (hx - new) * update + new


def _lstm_step(gates, hx, w_hh, b_hh, w_hr=None):
    h, c = hx
    if w_hr is None and _is_fused_step(gates, h, c, w_hh, b_hh):
        tensors = (gates if b_hh is None else gates + b_hh, h, c, w_hh)
        outputs, c = _C._corten.lstm_sequence(tensors[0][None], *tensors[1:], False, _records(*tensors))[:2]
        return outputs[0], c
    gates = F.linear(h, w_hh, b_hh) + gates
    i, f, g, o = gates.chunk(4, -1)
    c = corten.sigmoid(f) * c + corten.sigmoid(i) * corten.tanh(g)
    h = corten.sigmoid(o) * corten.tanh(c)
    return (h if w_hr is None else F.linear(h, w_hr)), c


_STEPS = {"RNN_TANH": _tanh_step, "RNN_RELU": _relu_step, "GRU": _gru_step, "LSTM": _lstm_step}


def run(mode, input, hx, params, per_cell, num_layers, dropout, train, bidirectional, batch_sizes):
    """All layers over a (length, batch, features) input, or a packed one with its batch sizes.

    `hx` has the states of layer 0 forward, layer 0 backward, layer 1 forward, …; `params` hold
    `per_cell` tensors for each in the same order. Returns the outputs and the final states.
    """
    directions = 2 if bidirectional else 1
    finals = []
    output = input
    for layer in range(num_layers):
        sides = []
        for direction in range(directions):
            cell = layer * directions + direction
            weights = _named(params[cell * per_cell:(cell + 1) * per_cell], mode)
            state = tuple(h[cell] for h in hx)
            out, final = _run_cell(mode, output, state, weights, direction == 1, batch_sizes)
            sides.append(out)
            finals.append(final)
        output = sides[0] if directions == 1 else corten.cat(sides, -1)
        if dropout and train and layer < num_layers - 1:
            output = F.dropout(output, dropout, True)
    return output, tuple(corten.stack(parts) for parts in zip(*finals))


def _named(weights, mode):
    """(w_ih, w_hh, b_ih, b_hh, w_hr) from the tensors a cell has."""
    rest = list(weights[2:])
    biases = (rest.pop(0), rest.pop(0)) if len(rest) >= 2 else (None, None)
    return weights[0], weights[1], *biases, rest[0] if rest else None


def _run_cell(mode, input, state, weights, backward, batch_sizes):
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    if batch_sizes is None and input.size(0) == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    in_one = mode in _SEQUENCES and w_hr is None and batch_sizes is None
    if in_one and _is_plain(input, *state, *(w for w in weights if w is not None)):
        return _SEQUENCES[mode](input, state, weights, backward)
    gates = F.linear(input, w_ih, b_ih)
    step = _STEPS[mode]
    if batch_sizes is None:
        pieces = gates.unbind(0)
        walk = _run_steps
    else:
        batch_sizes = batch_sizes.tolist()
        pieces = gates.split(batch_sizes)
        walk = _run_shrinking if not backward else _run_growing
    if backward:
        pieces = pieces[::-1]
    outputs, state = walk(mode, step, pieces, state, w_hh, b_hh, w_hr)
    if backward:
        outputs.reverse()
    joined = corten.stack(outputs) if batch_sizes is None else corten.cat(outputs)
    return joined, state


_SEQUENCE_DTYPES = {
    "cpu": (corten.float32, corten.float64),
    "cuda": (corten.float32, corten.float64, corten.float16, corten.bfloat16),
}


def _is_plain(*tensors):
    """Whether one operator can run a whole sequence of these."""
    dtype, device = tensors[0].dtype, tensors[0].device.type
    return (
        dtype in _SEQUENCE_DTYPES.get(device, ())
        and all(type(t) in (corten.Tensor, Parameter) for t in tensors)
        and all(t.dtype == dtype and t.device.type == device for t in tensors)
        and not _C._batch_levels() and not forward_ad._open
        and not corten.is_autocast_enabled(device)
    )


def _is_fused_step(gates, *tensors):
    """Whether a step is one operator: on GPUs, where every small operator is a launch."""
    return (
        gates.device.type == "cuda" and gates.dim() == 2
        and _is_plain(gates, *(t for t in tensors if t is not None))
    )


def _lstm_sequence(input, state, weights, backward):
    """All steps of long short-term memory at once."""
    w_ih, w_hh, b_ih, b_hh, _ = weights
    bias = None if b_ih is None else b_ih + b_hh
    tensors = (F.linear(input, w_ih, bias), *state, w_hh)
    outputs, c = _C._corten.lstm_sequence(*tensors, backward, _records(*tensors))[:2]
    return outputs, (outputs[0 if backward else -1], c)


def _gru_sequence(input, state, weights, backward):
    """All steps of gated recurrent units at once."""
    w_ih, w_hh, b_ih, b_hh, _ = weights
    tensors = (F.linear(input, w_ih, b_ih), *state, w_hh, b_hh)
    outputs = _C._corten.gru_sequence(*tensors, backward, _records(*tensors))[0]
    return outputs, (outputs[0 if backward else -1],)


def _records(*tensors):
    """Whether gradients will be asked for."""
    return corten.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


_SEQUENCES = {"LSTM": _lstm_sequence, "GRU": _gru_sequence}


def _advance(mode, step, gates, state, w_hh, b_hh, w_hr):
    if mode == "LSTM":
        return step(gates, state, w_hh, b_hh, w_hr)
    return (step(gates, state[0], w_hh, b_hh),)


def _run_steps(mode, step, pieces, state, w_hh, b_hh, w_hr):
    outputs = []
    for gates in pieces:
        state = _advance(mode, step, gates, state, w_hh, b_hh, w_hr)
        outputs.append(state[0])
    return outputs, state


def _run_shrinking(mode, step, pieces, state, w_hh, b_hh, w_hr):
    """Packed, forwards: sequences end one by one, the last of the batch first."""
    outputs, ended = [], []
    for gates in pieces:
        size = gates.size(0)
        if size < state[0].size(0):
            ended.append(tuple(s[size:] for s in state))
            state = tuple(s[:size] for s in state)
        state = _advance(mode, step, gates, state, w_hh, b_hh, w_hr)
        outputs.append(state[0])
    ended.append(state)
    return outputs, tuple(corten.cat(parts[::-1]) for parts in zip(*ended))


def _run_growing(mode, step, pieces, state, w_hh, b_hh, w_hr):
    """Packed, backwards: sequences join one by one with their initial states."""
    outputs, initial = [], state
    state = tuple(s[:pieces[0].size(0)] for s in initial)
    for gates in pieces:
        size, have = gates.size(0), state[0].size(0)
        if size > have:
            state = tuple(corten.cat([s, s0[have:size]]) for s, s0 in zip(state, initial))
        state = _advance(mode, step, gates, state, w_hh, b_hh, w_hr)
        outputs.append(state[0])
    return outputs, state
