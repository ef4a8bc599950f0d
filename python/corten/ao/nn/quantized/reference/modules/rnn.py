"""Reference recurrent networks."""

from __future__ import annotations

import corten
from corten import _VF, nn

from .utils import _quantize_and_dequantize_weight, _quantize_weight, as_buffer, usual_qparams

__all__ = ["RNNCellBase", "RNNCell", "LSTMCell", "GRUCell", "RNNBase", "LSTM", "GRU", "get_quantized_weight"]


def _weight_and_parameters(module, name):
    """A weight and what it is quantized with, None where the module has no such attribute."""
    ends = ("_qscheme", "_dtype", "_scale", "_zero_point", "_axis_int")
    return (getattr(module, name), *(getattr(module, name + end, None) for end in ends))


def get_quantized_weight(module, wn):
    """A module's weight of that name as a quantized tensor, or None where there is none."""
    return _quantize_weight(*_weight_and_parameters(module, wn)) if hasattr(module, wn) else None


def _rounded_weight(module, name):
    """The values that the quantized weight has, as floats."""
    if not hasattr(module, name):
        return None
    return _quantize_and_dequantize_weight(*_weight_and_parameters(module, name))


class _ReferenceWeights:
    """The parameters that the weights of a recurrent module would be quantized with."""

    def _init_weight_qparams_dict(self, weight_qparams_dict, device):
        if weight_qparams_dict is None:
            raise AssertionError("weight_qparams_dict must not be None")
        self.is_decomposed = weight_qparams_dict["is_decomposed"]
        for name, qparams in weight_qparams_dict.items():
            if name != "is_decomposed":
                self._set_qparams(name, qparams, device)

    def _set_qparams(self, name, qparams, device):
        scheme = qparams["qscheme"]
        setattr(self, f"{name}_qscheme", scheme)
        setattr(self, f"{name}_dtype", qparams["dtype"])
        if scheme not in (None, corten.per_tensor_affine, corten.per_channel_affine):
            raise AssertionError(f"qscheme: {scheme} is not supported in {self._get_name()}")
        if scheme is None:
            return
        axis = qparams["axis"] if scheme == corten.per_channel_affine else 0
        self.register_buffer(f"{name}_scale", as_buffer(qparams["scale"], corten.float, device))
        self.register_buffer(f"{name}_zero_point", as_buffer(qparams["zero_point"], corten.int, device))
        self.register_buffer(f"{name}_axis", as_buffer(axis, corten.int, device))
        setattr(self, f"{name}_axis_int", getattr(self, f"{name}_axis").item())


class RNNCellBase(_ReferenceWeights, nn.RNNCellBase):
    """One step with weights that are quantized and dequantized."""

    def __init__(
        self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None, weight_qparams_dict=None
    ):
        super().__init__(input_size, hidden_size, bias, num_chunks, device=device, dtype=dtype)
        if weight_qparams_dict is None:
            usual = usual_qparams()
            weight_qparams_dict = {"weight_ih": usual, "weight_hh": usual, "is_decomposed": False}
        if len(weight_qparams_dict) != 3:
            raise AssertionError(
                "Expected length for weight_qparams_dict to be 3 for QuantizedRNNCellBase(Reference), got "
                f"{len(weight_qparams_dict)}"
            )
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    def _get_name(self):
        return "QuantizedRNNCellBase(Reference)"

    def get_quantized_weight_ih(self):
        """The weight of inputs as a quantized tensor."""
        return get_quantized_weight(self, "weight_ih")

    def get_quantized_weight_hh(self):
        """The weight of states as a quantized tensor."""
        return get_quantized_weight(self, "weight_hh")

    def get_weight_ih(self):
        """The values that the quantized weight of inputs has."""
        return _rounded_weight(self, "weight_ih")

    def get_weight_hh(self):
        """The values that the quantized weight of states has."""
        return _rounded_weight(self, "weight_hh")

    def _step(self, name, input, hx):
        """The states after an input, with or without a dimension for samples, by the cell of that name."""
        if input.dim() not in (1, 2):
            raise AssertionError(
                f"{type(self).__name__}: Expected input to be 1-D or 2-D but received {input.dim()}-D tensor"
            )
        single = input.dim() == 1
        input = input.unsqueeze(0) if single else input
        if hx is None:
            zeros = corten.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (zeros, zeros) if name == "lstm" else zeros
        elif single:
            hx = tuple(state.unsqueeze(0) for state in hx) if name == "lstm" else hx.unsqueeze(0)
        cell = getattr(_VF, f"{name}_cell")
        result = cell(input, hx, self.get_weight_ih(), self.get_weight_hh(), self.bias_ih, self.bias_hh)
        if not single:
            return result
        return tuple(state.squeeze(0) for state in result) if name == "lstm" else result.squeeze(0)

    @classmethod
    def _settings(cls, mod):
        return (mod.input_size, mod.hidden_size, mod.bias)

    @classmethod
    def from_float(cls, mod, weight_qparams_dict, use_precomputed_fake_quant=False):
        """The module of a float one; parameters are shared."""
        weight = mod.weight_ih
        made = cls(*cls._settings(mod), weight.device, weight.dtype, weight_qparams_dict)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(made, name, getattr(mod, name))
        return made


