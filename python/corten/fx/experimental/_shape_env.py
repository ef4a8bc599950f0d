"""The environment of symbolic numbers: symbols, their hints and ranges, and the guards of a trace."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import sys
import weakref

from corten import _C
from corten._symbolic_numbers import SymBool, SymFloat, SymInt

from . import _symexpr as ex
from . import _symranges
from ._shape_knowledge import Knowledge
from ._sym_errors import ConstraintViolationError, GuardOnDataDependentSymNode, PendingUnbackedSymbolNotFound
from .sym_node import SymNode


def _samples():
    """Primes that stand for symbols: halves, quarters and so on are odd, and no small multiple is close to a multiple
    of 64, as constants of programs are."""
    sieve = bytearray([1]) * 8000
    for number in range(2, 90):
        sieve[number * number::number] = bytes(len(range(number * number, 8000, number)))
    primes = [n for n in range(1009, 8000) if sieve[n]]
    best = [n for n in primes if n % 64 in (51, 53) and n < 4000]
    # Distant ones first, so that few symbols are never close to each other.
    return best[::3] + best[1::3] + best[2::3] + [n for n in primes if n % 64 in (11, 13, 51, 53) and n not in best]


SAMPLES = _samples()


@dataclasses.dataclass
class ShapeGuard:
    """A condition that a trace relies on, and where it came from."""

    expr: object
    sloc: str = ""
    size_oblivious: bool = False


@dataclasses.dataclass
class RuntimeAssert:
    """A condition that is checked when data tells it."""

    expr: object
    msg: str = ""
    stack: object = None


class ShapeEnv(Knowledge):
    """Symbols of sizes, what is known of them, and the guards under which a trace holds.

    Args:
        allow_scalar_outputs: Whether ``item()`` gives symbols that depend on data.
        allow_dynamic_output_shape_ops: Whether operators whose sizes depend on data do.
        assume_static_by_default: Whether sizes are numbers unless they are marked.
        specialize_zero_one: Whether sizes of 0 and 1 are numbers.
        duck_shape: Whether sizes that are equal in the example are one symbol.
    """

    def __init__(self, *, should_record_events=None, tracked_fakes=None, allow_scalar_outputs=True,
                 allow_dynamic_output_shape_ops=True, assume_static_by_default=False, specialize_zero_one=True,
                 duck_shape=None, prefer_deferred_runtime_asserts_over_guards=False, trace_asserts=False, co_fields=None):
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.assume_static_by_default = assume_static_by_default
        self.specialize_zero_one = specialize_zero_one
        self.duck_shape = True if duck_shape is None else duck_shape
        self.prefer_deferred_runtime_asserts_over_guards = prefer_deferred_runtime_asserts_over_guards
        self.tracked_fakes = tracked_fakes
        self.guards, self.replacements, self.deferred_runtime_asserts = [], {}, {}
        self.var_to_range, self.var_to_sources, self.source_to_var = {}, {}, {}
        self.backed_var_to_val, self.size_like, self.val_to_var = {}, set(), {}
        self.unique_ids, self.pending_fresh_unbacked_symbols = set(), []
        self.unbacked_renamings, self.divisible, self.frozen = {}, set(), False
        self.num_deferred_runtime_asserts, self.unbacked_symint_counter, self.unbacked_symfloat_counter = 0, 0, 0
        self.constraints, self._suppressed = [], 0
        self._sample_of_symbol, self._known_samples, self._next_sample = {}, {}, 0
        self._tensors = {}
        self._version, self._unknown_tensors, self._ignore_fresh = 0, 0, 0
        _C._set_symbolic_classes(SymInt, SymFloat)

    var_to_val = property(lambda self: self.backed_var_to_val)

    # Symbols.

    def create_symbol(self, val, source, dynamic_dim=None, constraint_dim=None, positive=True,
                      do_not_specialize_zero_one=False, symbolic_context=None):
        """A symbol for a size of the example, or the number where it is no symbol.

        Raises:
            ConstraintViolationError: A constraint fixes the size to another number.
        """
        from .symbolic_shapes import DimDynamic

        kind = DimDynamic.DUCK if dynamic_dim is None else dynamic_dim
        limits = getattr(constraint_dim, "vr", None)
        if limits is not None and limits.lower == limits.upper:
            if limits.lower != val:
                raise ConstraintViolationError(
                    f"Static shape constraint of {limits.lower} does not match input size of {val}, for {_name(source)}"
                )
            kind, constraint_dim = DimDynamic.STATIC, None
        if kind is DimDynamic.UNBACKED:
            made = self.create_unbacked_symint(source).node.expr
            self._constrain_range_for_size(made)
            return made
        if constraint_dim is not None:
            kind = DimDynamic.DYNAMIC
        if kind is DimDynamic.STATIC or val in (0, 1) and self.specialize_zero_one and not do_not_specialize_zero_one:
            return val
        duck = kind is DimDynamic.DUCK and self.duck_shape
        symbol = self.val_to_var.get(val) if duck else None
        if symbol is None:
            symbol = ex.Symbol(f"s{self._unique_id(_name(source))}")
            self.backed_var_to_val[symbol] = val
            low = 2 if self.specialize_zero_one and not do_not_specialize_zero_one else 0
            self.var_to_range[symbol] = (low if positive else -math.inf, math.inf)
            self._give_sample(symbol)
            if duck:
                self.val_to_var[val] = symbol
        self._constrain_by(symbol, constraint_dim, source)
        self.var_to_sources.setdefault(symbol, []).append(source)
        self.source_to_var[_name(source)] = symbol
        return symbol

    def _constrain_by(self, symbol, constraint, source):
        limits = getattr(constraint, "vr", None)
        if constraint is not None:
            self.constraints.append((symbol, constraint, source))
        if limits is None:
            return
        val = self.backed_var_to_val[symbol]
        if not limits.lower <= val <= limits.upper:
            raise ConstraintViolationError(f"{val} not in range [{limits.lower}, {limits.upper}]")
        low, high = self.var_to_range[symbol]
        self.var_to_range[symbol] = (max(low, limits.lower), min(high, limits.upper))

    def create_unspecified_symbol(self, val, source, dynamic_dim=None, constraint_dim=None, symbolic_context=None):
        """A symbol for a number that is no size: it may be 0, 1 or negative."""
        from .symbolic_shapes import DimDynamic

        return self.create_symbol(
            val, source, DimDynamic.DYNAMIC if dynamic_dim is None else dynamic_dim, constraint_dim, positive=None,
            do_not_specialize_zero_one=True,
        )

    def create_unspecified_symint_and_symbol(self, value, source, dynamic_dim=None):
        """A symbolic integer for an argument, as :meth:`create_unspecified_symbol`."""
        symbol = self.create_unspecified_symbol(value, source, dynamic_dim)
        return self.create_symintnode(symbol, hint=value, source=source)

    def _unique_id(self, name):
        number = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 100
        while number in self.unique_ids:
            number += 1
        self.unique_ids.add(number)
        return number

    def _give_sample(self, symbol):
        if self._next_sample >= len(SAMPLES):
            raise RuntimeError(f"a trace can have {len(SAMPLES)} symbols of sizes")
        self._set_sample(symbol, SAMPLES[self._next_sample])
        self._next_sample += 1

    def _set_sample(self, symbol, value):
        self._sample_of_symbol[symbol] = value
        self._known_samples[value] = symbol

    def create_unbacked_symint(self, source=None):
        """An integer that depends on data."""
        symbol = ex.Symbol(f"u{self.unbacked_symint_counter}", unbacked=True)
        self.unbacked_symint_counter += 1
        self._note_fresh(symbol, (-math.inf, math.inf), source)
        self._give_sample(symbol)
        return SymInt(SymNode(symbol, self, int))

    def create_unbacked_symfloat(self):
        """A float that depends on data."""
        symbol = ex.Symbol(f"zuf{self.unbacked_symfloat_counter}", unbacked=True, is_float=True)
        self.unbacked_symfloat_counter += 1
        self._note_fresh(symbol, (-math.inf, math.inf), None)
        self._set_sample(symbol, 1009.0 + math.sqrt(2) * self.unbacked_symfloat_counter)
        return SymFloat(SymNode(symbol, self, float))

    def create_unbacked_symbool(self):
        """A condition that depends on data."""
        number = self.create_unbacked_symint()
        self.var_to_range[number.node._expr] = (0, 1)
        return SymBool(SymNode(ex.relation("Eq", number.node._expr, 1), self, bool))

    def _note_fresh(self, symbol, limits, source):
        self.var_to_range[symbol] = limits
        if source is not None:
            self.var_to_sources.setdefault(symbol, []).append(source)
            self.source_to_var[_name(source)] = symbol
        elif not self._ignore_fresh:
            self.pending_fresh_unbacked_symbols.append(symbol)

    def new_dynamic_size(self, *, min=0, max=None):
        """A size that depends on data, within bounds."""
        made = self.create_unbacked_symint()
        self.var_to_range[made.node._expr] = (min, math.inf if max is None else max)
        self.size_like.add(made.node._expr)
        return made

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self):
        """A block whose new symbols nobody has to bind."""
        self._ignore_fresh += 1
        try:
            yield
        finally:
            self._ignore_fresh -= 1

    def is_unbacked_symint(self, symbol):
        """Whether a symbol depends on data."""
        return symbol.unbacked

    def create_symintnode(self, sym, *, hint=None, source=None):
        """A symbolic integer, or the number where the expression is one."""
        if ex.is_number(sym):
            return int(sym)
        return SymInt(SymNode(sym, self, int, hint))

    def create_symfloatnode(self, sym, *, hint=None, source=None):
        """A symbolic float, or the number where the expression is one."""
        return float(sym) if ex.is_number(sym) else SymFloat(SymNode(sym, self, float, hint))

    def create_symboolnode(self, sym):
        """A symbolic condition, or the truth where the expression is one."""
        return bool(sym) if ex.is_number(sym) else SymBool(SymNode(sym, self, bool))

    def create_symbolic_sizes_strides_storage_offset(self, t, source, *, symbolic_context=None):
        """Sizes, strides and offset of what stands for a tensor."""
        from ._symbolic_tensor import symbolic_geometry

        found = symbolic_geometry(self, t, source, symbolic_context)
        wrap = self.create_symintnode
        return tuple(map(wrap, found.sizes)), tuple(map(wrap, found.strides)), wrap(found.offset)

    # Values.

    def replace(self, expr):
        """The expression with what symbols are known to be."""
        if not self.replacements or not isinstance(expr, ex.Expr):
            return expr
        before = None
        while before is not expr and not ex.is_number(expr):
            before, expr = expr, ex.substitute(expr, self.replacements)
        return expr

    simplify = replace

    def hint_of(self, expr, pytype=int):
        """The value in the example, or None where data tells it."""
        expr = self.replace(expr)
        if any(symbol.unbacked for symbol in ex.symbols_of(expr)):
            return None
        return pytype(ex.evaluate(expr, self.backed_var_to_val))

    def size_hint(self, expr, *, allow_none=False):
        """The value in the example.

        Raises:
            GuardOnDataDependentSymNode: Data tells it, and `allow_none` is not given.
        """
        hint = self.hint_of(expr)
        if hint is None and not allow_none:
            raise self.data_dependent(expr)
        return hint

    guarding_hint_or_throw = size_hint

    def has_guarding_hint(self, expr):
        """Whether there is a value in the example."""
        return self.hint_of(expr) is not None

    def optimization_hint(self, expr, fallback=None):
        """A value to plan with: that of the example, or one that data may give."""
        hint = self.hint_of(expr)
        if hint is None:
            hint = fallback if fallback is not None else int(self.sample_of(expr, int))
        return hint

    def sample_of(self, expr, pytype=int):
        """The value with the samples of the symbols, which is remembered as that of the expression."""
        expr = self.replace(expr)
        if ex.is_number(expr):
            return pytype(expr)
        value = pytype(ex.evaluate(expr, self._sample_of_symbol))
        if pytype is not bool:
            self._known_samples.setdefault(value, expr)
        return value

    def value_by_sample(self, value):
        """The symbol that depends on data whose sample a value is, or None."""
        found = self._known_samples.get(value) if type(value) in (int, float) else None
        return found if isinstance(found, ex.Symbol) and found.unbacked else None

    def number(self, expr):
        """The symbolic number of an expression."""
        expr = self.replace(expr)
        return self.create_symfloatnode(expr) if ex.is_float(expr) else self.create_symintnode(expr)

    def samples(self):
        """The samples by symbol."""
        return self._sample_of_symbol

    def bounds(self, expr):
        """The least and greatest value that an expression can have."""
        return _symranges.bounds(self.replace(expr), lambda symbol: self.var_to_range.get(symbol, (-math.inf, math.inf)))

    bound_sympy = bounds

    def decide(self, condition, size_oblivious=False):
        """Whether a condition holds always (True), never (False) or sometimes (None)."""
        condition = self.replace(condition)
        if ex.is_number(condition):
            return bool(condition)

        def limits(symbol):
            low, high = self.var_to_range.get(symbol, (-math.inf, math.inf))
            return (max(low, 2), high) if size_oblivious and symbol in self.size_like else (low, high)

        known = _symranges.decide(condition, limits)
        if known is None:
            known = self._follows(condition)
        return known

    def _follows(self, condition):
        """Whether a guard or assertion states a condition, or its contrary."""
        stated = [guard.expr for guard in self.guards]
        stated += [one.expr for several in self.deferred_runtime_asserts.values() for one in several]
        contrary = ex.negate(condition)
        for one in stated:
            one = self.replace(one)
            if one == condition:
                return True
            if one == contrary:
                return False
        return None

    # Guards.

    def evaluate(self, expr, size_oblivious=False, fallback=None):
        """The value of an expression at the hints, which becomes a guard.

        Raises:
            GuardOnDataDependentSymNode: Data tells it, and there is no `fallback`.
        """
        expr = self.replace(expr)
        if ex.is_number(expr):
            return expr
        is_condition = isinstance(expr, ex.Condition)
        if is_condition:
            known = self.decide(expr, size_oblivious)
            if known is not None:
                return known
        hint = self.hint_of(expr, bool if is_condition else lambda value: value)
        if hint is None:
            if is_condition and size_oblivious is False and fallback is None:
                known = self.decide(expr, True) if self._is_question_of_size(expr) else None
                if known is not None:
                    return known
            if fallback is not None:
                return fallback
            raise self.data_dependent(expr)
        condition = (expr if hint else ex.negate(expr)) if is_condition else ex.relation("Eq", expr, hint)
        self._add_guard(condition, size_oblivious)
        return hint

    evaluate_expr = evaluate

    def evaluate_sym_node(self, sym_node, size_oblivious=False, fallback_value=None):
        """The value of a node, which becomes a guard."""
        return self.evaluate(sym_node.expr, size_oblivious, fallback_value)

    def _is_question_of_size(self, condition):
        return condition.name in ("Eq", "Ne") and ex.symbols_of(condition) <= self.size_like

    def _add_guard(self, condition, size_oblivious=False):
        if self._suppressed:
            return
        if self.frozen:
            raise RuntimeError(f"a guard {condition} was added to an environment that is frozen")
        self.guards.append(ShapeGuard(condition, _location(), size_oblivious))
        self._version += 1
        self._learn(condition)

    def expect_true(self, condition, message=""):
        """Takes a condition for true; it is checked when data tells it.

        Raises:
            RuntimeError: It is false.
        """
        condition = self.replace(condition)
        known = self.decide(condition)
        if known is not None:
            return known
        if self.hint_of(condition, bool) is not None and not self.prefer_deferred_runtime_asserts_over_guards:
            return bool(self.evaluate(condition))
        symbols = [symbol for symbol in ex.symbols_of(condition) if symbol.unbacked] or list(ex.symbols_of(condition))
        latest = max(symbols, key=self._age)
        self.deferred_runtime_asserts.setdefault(latest, []).append(RuntimeAssert(condition, message, _location()))
        self.num_deferred_runtime_asserts += 1
        self._learn(condition)
        return True

    guard_or_defer_runtime_assert = expect_true

    def _constrain_range_for_size(self, symbol, min=None, max=None):
        self.size_like.add(symbol)
        self._constrain_range(symbol, 0 if min is None else min, math.inf if max is None else max)

    def _constrain_range(self, symbol, min, max):
        if ex.is_number(symbol):
            if not min <= symbol <= max:
                raise ValueError(f"Invalid value {symbol} for range [{min}:{max}]")
            return
        low, high = self.var_to_range.get(symbol, (-math.inf, math.inf))
        self.var_to_range[symbol] = (builtin_max(low, min), builtin_min(high, max))

    def data_dependent(self, expr):
        """The error for a question that only data answers."""
        return GuardOnDataDependentSymNode(
            expr, f"Could not guard on data-dependent expression {expr} (unhinted: {expr}).  (Size-like symbols: "
            f"{', '.join(sorted(str(s) for s in ex.symbols_of(expr) & self.size_like)) or 'none'})\n\n"
            "consider using data-dependent friendly APIs such as guard_or_false, guard_or_true and "
            f"statically_known_true.\nCaused by: {_location()}",
        )

    @contextlib.contextmanager
    def suppress_guards(self):
        """A block that records no guards."""
        self._suppressed += 1
        try:
            yield
        finally:
            self._suppressed -= 1

    def freeze(self):
        """Refuses further guards."""
        self.frozen = True

    def freeze_runtime_asserts(self):
        """Refuses further assertions."""

    def _get_key(self):
        return self._version, len(self.replacements), len(self.divisible), self.num_deferred_runtime_asserts

    # Tensors.

    def track_tensor(self, fake):
        """Lets a tensor with symbolic sizes follow what becomes known of the symbols."""
        key, tensors = id(fake), self._tensors
        if key not in tensors:
            tensors[key] = weakref.ref(fake, lambda _: tensors.pop(key, None))

    def refresh_tensors(self):
        """Gives tensors the samples of what their sizes are now known to be."""
        from ._symbolic_tensor import refresh

        for found in list(self._tensors.values()):
            fake = found()
            if fake is not None:
                refresh(self, fake)

    def unknown_source(self):
        """A name for a tensor that none was given for."""
        name = f"__meta_utils_unknown_tensor{self._unknown_tensors}"
        self._unknown_tensors += 1
        return name

    def format_guards(self, verbose=False):
        """The guards, a line each."""
        return "\n".join(f" - {guard.expr}{' ' + guard.sloc if verbose else ''}" for guard in self.guards)

    def get_nontrivial_guards(self):
        """The guards that do not hold anyway."""
        simplified = [self.replace(guard.expr) for guard in self.guards]
        return [expr for expr in simplified if not ex.is_number(expr)]

    def check_pending(self, result=None):
        """Fails where a symbol that depends on data is bound to no result.

        Raises:
            PendingUnbackedSymbolNotFound: One is not.
        """
        if self.pending_fresh_unbacked_symbols:
            raise PendingUnbackedSymbolNotFound(f"Pending unbacked symbols {self.pending_fresh_unbacked_symbols}")

    def produce_guards(self, *args, **kwargs):
        """The guards as Python conditions on the inputs; see :func:`_guard_texts.produce_guards`."""
        from . import _guard_texts

        return _guard_texts.produce_guards(self, *args, **kwargs)

    def produce_guards_expression(self, placeholders, *, guards=None, ignore_static=True):
        """The guards on the sizes of inputs as one Python expression, or None."""
        from . import _guard_texts

        return _guard_texts.expression(self, placeholders, guards, ignore_static)

    def evaluate_guards_expression(self, code, args):
        """Whether a condition of :meth:`produce_guards_expression` holds for inputs."""
        from . import _guard_texts

        return _guard_texts.holds(code, args)

    def evaluate_guards_for_args(self, placeholders, args, *, ignore_static=True):
        """Whether all guards hold for other inputs."""
        code = self.produce_guards_expression(placeholders, ignore_static=ignore_static)
        return True if code is None else self.evaluate_guards_expression(code, args)

    def get_pruned_guards(self, symints):
        """The guards on the symbols of some numbers."""
        wanted = {symbol for number in symints if isinstance(number, SymInt) for symbol in ex.symbols_of(number.node.expr)}
        return [guard for guard in self.guards if ex.symbols_of(guard.expr) <= wanted]

    def bind_symbols(self, placeholders, args):
        """The symbols of the sizes of placeholders with the sizes of inputs."""
        from . import _guard_texts

        return _guard_texts.bind_symbols(placeholders, args)


builtin_max, builtin_min = max, min


def _name(source):
    """The text of where a number comes from."""
    name = getattr(source, "name", source)
    return str(name() if callable(name) else name)


def _location():
    """The line of the program that is being traced."""
    frame = sys._getframe(1)
    folder = __file__.rpartition("fx")[0]
    while frame is not None and (frame.f_code.co_filename.startswith(folder) or frame.f_code.co_filename.startswith("<")):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
