"""Which sizes of the inputs of programs are not fixed."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import logging
import math
import sys

import corten
from corten.utils._pytree import (
    BUILTIN_TYPES, SUPPORTED_NODES, MappingKey, SequenceKey, _get_node_type, keystr, tree_map,
    tree_map_with_path, tree_structure,
)

__all__ = ["AdditionalInputs", "Constraint", "Dim", "ShapesCollection", "dims", "refine_dynamic_shapes_from_suggested_fixes"]

log = logging.getLogger(__name__)
#: No upper bound.
int_oo = math.inf
Constraint = object


class _DimHintType(enum.Enum):
    """What is asked for: as it turns out, fixed, or not fixed."""

    AUTO = 1
    STATIC = 2
    DYNAMIC = 3


@dataclasses.dataclass
class _DimHint:
    """A size of which only is said whether it is fixed."""

    type: _DimHintType
    min: int | None = None
    max: int | None = None
    _factory: bool | None = True

    def __call__(self, min=None, max=None):
        """The same with bounds."""
        if not self._factory:
            raise TypeError(f"'{type(self)}' object is not callable")
        for name, value in (("min", min), ("max", max)):
            if value is not None and value < 0:
                raise AssertionError(f"{name} must be non-negative, got {value}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.type, min=min, max=max, _factory=False)

    def __repr__(self):
        parts = [self.type.name]
        parts += [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return f"DimHint({', '.join(parts)})"


_ONLY = "(Only increasing linear operations with integer coefficients are supported.)"


class Dim:
    """A size with a name, which stands for the same number wherever it is used.

    Args:
        name: A name as those of Python.
        min: The least value.
        max: The greatest value.
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    def __init__(self, name, *, min=None, max=None):
        least, most = 0 if min is None else min, int_oo if max is None else max
        if not most > least:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, least, most

    #: The size as ``factor * root + term``.
    factor, term = 1, 0

    @property
    def root(self):
        """The size that this one is computed of: itself."""
        return self

    def _derived(self, factor, term):
        return _DerivedDim(self.root, factor, term)

    def __add__(self, other):
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self.__name__}, where an integer was expected. {_ONLY}"
            )
        return self._derived(self.factor, self.term + other)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to subtract {other} from {self.__name__}, where an integer was expected. {_ONLY}"
            )
        return self._derived(self.factor, self.term - other)

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {_ONLY}")

    def __mul__(self, other):
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. {_ONLY}"
            )
        return self._derived(self.factor * other, self.term * other)

    def __rmul__(self, other):
        return self * other

    @staticmethod
    def _readable(name, min_, max_):
        parts = [f"'{name}'"]
        if min_ is not None and min_ != 2:
            parts.append(f"min={min_}")
        if max_ is not None and max_ != int_oo:
            parts.append(f"max={max_}")
        return f"Dim({', '.join(parts)})"

    def __repr__(self):
        return Dim._readable(self.__name__, self.min, self.max)


_Dim = Dim


class _StaticDim(Dim):
    """A size that is a number."""

    def __init__(self, value):
        self.__name__, self.value = str(value), value

    @property
    def min(self):
        """The number."""
        return self.value

    @property
    def max(self):
        """The number."""
        return self.value


class _DerivedDim(Dim):
    """A size that is computed of another one."""

    def __init__(self, root, factor, term):
        self._root, self.factor, self.term = root, factor, term
        text = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = text if term == 0 else f"{text} {'+' if term > 0 else '-'} {abs(term)}"

    @property
    def root(self):
        """The size that this one is computed of."""
        return self._root

    def fn(self, value):
        """The size for one of the root."""
        return self.factor * value + self.term

    @property
    def min(self):
        """The least value."""
        found = self.fn(self.root.min)
        if found < 0:
            raise AssertionError(
                f"Expected derived min value of {self.__name__} to be >= 0. Please specify an appropriate min value "
                f"for {self.root.__name__} (currently {self.root.min})."
            )
        return found

    @property
    def max(self):
        """The greatest value."""
        if self.root.max == int_oo:
            return int_oo
        found = self.fn(self.root.max)
        if found > sys.maxsize - 1:
            raise AssertionError(
                f"Expected derived max value of {self.__name__} to be <= {sys.maxsize - 1}. Please specify an "
                f"appropriate max value for {self.root.__name__} (currently {self.root.max})."
            )
        return found

    def __repr__(self):
        return self.__name__


def dims(*names, min=None, max=None):
    """Several sizes with names."""
    return tuple(Dim(name, min=min, max=max) for name in names)


