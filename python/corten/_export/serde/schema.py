"""The classes that exported programs are written as, in the version of PyTorch's schema that is written here."""

from __future__ import annotations

import dataclasses
import enum

__all__ = ["SCHEMA_VERSION", "TREESPEC_VERSION"]

SCHEMA_VERSION = (8, 20)
TREESPEC_VERSION = 1


class ScalarType(enum.IntEnum):
    """Dtypes by number."""

    UNKNOWN = 0
    BYTE = 1
    CHAR = 2
    SHORT = 3
    INT = 4
    LONG = 5
    HALF = 6
    FLOAT = 7
    DOUBLE = 8
    COMPLEXHALF = 9
    COMPLEXFLOAT = 10
    COMPLEXDOUBLE = 11
    BOOL = 12
    BFLOAT16 = 13
    UINT16 = 28
    FLOAT8E4M3FN = 29
    FLOAT8E5M2 = 30
    FLOAT8E4M3FNUZ = 31
    FLOAT8E5M2FNUZ = 32
    FLOAT8E8M0FNU = 33
    UINT32 = 34
    UINT64 = 35


class Layout(enum.IntEnum):
    """Layouts by number."""

    Unknown = 0
    SparseCoo = 1
    SparseCsr = 2
    SparseCsc = 3
    SparseBsr = 4
    SparseBsc = 5
    _mkldnn = 6
    Strided = 7


class MemoryFormat(enum.IntEnum):
    """Memory formats by number."""

    Unknown = 0
    ContiguousFormat = 1
    ChannelsLast = 2
    ChannelsLast3d = 3
    PreserveFormat = 4


class ArgumentKind(enum.IntEnum):
    """How an argument is given."""

    UNKNOWN = 0
    POSITIONAL = 1
    KEYWORD = 2


class Union:
    """One of several values, by the name of the field that is set."""

    _fields = {}

    @classmethod
    def create(cls, **kwargs):
        """An instance with one field."""
        if len(kwargs) != 1:
            raise AssertionError(f"expected exactly 1 kwarg, got {len(kwargs)}")
        made = cls.__new__(cls)
        ((made.type, made.value),) = kwargs.items()
        if made.type not in cls._fields:
            raise AssertionError(f"{made.type} is not a valid tag for {cls.__name__}")
        return made

    def __getattr__(self, name):
        if name == self.__dict__.get("type"):
            return self.value
        raise AttributeError(f"Field {name} is not set.")

    def __eq__(self, other):
        return isinstance(other, Union) and self.type == other.type and self.value == other.value

    def __repr__(self):
        return f"{type(self).__name__}({self.type}={self.value})"

    __hash__ = None


#: Fields with their types: ``T?`` may be missing, ``[T]`` is a list and ``{T}`` a dictionary by name. A default
#: stands behind ``=``.
_CLASSES = {
    "Device": "type:str index:int?=None",
    "SymExpr": "expr_str:str hint:SymExprHint?=None",
    "TensorMeta": "dtype:ScalarType sizes:[SymInt] requires_grad:bool device:Device strides:[SymInt] "
                  "storage_offset:SymInt layout:Layout",
    "TensorArgument": "name:str", "TokenArgument": "name:str",
    "GraphArgument": "name:str graph:Graph", "CustomObjArgument": "name:str class_fqn:str",
    "ComplexValue": "real:float imag:float",
    "NamedArgument": "name:str arg:Argument kind:ArgumentKind?=None",
    "Node": "target:str inputs:[NamedArgument] outputs:[Argument] metadata:{str} "
            "is_hop_single_tensor_return:bool?=None name:str?=None",
    "Graph": "inputs:[Argument] outputs:[Argument] nodes:[Node] tensor_values:{TensorMeta} sym_int_values:{SymInt} "
             "sym_bool_values:{SymBool} is_single_tensor_return:bool=False custom_obj_values:{CustomObjArgument}={} "
             "sym_float_values:{SymFloat}={}",
    "UserInputSpec": "arg:Argument", "InputToConstantInputSpec": "name:str value:ConstantValue",
    "InputToParameterSpec": "arg:TensorArgument parameter_name:str",
    "InputToBufferSpec": "arg:TensorArgument buffer_name:str persistent:bool",
    "InputToTensorConstantSpec": "arg:TensorArgument tensor_constant_name:str",
    "InputToCustomObjSpec": "arg:CustomObjArgument custom_obj_name:str", "InputTokenSpec": "arg:TokenArgument",
    "UserOutputSpec": "arg:Argument", "LossOutputSpec": "arg:TensorArgument",
    "BufferMutationSpec": "arg:TensorArgument buffer_name:str",
    "ParameterMutationSpec": "arg:TensorArgument parameter_name:str",
    "GradientToParameterSpec": "arg:TensorArgument parameter_name:str",
    "GradientToUserInputSpec": "arg:TensorArgument user_input_name:str",
    "UserInputMutationSpec": "arg:TensorArgument user_input_name:str", "OutputTokenSpec": "arg:TokenArgument",
    "GraphSignature": "input_specs:[InputSpec] output_specs:[OutputSpec]",
    "RangeConstraint": "min_val:int? max_val:int?",
    "ModuleCallSignature": "inputs:[Argument] outputs:[Argument] in_spec:str out_spec:str "
                           "forward_arg_names:[str]?=None",
    "ModuleCallEntry": "fqn:str signature:ModuleCallSignature?=None", "NamedTupleDef": "field_names:[str]",
    "GraphModule": "graph:Graph signature:GraphSignature module_call_graph:[ModuleCallEntry] metadata:{str}={} "
                   "treespec_namedtuple_fields:{NamedTupleDef}={}",
    "SchemaVersion": "major:int minor:int",
    "ExportedProgram": "graph_module:GraphModule opset_version:{int} range_constraints:{RangeConstraint} "
                       "schema_version:SchemaVersion verifiers:[str]=[] torch_version:str=<=2.4 guards_code:[str]=[]",
    "PayloadMeta": "path_name:str is_param:bool use_pickle:bool tensor_meta:TensorMeta?",
    "PayloadConfig": "config:{PayloadMeta}",
}

