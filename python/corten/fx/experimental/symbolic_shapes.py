"""Sizes of traced programs that are not known: symbols, guards, and questions about them."""

from __future__ import annotations

import dataclasses
import enum
import math

from corten._symbolic_numbers import SymBool, SymFloat, SymInt

from . import _symexpr as ex
from ._shape_env import RuntimeAssert, ShapeEnv, ShapeGuard  # noqa: F401
from ._sym_errors import ConstraintViolationError, GuardOnDataDependentSymNode, PendingUnbackedSymbolNotFound
from .sym_node import SymNode, method_to_operator  # noqa: F401

__all__ = [
    "Constraint", "ConstraintViolationError", "DimDynamic", "EqualityConstraint", "GuardOnDataDependentSymNode",
    "PendingUnbackedSymbolNotFound", "RelaxedUnspecConstraint", "ShapeEnv", "StatefulSymbolicContext",
    "StatelessSymbolicContext", "StrictMinMaxConstraint", "SymNode", "SymbolicContext", "ValueRanges", "bind_symbols",
    "constrain_range", "constrain_unify", "eval_guards", "expect_true", "free_symbols", "free_unbacked_symbols",
    "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols", "has_hint", "hint_int",
    "is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbolic", "statically_known_false",
    "statically_known_true", "sym_and", "sym_eq", "sym_or",
]

_SYMBOLIC = (SymInt, SymFloat, SymBool)