@dataclasses.dataclass
class _IntWrapper:
    """A number among the inputs, of which may be said that it is not fixed."""

    val: int
    dynamism: _DimHint | int | None = dataclasses.field(init=False, default=None)


def _user_error(text, case=True):
    from corten._dynamo.exc import UserError, UserErrorType

    if case:
        text += (
            "\nFor more information about this error, see: "
            "https://pytorch.org/docs/main/generated/exportdb/index.html#dynamic-shapes-validation"
        )
    return UserError(UserErrorType.INVALID_INPUT, text)


def _is_leaf(value):
    return _get_node_type(value) not in BUILTIN_TYPES


def _tree_map_with_path(func, tree, *dynamic_shapes, tree_name=None):
    """``func`` of every leaf with its path and what the other trees have there. Classes that are registered as trees
    are matched by their leaves."""

    def each(path, value, *others):
        kind = _get_node_type(value)
        if kind in SUPPORTED_NODES:
            return tree_map_with_path(each, SUPPORTED_NODES[kind].flatten_fn(value)[0], *others, is_leaf=_is_leaf)
        return func(path, value, *others)

    if tree_name is not None:
        mine = tree_structure(tree, is_leaf=_is_leaf)
        for other in dynamic_shapes:
            _compare(mine, tree_structure(other, is_leaf=_is_leaf), (), tree_name)
    return tree_map_with_path(each, tree, *dynamic_shapes, is_leaf=_is_leaf)


def _compare(mine, other, path, name):
    """Checks that a structure can be matched with another one."""
    where = keystr(path)

    def mismatch(text):
        return _user_error(f"Detected mismatch between the structure of `{name}` and `dynamic_shapes`: {text}")

    if mine.is_leaf():
        return
    if other.is_leaf():
        raise mismatch(f"`{name}{where}` is a {mine.type}, but `dynamic_shapes{where}` is not")
    if mine.type != other.type:
        raise mismatch(f"`{name}{where}` is a {mine.type}, but `dynamic_shapes{where}` is a {other.type}")
    if mine.num_children != other.num_children:
        raise mismatch(
            f"`{name}{where}` has {mine.num_children} elements, but `dynamic_shapes{where}` has "
            f"{other.num_children} elements"
        )
    children = other.children_specs
    if mine.type is dict:
        if set(mine.context) != set(other.context):
            raise mismatch(
                f"`{name}{where}` has keys {mine.context}, but `dynamic_shapes{where}` has keys {other.context}"
            )
        by_key = dict(zip(other.context, children))
        children = [by_key[key] for key in mine.context]
    for place, (one, another) in enumerate(zip(mine.children_specs, children)):
        key = MappingKey(mine.context[place]) if mine.type is dict else SequenceKey(place)
        _compare(one, another, (*path, key), name)


def _signature(f):
    from corten.export.exported_program import ExportedProgram

    f = f.module() if isinstance(f, ExportedProgram) else f
    return inspect.signature(f.forward if isinstance(f, corten.nn.Module) else f)


def _combine_args(f, args, kwargs):
    """The arguments by the names of parameters."""
    return dict(_signature(f).bind(*args, **(kwargs or {})).arguments)


def _normalize_dynamic_shapes(dynamic_shapes, f, args, kwargs):
    """Specifications of ``**kwargs`` under the name of this parameter."""
    if not dynamic_shapes or not isinstance(dynamic_shapes, dict):
        return dynamic_shapes
    variadic = next((
        name for name, one in _signature(f).parameters.items() if one.kind == inspect.Parameter.VAR_KEYWORD
    ), None)
    given = _combine_args(f, args, kwargs).get(variadic) if variadic else None
    if not given:
        return dynamic_shapes
    found = dict(dynamic_shapes)
    nested = dict(found.get(variadic) or {})
    for key in given:
        if key in found and key != variadic:
            nested[key] = found.pop(key)
    found[variadic] = nested
    return found


