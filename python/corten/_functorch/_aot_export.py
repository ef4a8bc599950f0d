"""Graphs of modules for export: parameters and buffers are inputs, and a signature says which."""

from __future__ import annotations

import dataclasses
from typing import Any

import corten
from corten.utils import _pytree as pytree

from ._aot_capture import (
    _traced, analyse, capture_forward, capture_joint, fake_inputs, fake_mode_of, note_forward,
    with_trees, with_visible_writes,
)

__all__ = ["BackwardSignature", "GraphSignature", "aot_export_joint_simple", "aot_export_module"]


@dataclasses.dataclass
class BackwardSignature:
    """Which outputs are gradients."""

    gradients_to_parameters: dict
    gradients_to_user_inputs: dict
    loss_output: str


@dataclasses.dataclass
class GraphSignature:
    """What the inputs and outputs of a graph are."""

    parameters: list
    buffers: list
    user_inputs: list
    user_outputs: list
    inputs_to_parameters: dict
    inputs_to_buffers: dict
    buffers_to_mutate: dict
    parameters_to_mutate: dict
    user_inputs_to_mutate: dict
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None = None
    input_tokens: list = dataclasses.field(default_factory=list)
    output_tokens: list = dataclasses.field(default_factory=list)


def _signature(module, mod, facts, count, in_spec):
    parameters = [name for name, _ in mod.named_parameters(remove_duplicate=False)]
    buffers = [name for name, _ in mod.named_buffers(remove_duplicate=False)]
    inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    outputs = [getattr(value, "name", value) for value in module.graph.output_node().args[0]]
    state = dict(zip(inputs, parameters + buffers))
    mutated = {outputs[place]: state.get(inputs[one], inputs[one]) for place, one in enumerate(facts.mutated)}
    first = len(facts.mutated)
    return GraphSignature(
        parameters, buffers, inputs[len(parameters) + len(buffers):], outputs[first:first + count],
        dict(zip(inputs, parameters)), dict(zip(inputs[len(parameters):], buffers)),
        {key: name for key, name in mutated.items() if name in buffers},
        {key: name for key, name in mutated.items() if name in parameters},
        {key: name for key, name in mutated.items() if name not in buffers and name not in parameters},
        in_spec, facts.out_spec,
    )


def _flat(mod, spec, names):
    def call(*values):
        state, given = values[:len(names)], values[len(names):]
        args, kwargs = pytree.tree_unflatten(list(given), spec)
        return corten.func.functional_call(mod, dict(zip(names, state)), args, kwargs)

    return call


def aot_export_module(mod, args, *, decompositions=None, trace_joint, output_loss_index=None, pre_dispatch=False,
                      dynamic_shapes=None, kwargs=None):
    """The graph of a module without writes, and its signature. With ``trace_joint`` the gradients of the output
    ``output_loss_index`` are outputs, too.

    Raises:
        RuntimeError: There is no such output, or it is no scalar that requires a gradient.
    """
    state = {**dict(mod.named_parameters(remove_duplicate=False)), **dict(mod.named_buffers(remove_duplicate=False))}
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    flat = with_visible_writes(_flat(mod, spec, list(state)))
    values = [*state.values(), *leaves]
    mode = fake_mode_of(values)
    fakes = fake_inputs(mode, values)
    in_spec = pytree.tree_structure((tuple(values), {}))
    if not trace_joint:
        with corten.no_grad():
            facts = analyse(flat, mode, fakes)
            captured = capture_forward(flat, mode, fakes, facts, decompositions)
        return captured.module, _signature(captured.module, mod, facts, len(facts.outputs), in_spec)
    return _joint(mod, flat, mode, fakes, decompositions, output_loss_index, in_spec)


def _joint(mod, flat, mode, fakes, table, loss, in_spec):
    facts = analyse(flat, mode, fakes)
    if loss is None:
        raise RuntimeError("If trace_joint=Trueit is required that one of your forward outputs must be a scalar loss."
                           "You must specify the which (index) output is the loss with output_loss_index.")
    count = len(facts.outputs)
    if not (0 <= loss < count and facts.requires_grad[loss] and facts.outputs[loss].numel() == 1):
        raise RuntimeError(f"Expected the output with index {loss} to be a scalar loss that requires a gradient")

    def with_gradients(*values):
        with corten.enable_grad():
            outputs = pytree.tree_leaves(flat(*values))
            note_forward()
            targets = [one for one in values if isinstance(one, corten.Tensor) and one.requires_grad]
            grads = corten.autograd.grad([outputs[loss]], targets, allow_unused=True)
        return [*(one.detach() if place != loss and isinstance(one, corten.Tensor) and one.requires_grad else one
                  for place, one in enumerate(outputs)), *grads]

    def forward(*values):
        made = with_gradients(*values)
        return [*(values[place] for place in facts.mutated), *made]

    module = _traced(forward, fakes, table, mode)
    signature = _signature(module, mod, facts, count, in_spec)
    outputs = [getattr(value, "name", value) for value in module.graph.output_node().args[0]]
    grads = outputs[len(facts.mutated) + count:]
    places = [place for place, one in enumerate(fakes) if isinstance(one, corten.Tensor) and one.requires_grad]
    inputs = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    names = signature.parameters + signature.buffers
    of_parameters = {grad: names[place] for grad, place in zip(grads, places) if place < len(names)}
    of_inputs = {grad: inputs[place] for grad, place in zip(grads, places) if place >= len(names)}
    signature.backward_signature = BackwardSignature(of_parameters, of_inputs, outputs[len(facts.mutated) + loss])
    return module, signature


def aot_export_joint_simple(func, args, *, trace_joint, num_params_buffers=0, decompositions=None):
    """The graph of a function, or of it and its backward pass, of arguments that are tensors.

    Raises:
        RuntimeError: The function writes to its arguments.
    """
    mode = fake_mode_of(args)
    fakes = fake_inputs(mode, list(args))
    facts = analyse(func, mode, fakes)
    if facts.mutated:
        raise RuntimeError("aot_export_joint_simple does not support input mutations.")
    if not trace_joint:
        return capture_forward(func, mode, fakes, facts, decompositions).module
    return with_trees(capture_joint(func, mode, fakes, facts, decompositions).module)