class RNNCell(RNNCellBase):
    """One step of an Elman network with weights that are quantized and dequantized."""

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None,
        weight_qparams_dict=None,
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype, weight_qparams_dict)
        self.nonlinearity = nonlinearity

    def _get_name(self):
        return "QuantizedRNNCell(Reference)"

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}", input, hx)

    @classmethod
    def _settings(cls, mod):
        return (mod.input_size, mod.hidden_size, mod.bias, mod.nonlinearity)


class LSTMCell(RNNCellBase):
    """One step of long short-term memory with weights that are quantized and dequantized."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None, weight_qparams_dict=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype, weight_qparams_dict)

    def _get_name(self):
        return "QuantizedLSTMCell(Reference)"

    def forward(self, input, hx=None):
        return self._step("lstm", input, hx)


class GRUCell(RNNCellBase):
    """One step of gated recurrent units with weights that are quantized and dequantized."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None, weight_qparams_dict=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype, weight_qparams_dict)

    def _get_name(self):
        return "QuantizedGRUCell(Reference)"

    def forward(self, input, hx=None):
        return self._step("gru", input, hx)


class RNNBase(_ReferenceWeights, nn.RNNBase):
    """Layers of cells with weights that are quantized and dequantized."""

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0, device=None, dtype=None, weight_qparams_dict=None,
    ):
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device,
            dtype,
        )
        if weight_qparams_dict is None:
            names = [name for name in self._flat_weights_names if name.startswith("weight")]
            weight_qparams_dict = {"is_decomposed": False, **{name: usual_qparams() for name in names}}
        self._init_weight_qparams_dict(weight_qparams_dict, device)

    @property
    def _flat_weights(self):
        return self.get_flat_weights()

    def get_flat_weights(self):
        """The parameters as the float operator takes them, with the values that quantized weights have."""
        return [
            _rounded_weight(self, name) if name.startswith("weight") else getattr(self, name, None)
            for name in self._flat_weights_names
        ]

    def get_quantized_weight_bias_dict(self):
        """Quantized weights and float biases by name."""
        return {
            name: get_quantized_weight(self, name) if name.startswith("weight") else getattr(self, name, None)
            for name in self._flat_weights_names
        }

    @classmethod
    def from_float(cls, mod, weight_qparams_dict):
        """The module of a float one; parameters are shared."""
        made = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, weight_qparams_dict=weight_qparams_dict,
        )
        for name in mod._flat_weights_names:
            setattr(made, name, getattr(mod, name))
        return made


class LSTM(RNNBase):
    """Long short-term memory with weights that are quantized and dequantized."""

    _state_widths = nn.LSTM._state_widths
    _packed_states = nn.LSTM._packed_states
    _given_states = nn.LSTM._given_states

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def _get_name(self):
        return "QuantizedLSTM(Reference)"


class GRU(RNNBase):
    """Gated recurrent units with weights that are quantized and dequantized."""

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def _get_name(self):
        return "QuantizedGRU(Reference)"
