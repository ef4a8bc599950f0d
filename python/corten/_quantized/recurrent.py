"""Recurrent networks over packed parameters: each product quantises its input by its range."""

from __future__ import annotations

import corten
from corten._quantized.linear import linear_dynamic
from corten._quantized.packed import ScriptObject, register


@register
class CellParamsBase(ScriptObject):
    """The weights of a cell: those of the input and of the hidden state."""

    _qualified_name = "__torch__.torch.classes.rnn.CellParamsBase"
    _methods = []

    def __init__(self, w_ih, w_hh, bias_ih=None, bias_hh=None, reduce_range=False):
        self.w_ih, self.w_hh, self.reduce_range = w_ih, w_hh, bool(reduce_range)
        self._biases = [bias_ih, bias_hh]

    @property
    def kind(self):
        """How pickles name it."""
        return "quantized_dynamic" if hasattr(self.w_ih, "onednn") else "quantized_fp16"

    def linear_ih(self, x):
        """The product of inputs."""
        return linear_dynamic(x, self.w_ih, self.reduce_range)

    def linear_hh(self, x):
        """The product of hidden states."""
        return linear_dynamic(x, self.w_hh, self.reduce_range)

    def _state(self):
        biases = self._biases if self.kind == "quantized_dynamic" else []
        numbers = [int(self.reduce_range)] if self.kind == "quantized_dynamic" else []
        return self.kind, biases, [], numbers, [self.w_ih, self.w_hh]

    def _restore(self, state):
        kind, tensors, _, numbers, packed = state
        if kind not in ("quantized_dynamic", "quantized_fp16"):
            raise RuntimeError(f"parameters of cells of type {kind!r} cannot be loaded")
        biases = tensors if len(tensors) == 2 else [None, None]
        self.__init__(*packed, *biases, bool(numbers and numbers[0]))


def make_quantized_cell_params_dynamic(w_ih, w_hh, bias_ih, bias_hh, reduce_range=False):
    """The parameters of a cell with weights of 8 bits."""
    return CellParamsBase(w_ih, w_hh, bias_ih, bias_hh, reduce_range)


def make_quantized_cell_params_fp16(w_ih, w_hh):
    """The parameters of a cell with weights of 16 bits."""
    return CellParamsBase(w_ih, w_hh)


def _lstm_step(gates_ih, state, params):
    h, c = state
    i, f, g, o = (params.linear_hh(h) + gates_ih).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(gates_ih, state, params):
    (h,) = state
    i_r, i_z, i_n = gates_ih.chunk(3, 1)
    h_r, h_z, h_n = params.linear_hh(h).chunk(3, 1)
    reset, update = (h_r + i_r).sigmoid(), (h_z + i_z).sigmoid()
    new = (h_n * reset + i_n).tanh()
    return ((h - new) * update + new,)


def _simple_step(function):
    def step(gates_ih, state, params):
        return (function(params.linear_hh(state[0]) + gates_ih),)

    return step


def quantized_lstm_cell_dynamic(input, hx, w_ih, w_hh, bias_ih, bias_hh):
    """A step of an LSTM."""
    params = CellParamsBase(w_ih, w_hh, bias_ih, bias_hh, True)
    return _lstm_step(params.linear_ih(input), tuple(hx), params)


def _cell(step):
    def cell(input, hx, w_ih, w_hh, b_ih, b_hh):
        """A step of a cell."""
        params = CellParamsBase(w_ih, w_hh, b_ih, b_hh, True)
        return step(params.linear_ih(input), (hx,), params)[0]

    return cell


quantized_gru_cell_dynamic = _cell(_gru_step)
quantized_rnn_relu_cell_dynamic = _cell(_simple_step(corten.relu))
quantized_rnn_tanh_cell_dynamic = _cell(_simple_step(corten.tanh))


def _direction(steps, state, params, step, backward):
    """All steps of a layer in a direction; a step has rows of its own where sequences differ in length."""
    outputs, whole = [None] * len(steps), state
    order = range(len(steps) - 1, -1, -1) if backward else range(len(steps))
    for t in order:
        count = steps[t].size(0)
        part = tuple(s[:count] for s in whole)
        part = step(steps[t], part, params)
        whole = tuple(corten.cat([p, s[count:]]) if count < s.size(0) else p for p, s in zip(part, whole))
        outputs[t] = part[0]
    return outputs, whole


def _layers(data, sizes, states, params, num_layers, dropout, train, bidirectional, step):
    """The rows of all steps, of which each has a size, through all layers."""
    directions = 2 if bidirectional else 1
    last = []
    for layer in range(num_layers):
        results = []
        for direction in range(directions):
            index = layer * directions + direction
            own = params[index]
            steps = list(own.linear_ih(data).split(sizes))
            outputs, end = _direction(steps, tuple(s[index] for s in states), own, step, direction == 1)
            results.append(corten.cat(outputs))
            last.append(end)
        data = corten.cat(results, 1) if directions == 2 else results[0]
        if dropout and train and layer + 1 < num_layers:
            data = corten.nn.functional.dropout(data, dropout)
    return data, tuple(corten.stack([end[i] for end in last]) for i in range(len(states)))


def _network(step, count):
    def network(input, *rest, **named):
        sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional, first = _arguments(rest, named)
        states = tuple(hx) if count > 1 else (hx,)
        if sizes is not None:
            data, last = _layers(
                input, sizes.tolist(), states, params, num_layers, dropout, train, bidirectional, step
            )
            return (data, *last)
        if input.dim() != 3:
            raise RuntimeError(f"Expected an input of 3 dimensions, but got {input.dim()}")
        steps = input.transpose(0, 1) if first else input
        length, batch = steps.shape[:2]
        flat = steps.reshape(length * batch, -1)
        data, last = _layers(
            flat, [batch] * length, states, params, num_layers, dropout, train, bidirectional, step
        )
        out = data.reshape(length, batch, -1)
        return (out.transpose(0, 1) if first else out, *last)

    return network


def _arguments(rest, named):
    """The arguments of either overload: of sequences side by side, and of packed sequences with their sizes."""
    rest, sizes = list(rest), named.pop("batch_sizes", None)
    is_packed = sizes is not None or (len(rest) > 1 and isinstance(rest[1], (corten.Tensor, tuple, list)) and (
        isinstance(rest[0], corten.Tensor) and rest[0].dtype is corten.int64
    ))
    if is_packed and sizes is None:
        sizes = rest.pop(0)
    names = ["hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional"]
    names += [] if is_packed else ["batch_first"]
    found = dict(zip(names, rest)) | named
    return (sizes, *(found.get(name, False) for name in names), *([False] if is_packed else []))


#: An LSTM: the outputs, and the hidden and cell states at the end.
quantized_lstm = _network(_lstm_step, 2)
#: A GRU: the outputs, and the hidden states at the end.
quantized_gru = _network(_gru_step, 1)
