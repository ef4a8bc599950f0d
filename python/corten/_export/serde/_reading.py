"""Values of the schema as those of programs."""

from __future__ import annotations

import corten
from corten._export.serde import serialize
from corten._export.serde._codec import SerializeError

__all__ = ["Symbols", "described", "mark_gradients", "metadata", "names_of", "plain", "tree"]


class Symbols:
    """Sizes that are not known, by name."""

    def __init__(self, ranges=None):
        self.ranges = ranges or {}
        self._made = self.mode = None

    @property
    def made(self):
        """Where the sizes of a program are kept."""
        if self._made is None:
            from corten.export import _symbols

            self._made = _symbols.Read(self.ranges)
        return self._made

    def number(self, given):
        """A number that may be not known."""
        if given.type != "as_expr":
            return given.value
        expression = given.value
        found = None if expression.hint is None else expression.hint.value
        return self.made.number(expression.expr_str, found, type(given).__name__)

    def size(self, given):
        """A size."""
        found = self.number(given)
        if type(found) is int and found < 0:
            raise SerializeError(f"a size cannot be {found}")
        return found

    def constraints(self):
        """The ranges by symbol."""
        return self.made.constraints() if self.ranges else {}


def described(meta, symbols):
    """A tensor without elements that is as a program's value."""
    if meta.dtype not in serialize.TO_DTYPE:
        raise SerializeError(f"tensors cannot be of {meta.dtype.name}")
    dtype, layout = serialize.TO_DTYPE[meta.dtype], meta.layout
    if layout != 7:
        raise SerializeError("tensors of programs must be strided")
    sizes, strides = [symbols.size(one) for one in meta.sizes], [symbols.number(one) for one in meta.strides]
    if len(sizes) != len(strides):
        raise SerializeError(f"a tensor of {len(sizes)} dimensions has {len(strides)} strides")
    from corten.export import _symbols

    made = _symbols.tensor(symbols, sizes, strides, dtype, device_of(meta.device))
    if meta.requires_grad and (dtype.is_floating_point or dtype.is_complex):
        made.requires_grad_(True)
    return made


def device_of(given):
    """A device."""
    try:
        return corten.device(given.type if given.index is None else f"{given.type}:{given.index}")
    except RuntimeError as error:
        raise SerializeError(str(error)) from None


def plain(kind, value):
    """An argument that is no node."""
    if kind == "as_none":
        return None
    if kind == "as_scalar_type":
        if value not in serialize.TO_DTYPE:
            raise SerializeError(f"{value.name} is no dtype here")
        return serialize.TO_DTYPE[value]
    if kind == "as_layout":
        return serialize.TO_LAYOUT.get(value, corten.strided)
    if kind == "as_memory_format":
        return serialize.TO_FORMAT.get(value, corten.contiguous_format)
    if kind == "as_device":
        return device_of(value)
    if kind == "as_complex":
        return complex(value.real, value.imag)
    if kind in ("as_int", "as_ints", "as_float", "as_floats", "as_string", "as_strings", "as_bool", "as_bools",
                "as_int_lists", "as_float_lists"):
        return value
    raise SerializeError(f"arguments of the kind {kind} are not supported")


def metadata(given):
    """What is known of a call."""
    found = {}
    if "stack_trace" in given:
        found["stack_trace"] = given["stack_trace"]
    if "torch_fn" in given:
        found["torch_fn"] = tuple(given["torch_fn"].split(";", 1))
    stack = {}
    for part in filter(None, given.get("nn_module_stack", "").split(";")):
        pieces = part.split(",")
        if len(pieces) == 3:
            stack[pieces[0]] = (pieces[1], pieces[2])
    if stack:
        found["nn_module_stack"] = stack
    return found


def names_of(target):
    """The arguments of an operator: name, and whether it is by name only."""
    return [(name, by_name) for name, _, by_name in serialize._declared(target)]


def tree(load, text):
    """A structure out of its text.

    Raises:
        SerializeError: It is none, or names a class that is not registered.
    """
    try:
        return load(text)
    except Exception as error:
        raise SerializeError(f"not the structure of a tree: {error}") from error


def mark_gradients(graph, signature, state_dict):
    """Says which placeholders require gradients, as the parameters do."""
    for node, spec in zip(graph.find_nodes(op="placeholder"), signature.input_specs):
        value, kept = node.meta.get("val"), state_dict.get(spec.target)
        if isinstance(value, corten.Tensor) and isinstance(kept, corten.nn.Parameter) and kept.requires_grad:
            value.requires_grad_(True)
