"""Checks and names of exported programs."""

from __future__ import annotations

import math
import re

import corten
from corten.export.graph_signature import InputKind
from corten.utils._pytree import keystr

__all__ = []

placeholder_prefixes = {
    InputKind.USER_INPUT: "", InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_",
    InputKind.CUSTOM_OBJ: "obj_", InputKind.TOKEN: "token",
}


def get_keystr(key_path):
    """How a leaf of the flat inputs is reached, such as ``*args[0]``."""
    if key_path[0].idx == 0:
        return f"*args{keystr(key_path[1:])}"
    return f"{str(key_path[1])[1:-1].strip(chr(39))}{keystr(key_path[2:])}"


def _check_input_constraints_for_graph(input_placeholders, flat_args_with_path, range_constraints):
    """Checks inputs against those that a program was exported with.

    Raises:
        RuntimeError: Their number, classes or sizes are others.
    """
    if len(flat_args_with_path) != len(input_placeholders):
        raise RuntimeError(
            "Unexpected number of inputs "
            f"(expected {len(input_placeholders)}, got {len(flat_args_with_path)})"
        )
    sizes = {}
    for (path, arg), node in zip(flat_args_with_path, input_placeholders):
        expected = node.meta.get("val")
        if isinstance(expected, corten.Tensor):
            _check_tensor(path, arg, expected, range_constraints, sizes)
        elif type(expected) in (int, float, str, bool):
            same = type(expected) is type(arg) and (
                expected == arg or isinstance(expected, float) and math.isnan(expected) and math.isnan(arg)
            )
            if not same:
                raise RuntimeError(f"Expected input at {get_keystr(path)} to be equal to {expected}, but got {arg}")


def _check_tensor(path, arg, expected, range_constraints, sizes):
    if not isinstance(arg, corten.Tensor):
        raise RuntimeError(f"Expected input at {get_keystr(path)} to be a tensor, but got {type(arg)}")
    if len(expected.shape) != len(arg.shape):
        raise RuntimeError(
            f"Unexpected number of dimensions in input at {get_keystr(path)}.shape "
            f"(expected {expected.shape}, got {arg.shape})"
        )
    from corten.export import _symbols

    for place, (size, given) in enumerate(zip(expected.shape, arg.shape)):
        where = f"{get_keystr(path)}.shape[{place}]"
        if type(size) is not int:
            _symbols.check_size(where, size, given, range_constraints, sizes)
        elif size != given:
            raise RuntimeError(
                f"Expected input at {where} to be equal to {size}, but got {given}. "
                "If you meant for this dimension to be dynamic, please re-export and specify dynamic_shapes "
                "(e.g. with Dim.DYNAMIC)"
            )


class Names:
    """Names of nodes, each different: that of placeholders first, with numbers behind where one is taken."""

    def __init__(self):
        self.used, self.highest = set(), {}

    def take(self, name, is_placeholder=False):
        """A name like ``name`` that is free from now on."""
        key, found = name, re.match(r"(.*)_(\d+)", name)
        if found and not is_placeholder:
            key = found[1]
        if name in self.used:
            name = f"{key}_{self.highest.get(key, 0) + 1}"
        found = re.match(r"(.*)_(\d+)", name)
        if found and int(found[2]) > self.highest.get(found[1], 0):
            self.highest[found[1]] = int(found[2])
        self.used.add(name)
        return name


def register_dataclass_as_pytree_node(cls, flatten_fn=None, unflatten_fn=None, *, serialized_type_name=None,
                                      to_dumpable_context=None, from_dumpable_context=None,
                                      return_none_fields=False):
    """Lets instances of a dataclass be trees of their fields."""
    from corten.utils._pytree import register_dataclass

    register_dataclass(cls, serialized_type_name=serialized_type_name)