class ShapesCollection:
    """Specifications by tensor: ``shapes[tensor] = ...``."""

    def __init__(self):
        self._shapes = {}

    def __setitem__(self, t, shape):
        if not isinstance(t, (corten.Tensor, _IntWrapper)):
            raise AssertionError(f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}")
        if id(t) in self._shapes:
            if shape != self._shapes[id(t)]:
                raise AssertionError(
                    f"Shapes assigned to input do not match: expected {self._shapes[id(t)]}, got {shape}"
                )
            return
        self._shapes[id(t)] = shape

    def __getitem__(self, t):
        return self._shapes.setdefault(id(t), {})

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The specification of all inputs.

        Raises:
            ValueError: A tensor is not among them.
        """
        seen = set()

        def find(path, t):
            if id(t) not in self._shapes:
                return None
            seen.add(id(t))
            return self._shapes[id(t)]

        found = _tree_map_with_path(find, _combine_args(m, args, kwargs))
        if seen != set(self._shapes):
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when "
                "passing them as args? Maybe such tensors are contained in classes that were not registered with "
                "pytree?"
            )
        return found


class AdditionalInputs:
    """Specifications that follow from further inputs: sizes that differ are not fixed."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        """Adds inputs."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"Representative kwargs {kwargs} must be None or a dict")
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m, args, kwargs=None):
        """The specification of all inputs.

        Raises:
            ValueError: Inputs that are no sizes differ.
        """
        first, *others = [
            _tree_map_with_path(
                lambda path, t: tuple(t.shape) if isinstance(t, corten.Tensor) else t,
                _combine_args(m, given, named),
            )
            for given, named in [(args, kwargs), *self._examples]
        ]
        return tree_map(_compared, first, *others, is_leaf=lambda value: type(value) is int)

    def verify(self, ep):
        """Checks the inputs with a program."""
        module = ep.module()
        from corten._export.utils import _check_input_constraints_for_graph
        from corten.export._unlift import _check_inputs_match

        for args, kwargs in self._examples:
            flat = _check_inputs_match(args, kwargs or {}, module._in_spec)
            nodes = module.graph.find_nodes(op="placeholder")
            _check_input_constraints_for_graph(nodes, flat, module.range_constraints)


def _compared(value, *others):
    if not all(type(value) is type(other) for other in others):
        raise ValueError(
            "The following inputs were found to have differing types, so they cannot be marked as dynamic: "
            f"{(value, *others)}."
        )
    same = all(other == value for other in others)
    if isinstance(value, int) and not isinstance(value, bool):
        return None if same else Dim.DYNAMIC
    if not same:
        raise ValueError(
            "The following inputs were found to have differing values, but they cannot be marked as dynamic: "
            f"{(value, *others)}."
        )
    return None


class _Checks:
    """Checks of a specification."""

    def __init__(self):
        self.bounds = {}

    def same_bounds(self, dim):
        """One name has one range."""
        least, most = self.bounds.setdefault(dim.__name__, (dim.min, dim.max))
        if (dim.min, dim.max) != (least, most):
            this, that = Dim._readable(dim.__name__, least, most), Dim._readable(dim.__name__, dim.min, dim.max)
            raise _user_error(
                f"Found different definitions {this} and {that} for the same symbolic dimension {dim}!", False
            )

    def dimension(self, path, shape, place, dim, mark):
        """One dimension."""
        if isinstance(dim, Dim):
            self.same_bounds(dim)
        elif dim is None:
            log.warning("Using None as a dynamic shape dimension is deprecated. Please use Dim.STATIC instead")
        elif not isinstance(dim, (int, _DimHint)):
            but = " but" if mark == "mapped to index " else "but"
            raise _user_error(
                f"Unexpected dimension {mark}{place} in input tensor shape {shape} specified at "
                f"`dynamic_shapes{keystr(path)}` (expected None, an int, a Dim, Dim.AUTO, Dim.STATIC, or "
                f"Dim.DYNAMIC, {but} got {dim!r} instead)"
            )

    def tensor(self, path, tensor, shape):
        """The specification of a tensor."""
        if isinstance(shape, dict):
            for place, dim in shape.items():
                self.dimension(path, shape, place, dim, "mapped to index ")
        elif isinstance(shape, (tuple, list)):
            if len(shape) != len(tensor.shape):
                raise _user_error(
                    f"Expected dynamic shape spec {shape} specified at `dynamic_shapes{keystr(path)}` to have the "
                    f"same length as the actual tensor shape {tensor.shape} (expected {len(tensor.shape)}, but got "
                    f"{len(shape)} instead)"
                )
            for place, dim in enumerate(shape):
                self.dimension(path, shape, place, dim, "#")
        elif shape is not None:
            raise _user_error(
                f"Unexpected input tensor shape {shape} specified at `dynamic_shapes{keystr(path)}` (expected either "
                "a list/tuple of dimensions, or a dict mapping indices to dimensions, where each dimension is an "
                "int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)"
            )

    def leaf(self, path, value, shape):
        """The specification of an input."""
        if isinstance(value, corten.Tensor):
            self.tensor(path, value, shape)
        elif type(value) is int and isinstance(shape, Dim):
            raise ValueError(
                "Unable to specify input integers as dynamic through named Dims. Please use Dim.AUTO/DYNAMIC instead."
            )
        elif shape is not None and not (type(value) is int and isinstance(shape, (int, _DimHint))):
            where = keystr(path)
            raise _user_error(
                f"Cannot associate shape {shape} specified at `dynamic_shapes{where}` to non-tensor type "
                f"{type(value)} at `inputs{where}` (expected None)"
            )


