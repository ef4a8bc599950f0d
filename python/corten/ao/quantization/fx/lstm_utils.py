"""Recurrent layers whose parts are observed by observers of their own."""

from __future__ import annotations

import copy
import operator

import corten
import corten.ao.nn.quantizable as quantizable
import corten.ao.nn.quantized as nnq
from corten.ao.nn.quantizable.modules.rnn import _LSTMLayer
from corten.fx import GraphModule

from ..fake_quantize import FakeQuantizeBase, default_weight_fake_quant
from ..observer import default_weight_observer
from ..qconfig import QConfig
from ..qconfig_mapping import QConfigMapping


def _qconfig(constructor):
    trained = isinstance(constructor(), FakeQuantizeBase)
    return QConfig(constructor, default_weight_fake_quant if trained else default_weight_observer)


def _replace_observers(cell, constructors):
    """Replaces the observers of the sums and products of a cell, by kind and place."""
    places = {corten.add: 0, corten.mul: 0}
    for node in cell.graph.nodes:
        if node.target not in places:
            continue
        place = (node.target, places[node.target])
        places[node.target] += 1
        if place not in constructors:
            continue
        if len(node.users) != 1:
            raise AssertionError("expected exactly one user for the node")
        if constructors[place] is not None:
            setattr(cell, next(iter(node.users)).name, constructors[place]())


def _get_lstm_with_individually_observed_parts(
    float_lstm, example_inputs, backend_config=None, linear_output_obs_ctr=None, sigmoid_obs_ctr=None,
    tanh_obs_ctr=None, cell_state_obs_ctr=None, hidden_state_obs_ctr=None, split_gates=False,
):
    """An observed recurrent layer with these observers in its cells; None keeps those of its ``qconfig``."""
    from ..quantize_fx import prepare_fx

    lstm = quantizable.LSTM(
        float_lstm.input_size, float_lstm.hidden_size, float_lstm.num_layers, float_lstm.bias,
        float_lstm.batch_first, float_lstm.dropout, float_lstm.bidirectional, split_gates=split_gates,
    )
    lstm.qconfig = float_lstm.qconfig
    for index in range(float_lstm.num_layers):
        lstm.layers[index] = _LSTMLayer.from_float(
            float_lstm, index, float_lstm.qconfig, batch_first=False, split_gates=split_gates
        )
    mapping = QConfigMapping().set_global(float_lstm.qconfig)
    if sigmoid_obs_ctr is not None:
        for gate in ("input_gate", "forget_gate", "output_gate"):
            mapping.set_module_name(gate, _qconfig(sigmoid_obs_ctr))
    if tanh_obs_ctr is not None:
        mapping.set_module_name("cell_gate", _qconfig(tanh_obs_ctr))
    # The sums of the gates, one or four, come first.
    sums = 4 if split_gates else 1
    constructors = {
        **{(corten.add, place): linear_output_obs_ctr for place in range(sums)},
        (corten.mul, 0): cell_state_obs_ctr, (corten.mul, 1): cell_state_obs_ctr,
        (corten.add, sums): cell_state_obs_ctr, (corten.mul, 2): hidden_state_obs_ctr,
    }
    for layer in lstm.layers:
        cell = prepare_fx(layer.layer_fw.cell, mapping, example_inputs, backend_config=backend_config)
        _replace_observers(cell, constructors)
        layer.layer_fw.cell = cell
    return lstm


def _without_ends(cell):
    """Removes what quantises a cell's inputs and dequantises its outputs: the layer passes quantised values."""
    for node in cell.graph.nodes:
        if node.target is corten.quantize_per_tensor:
            arg = node.args[0]
            hidden = arg.target is operator.getitem and arg.args[0].target == "hidden"
            if arg.target == "x" or hidden:
                node.replace_all_uses_with(arg)
                cell.graph.erase_node(node)
        elif node.target == "output":
            for arg in node.args[0]:
                node.replace_input_with(arg, arg.args[0])
    cell.graph.eliminate_dead_code()
    cell.recompile()


def _get_reference_quantized_lstm_module(observed_lstm, backend_config=None):
    """A quantised recurrent layer whose cells are reference graphs."""
    from ..quantize_fx import convert_to_reference_fx

    lstm = nnq.LSTM(
        observed_lstm.input_size, observed_lstm.hidden_size, observed_lstm.num_layers, observed_lstm.bias,
        observed_lstm.batch_first, observed_lstm.dropout, observed_lstm.bidirectional,
    )
    for index, layer in enumerate(lstm.layers):
        cell = copy.deepcopy(observed_lstm.layers.get_submodule(str(index)).layer_fw.cell)
        cell = convert_to_reference_fx(cell, backend_config=backend_config)
        if not isinstance(cell, GraphModule):
            raise AssertionError("cell must be converted to a torch.fx.GraphModule")
        _without_ends(cell)
        layer.layer_fw.cell = cell
    return lstm