_UNIONS = {
    "SymExprHint": "as_int:int as_bool:bool as_float:float",
    "SymInt": "as_expr:SymExpr as_int:int", "SymFloat": "as_expr:SymExpr as_float:float",
    "SymBool": "as_expr:SymExpr as_bool:bool", "SymIntArgument": "as_name:str as_int:int",
    "SymFloatArgument": "as_name:str as_float:float", "SymBoolArgument": "as_name:str as_bool:bool",
    "OptionalTensorArgument": "as_tensor:TensorArgument as_none:bool",
    "Argument": "as_none:bool as_tensor:TensorArgument as_tensors:[TensorArgument] as_int:int as_ints:[int] "
                "as_float:float as_floats:[float] as_string:str as_strings:[str] as_sym_int:SymIntArgument "
                "as_sym_ints:[SymIntArgument] as_scalar_type:ScalarType as_memory_format:MemoryFormat "
                "as_layout:Layout as_device:Device as_bool:bool as_bools:[bool] as_sym_bool:SymBoolArgument "
                "as_sym_bools:[SymBoolArgument] as_graph:GraphArgument as_optional_tensors:[OptionalTensorArgument] "
                "as_custom_obj:CustomObjArgument as_operator:str as_sym_float:SymFloatArgument "
                "as_sym_floats:[SymFloatArgument] as_optional_tensor:OptionalTensorArgument as_complex:ComplexValue "
                "as_nested_tensors:[[TensorArgument]] as_int_lists:[[int]] as_string_to_argument:{Argument} "
                "as_float_lists:[[float]]",
    "ConstantValue": "as_none:bool as_int:int as_float:float as_string:str as_bool:bool",
    "InputSpec": "user_input:UserInputSpec parameter:InputToParameterSpec buffer:InputToBufferSpec "
                 "tensor_constant:InputToTensorConstantSpec custom_obj:InputToCustomObjSpec token:InputTokenSpec "
                 "constant_input:InputToConstantInputSpec",
    "OutputSpec": "user_output:UserOutputSpec loss_output:LossOutputSpec buffer_mutation:BufferMutationSpec "
                  "gradient_to_parameter:GradientToParameterSpec gradient_to_user_input:GradientToUserInputSpec "
                  "user_input_mutation:UserInputMutationSpec token:OutputTokenSpec "
                  "parameter_mutation:ParameterMutationSpec",
}

_DEFAULTS = {"None": None, "False": False}


def _default(text):
    if text == "{}":
        return dataclasses.field(default_factory=dict)
    if text == "[]":
        return dataclasses.field(default_factory=list)
    return dataclasses.field(default=_DEFAULTS.get(text, text))


def _define(namespace):
    for name, text in _CLASSES.items():
        fields, types = [], {}
        for part in text.split():
            field, _, kind = part.partition(":")
            kind, has_default, default = kind.partition("=")
            types[field] = kind
            fields.append((field, object, _default(default)) if has_default else (field, object))
        made = dataclasses.make_dataclass(name, fields, namespace={"_types": types})
        made.__module__, made.__doc__ = namespace["__name__"], f"``{name}`` of the schema."
        namespace[name] = made
    for name, text in _UNIONS.items():
        members = dict(part.split(":", 1) for part in text.split())
        namespace[name] = type(name, (Union,), {
            "_fields": members, "__module__": namespace["__name__"], "__doc__": f"``{name}`` of the schema.",
        })


_define(globals())
