"""Checks of exported programs."""

from __future__ import annotations

import operator

import corten
from corten import ops
from corten.export.graph_signature import (
    ConstantArgument, CustomObjArgument, InputKind, OutputKind, SymBoolArgument, SymFloatArgument, SymIntArgument,
    TensorArgument, TokenArgument,
)
from corten.fx import GraphModule

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]

_NAMED = (TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument, CustomObjArgument, TokenArgument)


class SpecViolationError(Exception):
    """A program and its signature do not agree."""


class Verifier:
    """Checks a program: which operators it calls, and that its signature names its inputs and outputs."""

    dialect = "ATEN"
    _registry = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Verifier._registry[cls.dialect] = cls

    def allowed_builtin_ops(self):
        """Functions of Python that a program may call."""
        return [
            operator.getitem, operator.add, operator.mul, operator.sub, operator.truediv, operator.ge, operator.le,
            operator.gt, operator.lt, operator.eq, operator.ne, operator.floordiv, operator.mod, operator.and_,
            operator.or_, operator.not_, operator.pow, operator.neg, operator.abs,
        ]

    def allowed_op_types(self):
        """The classes of operators that a program may call."""
        from corten._ops import HigherOrderOperator, OpOverload

        return (OpOverload, HigherOrderOperator)

    def check_valid_op(self, op):
        """Whether more than a class of operators is asked for; nothing here."""

    def check_additional(self, gm):
        """Checks of derived classes."""

    def check(self, ep):
        """Checks a program.

        Raises:
            SpecViolationError: Something is wrong with it.
        """
        self._check_graph_module(ep.graph_module)
        _verify_signature(ep)

    def __call__(self, *args, **kwargs):
        return self._check_graph_module(*args, **kwargs)

    def _check_graph_module(self, gm):
        for module in gm.modules():
            if isinstance(module, GraphModule):
                module.graph.lint()
                for node in module.graph.nodes:
                    self._check_node(module, node)
        self.check_additional(gm)

    def _check_node(self, module, node):
        if node.op in ("call_module", "call_method"):
            raise SpecViolationError(f"call_module is not valid: got a class '{node.target}' ")
        if node.op == "call_function":
            target = node.target
            if isinstance(target, self.allowed_op_types()) or target in self.allowed_builtin_ops():
                self.check_valid_op(target)
                return
            if target in (corten.sym_not, corten.sym_int, corten.sym_float, corten.sym_max, corten.sym_min):
                return
            raise SpecViolationError(
                f"Operator '{target}' is not an allowed operator type: {self.allowed_op_types()}\n"
                f"Valid builtin ops: {self.allowed_builtin_ops()}"
            )
        if node.op == "get_attr":
            value = module
            for part in node.target.split("."):
                value = getattr(value, part)
            if not isinstance(value, (corten.nn.Module, corten.Tensor)):
                raise SpecViolationError(f"Invalid get_attr type {type(value)} on target {node.target}. \n")


class TrainingIRVerifier(Verifier):
    """Checks programs that have gradients among their results."""

    dialect = "TRAINING"


Verifier._registry["ATEN"] = Verifier


def _verify_signature(ep):
    signature = ep.graph_signature
    placeholders = [node.name for node in ep.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(signature.input_specs):
        raise SpecViolationError(
            f"Number of graph inputs ({len(placeholders)}) does not match number of inputs in the graph signature "
            f"({len(signature.input_specs)})"
        )
    for spec, name in zip(signature.input_specs, placeholders):
        if isinstance(spec.arg, _NAMED) and spec.arg.name != name:
            raise SpecViolationError(
                f"Input spec {spec} does not match name of placeholder {name}"
            )
        _verify_input(ep, spec)
    _verify_outputs(ep, signature)


def _verify_input(ep, spec):
    if spec.kind == InputKind.PARAMETER:
        if spec.target not in ep.state_dict:
            raise SpecViolationError(f"Parameter {spec.target} is not in the state dict.")
        if not isinstance(ep.state_dict[spec.target], corten.nn.Parameter):
            raise SpecViolationError(
                f"State dict entry for parameter {spec.target} is not an instance of torch.nn.Parameter."
            )
    elif spec.kind == InputKind.BUFFER:
        if spec.persistent and spec.target not in ep.state_dict:
            raise SpecViolationError(f"Buffer {spec.target} is not in the state dict.")
        if spec.persistent is False and spec.target in ep.state_dict:
            raise SpecViolationError(
                f"Non-persistent buffer {spec.target} is in the state dict, it should not be."
            )
    elif spec.kind in (InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ) and spec.target not in ep.constants:
        raise SpecViolationError(f"Constant tensor {spec.target} is not in the constants dictionary.")


def _verify_outputs(ep, signature):
    outputs = ep.graph.output_node().args[0]
    if len(outputs) != len(signature.output_specs):
        raise SpecViolationError(
            f"Number of output nodes {len(outputs)} is different Than the number of outputs specified by the graph "
            f"signature: {len(signature.output_specs)}"
        )
    targets = {
        OutputKind.BUFFER_MUTATION: set(signature.buffers), OutputKind.PARAMETER_MUTATION: set(signature.parameters),
        OutputKind.USER_INPUT_MUTATION: set(signature.user_inputs),
    }
    for spec, node in zip(signature.output_specs, outputs):
        if not isinstance(spec.arg, ConstantArgument) and spec.arg.name != getattr(node, "name", None):
            raise SpecViolationError(f"Output spec {spec} does not match the output {node}")
        if spec.kind in targets and spec.target not in targets[spec.kind]:
            raise SpecViolationError(
                f"{spec.kind.name} output {spec.arg.name} writes to {spec.target}, which is no input of its kind. "
            )


def load_verifier(dialect):
    """The verifier of a set of operators; None where there is none of that name."""
    return Verifier if dialect in ("ATEN", "") else Verifier._registry.get(dialect)