def _check_dynamic_shapes(combined_args, dynamic_shapes):
    """Checks a specification against the inputs.

    Raises:
        UserError: It does not fit them.
    """
    if not dynamic_shapes:
        return
    if not isinstance(dynamic_shapes, (dict, tuple, list)):
        raise AssertionError(f"expected dynamic_shapes to be dict, tuple, or list, got {type(dynamic_shapes)}")
    if isinstance(dynamic_shapes, (tuple, list)):
        combined_args = type(dynamic_shapes)(combined_args.values())
    else:
        _check_names(combined_args, dynamic_shapes)
    _tree_map_with_path(_Checks().leaf, combined_args, dynamic_shapes, tree_name="inputs")


def _check_names(combined_args, dynamic_shapes):
    given, expected = list(dynamic_shapes), list(combined_args)
    if sorted(given) == sorted(expected):
        return
    text = (
        f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {expected} of "
        f"`inputs`, but here they are {given}. "
    )
    if len(expected) == 1 and expected[0] not in given and isinstance(combined_args[expected[0]], dict):
        text += (
            "Since here `inputs` is a list/tuple enclosing a single dict, maybe you just forgot to enclose "
            "`dynamic_shapes` in a list/tuple?"
        )
    else:
        text += (
            "Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a list/tuple "
            "matching `inputs`."
        )
    raise _user_error(text)


def leaf_shapes(mod, args, kwargs, dynamic_shapes):
    """What is said of every leaf of the inputs, in the order of the flat inputs ``(args, kwargs)``, after checks."""
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    dynamic_shapes = _normalize_dynamic_shapes(dynamic_shapes, mod, args, kwargs)
    combined = _combine_args(mod, args, kwargs)
    _check_dynamic_shapes(combined, dynamic_shapes)
    found = {}
    if dynamic_shapes:
        if isinstance(dynamic_shapes, (tuple, list)):
            combined = type(dynamic_shapes)(combined.values())
        _tree_map_with_path(lambda path, value, shape: found.setdefault(id(value), []).append(shape),
                            combined, dynamic_shapes)
    return found


def _user_text(text):
    return [line.strip() for line in text.split("\n") if " = " in line]


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    """A specification with the changes that an error suggested.

    Args:
        msg: The text of the error.
        dynamic_shapes: The specification.
    """
    try:
        fixes = _user_text(msg.split("Suggested fixes:")[1])
    except IndexError as error:
        raise AssertionError("Suggested fixes not found in error message given to "
                             "refine_dynamic_shapes_from_suggested_fixes()") from error
    found = {}
    for line in fixes:
        name, _, text = line.partition(" = ")
        found[name] = _fix(text)

    def fixed(dim):
        if not isinstance(dim, Dim):
            return dim
        if dim.__name__ in found:
            return found[dim.__name__]
        root = found.get(dim.root.__name__)
        if isinstance(root, Dim):
            return root * dim.factor + dim.term if dim.factor != 1 else root + dim.term
        return dim.factor * root + dim.term if type(root) is int else dim

    return tree_map(fixed, dynamic_shapes, is_leaf=lambda value: isinstance(value, (Dim, _DimHint)))


def _fix(text):
    """A suggestion: a number, a size with bounds, or one computed of another."""
    import re

    if text.lstrip("-").isdigit():
        return int(text)
    named = re.fullmatch(r"Dim\('(\w+)'((?:, (?:min|max)=\d+)*)\)", text)
    if named:
        bounds = dict(re.findall(r"(min|max)=(\d+)", named[2]))
        return Dim(named[1], **{key: int(value) for key, value in bounds.items()})
    linear = re.fullmatch(r"(?:(\d+)\*)?(\w+)(?: ([+-]) (\d+))?", text)
    if linear is None:
        raise ValueError(f"cannot read the suggested fix {text!r}")
    made = Dim(linear[2])
    made = made * int(linear[1]) if linear[1] else made
    term = int(linear[4] or 0) * (-1 if linear[3] == "-" else 1)
    return made + term if term else made