class DimDynamic(enum.Enum):
    """What a size of an input becomes."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    UNBACKED = 3
    INFER_STRIDE = 4


@dataclasses.dataclass(frozen=True)
class ValueRanges:
    """The least and greatest value of a number."""

    lower: object
    upper: object


class Constraint:
    """What was said of a size."""

    def __init__(self, warn_only=False):
        self.warn_only = warn_only


@dataclasses.dataclass(frozen=True)
class StrictMinMaxConstraint(Constraint):
    """A size is anything within a range, and guards may not narrow it."""

    vr: ValueRanges = ValueRanges(0, math.inf)
    warn_only: bool = False

    def render(self, source):
        """The constraint as text."""
        return f"{self.vr.lower} <= {getattr(source, 'name', source)} <= {self.vr.upper}"


@dataclasses.dataclass(frozen=True)
class RelaxedUnspecConstraint(Constraint):
    """A size may not become a number."""

    warn_only: bool = False

    def render(self, source):
        """The constraint as text."""
        return f"RelaxedUnspecConstraint({getattr(source, 'name', source)})"


@dataclasses.dataclass(frozen=True)
class EqualityConstraint(Constraint):
    """Sizes are equal."""

    source_pairs: tuple = ()
    derived_equalities: tuple = ()
    phantom_symbols: tuple = ()
    relaxed_sources: frozenset = frozenset()
    warn_only: bool = False


class SymbolicContext:
    """How symbols are made for a tensor."""


@dataclasses.dataclass
class StatelessSymbolicContext(SymbolicContext):
    """How symbols are made for the sizes of a tensor: new ones each time."""

    dynamic_sizes: list
    dynamic_strides: list = None
    constraint_sizes: list = None
    constraint_strides: list = None
    specialize_on: list = None
    view_base_context: object = None
    shape_ids: dict = None
    unbacked_bounds: dict = None

    def __post_init__(self):
        rank = len(self.dynamic_sizes)
        self.dynamic_strides = self.dynamic_strides or [DimDynamic.INFER_STRIDE] * rank
        self.constraint_sizes = self.constraint_sizes or [None] * rank
        self.constraint_strides = self.constraint_strides or [None] * rank


@dataclasses.dataclass
class StatefulSymbolicContext(StatelessSymbolicContext):
    """How symbols are made for the sizes of a tensor, the same ones each time."""

    tensor_source: object = None
    shape_env_to_source_to_symbol_cache: dict = None

    def __post_init__(self):
        super().__post_init__()
        if self.shape_env_to_source_to_symbol_cache is None:
            self.shape_env_to_source_to_symbol_cache = {}


def is_symbolic(val):
    """Whether a number is not known."""
    return isinstance(val, _SYMBOLIC) and not val.node.is_constant()


def is_concrete_int(a):
    """Whether an integer is known."""
    return not is_symbolic(a)


is_concrete_bool = is_concrete_float = is_concrete_int


def has_static_value(a):
    """Whether a number is known, also by its range."""
    if not isinstance(a, _SYMBOLIC):
        return True
    low, high = a.node.shape_env.bounds(a.node.expr)
    return low == high


def has_hint(a):
    """Whether there is a value of the number in the example."""
    return not isinstance(a, _SYMBOLIC) or a.node.has_hint()


has_guarding_hint = has_hint


def hint_int(a, fallback=None):
    """The integer in the example."""
    return a.node.require_hint(fallback) if isinstance(a, SymInt) else int(a)


guarding_hint_or_throw = hint_int


def optimization_hint(a, fallback=None):
    """A value to plan with."""
    return a.node.shape_env.optimization_hint(a.node.expr, fallback) if isinstance(a, SymInt) else a


def _expressions(val):
    import corten
    from corten.utils._pytree import tree_leaves

    if isinstance(val, _SYMBOLIC):
        return [val.node.expr]
    if isinstance(val, ex.Expr):
        return [val]
    if isinstance(val, corten.Tensor):
        parts = [*val.shape, *(val.stride() if val.layout == corten.strided else ())]
        return [one.node.expr for one in parts if isinstance(one, _SYMBOLIC)]
    if isinstance(val, (list, tuple, dict, set)):
        leaves = tree_leaves(list(val) if isinstance(val, set) else val)
        return [expr for leaf in leaves for expr in _expressions(leaf)]
    if hasattr(val, "meta") and hasattr(val, "op"):
        return _expressions(val.meta.get("val"))
    return []


def free_symbols(val):
    """The symbols in something."""
    return {symbol for expr in _expressions(val) for symbol in ex.symbols_of(expr)}


def has_free_symbols(val):
    """Whether there are symbols in something."""
    return bool(free_symbols(val))


def free_unbacked_symbols(x):
    """The symbols in something that depend on data."""
    return {symbol for symbol in free_symbols(x) if symbol.unbacked}


def has_free_unbacked_symbols(x):
    """Whether there are symbols in something that depend on data."""
    return bool(free_unbacked_symbols(x))


def has_symbolic_sizes_strides(elem):
    """Whether sizes or strides of a tensor are symbolic."""
    return bool(_expressions(elem))


def guard_bool(a):
    """The truth, which becomes a guard."""
    return a.node.guard_bool("", 0) if isinstance(a, SymBool) else bool(a)


def guard_int(a):
    """The integer, which becomes a guard."""
    return a.node.guard_int("", 0) if isinstance(a, SymInt) else int(a)


def guard_float(a):
    """The float, which becomes a guard."""
    return a.node.guard_float("", 0) if isinstance(a, SymFloat) else float(a)


def guard_scalar(a):
    """The number, which becomes a guard."""
    if isinstance(a, (SymBool, bool)):
        return guard_bool(a)
    if isinstance(a, (SymInt, int)):
        return guard_int(a)
    return guard_float(a)


def guard_size_oblivious(expr):
    """The truth, where sizes that depend on data are taken to be at least 2."""
    return expr.node.guard_size_oblivious("", 0) if isinstance(expr, SymBool) else bool(expr)


def guard_or_false(a):
    """The truth, or False where only data tells it."""
    return bool(a.node.guard_or_false("", 0)) if isinstance(a, SymBool) else bool(a)


def guard_or_true(a):
    """The truth, or True where only data tells it."""
    return bool(a.node.guard_or_true("", 0)) if isinstance(a, SymBool) else bool(a)


def statically_known_true(x):
    """Whether a condition holds for all values of the symbols; no guard."""
    return x.node.statically_known_true("", 0) if isinstance(x, SymBool) else bool(x)


def statically_known_false(x):
    """Whether a condition holds for no value of the symbols; no guard."""
    return x.node.shape_env.decide(x.node.expr) is False if isinstance(x, SymBool) else not x


def sym_eq(x, y):
    """Whether numbers, or sequences of them, are equal."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return sym_and(len(x) == len(y), *(sym_eq(a, b) for a, b in zip(x, y)))
    return x == y


def sym_and(x, *others):
    """Whether all conditions are true."""
    for other in others:
        if x is False or other is False:
            return False
        x = other if x is True else x if other is True else x & other
    return x


def sym_or(x, *others):
    """Whether one condition is true."""
    for other in others:
        if x is True or other is True:
            return True
        x = other if x is False else x if other is False else x | other
    return x


def expect_true(a, skip=0):
    """Takes a condition for true; it is checked when data tells it."""
    return a.node.expect_true("", 0) if isinstance(a, SymBool) else bool(a)


