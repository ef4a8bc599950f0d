"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, inputs of the user,
results, and values that are written back."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind",
    "InputSpec", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument",
    "TensorArgument", "TokenArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """A token that orders side effects, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """An integer that is not known, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A float that is not known, by the name of its node."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A truth value that is not known, by the name of its node."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a custom class, by the name of its node."""

    name: str
    class_fqn: str
    fake_val: typing.Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that is the same in every call."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument, ConstantArgument, CustomObjArgument,
    TokenArgument,
)
_NAMED = tuple(kind for kind in ArgumentSpec if kind is not ConstantArgument)


class InputKind(enum.Enum):
    """What an input is."""

    USER_INPUT = 1
    PARAMETER = 2
    BUFFER = 3
    CONSTANT_TENSOR = 4
    CUSTOM_OBJ = 5
    TOKEN = 6


@dataclasses.dataclass
class InputSpec:
    """An input: its kind, its node, and what it is called in the module."""

    kind: InputKind
    arg: typing.Any
    target: str | None
    persistent: bool | None = None

    def __post_init__(self):
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")
        if not isinstance(self.arg, ArgumentSpec):
            raise AssertionError(f"expected valid arg type, got {type(self.arg)}")

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


class OutputKind(enum.Enum):
    """What an output is."""

    USER_OUTPUT = 1
    LOSS_OUTPUT = 2
    BUFFER_MUTATION = 3
    PARAMETER_MUTATION = 4
    GRADIENT_TO_PARAMETER = 5
    GRADIENT_TO_USER_INPUT = 6
    USER_INPUT_MUTATION = 7
    TOKEN = 8


@dataclasses.dataclass
class OutputSpec:
    """An output: its kind, its node, and what it is written to."""

    kind: OutputKind
    arg: typing.Any
    target: str | None

    def __post_init__(self):
        if not isinstance(self.arg, ArgumentSpec):
            raise AssertionError(f"expected valid arg type, got {self.arg}")

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """Which outputs are gradients, and of what."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


def _value(arg):
    """What stands for an input or output of the user: the name of its node, or the constant."""
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs of an exported graph, in the order of its placeholders and results."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind):
        return tuple(
            spec.target for spec in self.input_specs if spec.kind == kind and isinstance(spec.target, str)
        )

    def _inputs(self, kind):
        return types.MappingProxyType({
            spec.arg.name: spec.target for spec in self.input_specs
            if spec.kind == kind and isinstance(spec.target, str)
        })

    def _outputs(self, kind):
        return types.MappingProxyType({
            spec.arg.name: spec.target for spec in self.output_specs
            if spec.kind == kind and isinstance(spec.target, str)
        })

    @property
    def parameters(self):
        """The names of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self):
        """The names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self):
        """The names of the buffers that are no part of the state."""
        return tuple(
            spec.target for spec in self.input_specs
            if spec.kind == InputKind.BUFFER and spec.persistent is False
        )

    @property
    def lifted_tensor_constants(self):
        """The names of the tensors that were constants."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self):
        """The names of the objects of custom classes."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self):
        """The user's inputs: names of nodes, and constants."""
        return tuple(
            _value(spec.arg) for spec in self.input_specs
            if spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, ArgumentSpec)
        )

    @property
    def user_outputs(self):
        """The results: names of nodes, and constants."""
        wanted = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_value(spec.arg) for spec in self.output_specs if spec.kind in wanted)

    @property
    def inputs_to_parameters(self):
        """The parameter of a placeholder, by its name."""
        return self._inputs(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self):
        """The buffer of a placeholder, by its name."""
        return self._inputs(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self):
        """The constant of a placeholder, by its name."""
        return self._inputs(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self):
        """The object of a placeholder, by its name."""
        return self._inputs(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self):
        """The buffer that a result is written to, by the name of the result."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self):
        """The parameter that a result is written to, by the name of the result."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self):
        """The user's input that a result is written to, by the name of the result."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self):
        """Which outputs are gradients, or None."""
        losses = [spec.arg.name for spec in self.output_specs if spec.kind == OutputKind.LOSS_OUTPUT]
        if len(losses) > 1:
            raise AssertionError("multiple LOSS_OUTPUT specs found")
        if not losses:
            return None
        return ExportBackwardSignature(
            gradients_to_parameters=dict(self._outputs(OutputKind.GRADIENT_TO_PARAMETER)),
            gradients_to_user_inputs=dict(self._outputs(OutputKind.GRADIENT_TO_USER_INPUT)),
            loss_output=losses[0],
        )

    @property
    def assertion_dep_token(self):
        """The output that orders assertions: None."""
        return None

    @property
    def input_tokens(self):
        """The names of the tokens among the inputs."""
        return tuple(spec.arg.name for spec in self.input_specs if spec.kind == InputKind.TOKEN)

    @property
    def output_tokens(self):
        """The names of the tokens among the outputs."""
        return tuple(spec.arg.name for spec in self.output_specs if spec.kind == OutputKind.TOKEN)

    def replace_all_uses(self, old, new):
        """Gives what has the name ``old`` another one."""
        for name, given in (("old", old), ("new", new)):
            if not isinstance(given, str):
                raise AssertionError(f"expected {name} to be str, got {type(given)}")
        for spec in (*self.output_specs, *self.input_specs):
            if isinstance(spec.arg, _NAMED) and spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs=False):
        """A function for graphs whose nodes are replaced, which follows their names."""

        def follow(old, new, user):
            if user.op == "output" or replace_inputs and old.op == "placeholder":
                self.replace_all_uses(old.name, new)

        return follow

    def __str__(self):
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