def constrain_range(a, *, min, max=None):
    """Says within which range a number is that depends on data.

    Raises:
        ValueError: A known number is outside, or the range is empty.
    """
    low, high = -math.inf if min is None else min, math.inf if max is None else max
    if high < low:
        raise ValueError("Maximum value to constrain_as_size can't be less than the specified min value, "
                         f"received min={min} and max={max}")
    if isinstance(a, int):
        if not low <= a <= high:
            raise ValueError(f"Invalid value {a} for range [{min}:{max}]")
        return
    a.node.shape_env._constrain_range(a.node.expr, low, high)


def _constrain_range_for_size(a, min=None, max=None):
    """Says that a number that depends on data is a size, within a range."""
    if isinstance(a, SymInt):
        a.node.shape_env._constrain_range_for_size(a.node.expr, min, max)


def _advise_is_size(a):
    """Says that a number that depends on data is a size."""
    _constrain_range_for_size(a)


def constrain_unify(a, b):
    """Says that two integers are equal."""
    if isinstance(a, SymInt) or isinstance(b, SymInt):
        expect_true(a == b)
    elif a != b:
        raise AssertionError(f"{a} != {b}")


def eval_guards(gm, *args, ignore_static=True):
    """Whether the guards of a traced module hold for inputs."""
    return gm.shape_env.evaluate_guards_for_args(fx_placeholder_vals(gm), args, ignore_static=ignore_static)


def bind_symbols(gm, *args):
    """The symbols of a traced module with the sizes of inputs."""
    return gm.shape_env.bind_symbols(fx_placeholder_vals(gm), args)


def fx_placeholder_vals(gm):
    """What stands for the inputs of a traced module."""
    return [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]


def fx_placeholder_targets(gm):
    """The names of the inputs of a traced module."""
    return [node.target for node in gm.graph.nodes if node.op == "placeholder"]


def is_accessor_node(node):
    """Whether a node of a graph asks for a size of a tensor."""
    import corten

    if node.op == "call_method":
        return node.target in ("size", "stride", "storage_offset", "item")
    aten = corten.ops.aten
    return node.op == "call_function" and str(node.target) in (
        f"{name}" for name in (
            "aten.sym_size", "aten.sym_size.default", "aten.sym_size.int", "aten.sym_stride", "aten.sym_stride.default",
            "aten.sym_stride.int", "aten.sym_storage_offset", "aten.sym_storage_offset.default", "aten.sym_numel.default",
        )
    ) and aten is not None


def compute_unbacked_bindings(shape_env, example_value, old_example_value=None, peek=False):
    """Where in a result the symbols stand that depend on data and that it brought, by symbol."""
    if shape_env is None or not shape_env.pending_fresh_unbacked_symbols:
        return None
    pending = shape_env.pending_fresh_unbacked_symbols
    found = {}
    _find_paths(example_value, (), set(pending), found)
    if not peek:
        shape_env.pending_fresh_unbacked_symbols = []
    return found


@dataclasses.dataclass(frozen=True)
class CallMethodKey:
    """A method of a value."""

    name: str

    def __str__(self):
        return f".{self.name}()"

    def get(self, o):
        """What the method gives."""
        return getattr(o, self.name)()


@dataclasses.dataclass(frozen=True)
class ConvertIntKey:
    """A condition as an integer."""

    def __str__(self):
        return ".cast_symbool_to_symint_guardless()"

    def get(self, b):
        """0 or 1."""
        return int(b)


def _find_paths(value, path, wanted, found):
    import corten
    from corten.utils._pytree import SequenceKey

    if isinstance(value, corten.Tensor):
        for place, size in enumerate(value.shape):
            _find_paths(size, (*path, CallMethodKey("size"), SequenceKey(place)), wanted, found)
    elif isinstance(value, (list, tuple)):
        for place, one in enumerate(value):
            _find_paths(one, (*path, SequenceKey(place)), wanted, found)
    elif isinstance(value, _SYMBOLIC):
        expr = value.node._expr
        if isinstance(expr, ex.Symbol) and expr in wanted:
            found.setdefault(expr, path)
        elif isinstance(expr, ex.Condition) and expr.name == "Eq" and expr.args[0] in wanted:
            found.setdefault(expr.args[0], (*path, ConvertIntKey()))


def rebind_unbacked(shape_env, n, result):
    """Says that symbols of a new run of a node are those of the run before."""
    bindings = n.meta.get("unbacked_bindings")
    if shape_env is None or not bindings:
        return
    for symbol, path in bindings.items():
        value = result
        for key in path:
            value = key.get(value) if not hasattr(key, "idx") else value[key.idx]
        if isinstance(value, SymInt) and value.node._expr is not symbol and isinstance(value.node._expr, ex.Symbol):
            shape_env.replacements[value.node._expr] = symbol
