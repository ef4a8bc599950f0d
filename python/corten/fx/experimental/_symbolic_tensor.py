"""Tensors without data whose sizes are symbolic, and operators on them.

Note [Recovery of sizes]: the shape rule of an operator computes with numbers. It is run with several values of
the symbols, primes that no constant of a program is likely to be, and each size and stride of a result is the
expression of the arguments' sizes that has the right value each time (`_recovery.py`); a further run has to
confirm it. Where no expression does, or the sizes of the example follow another rule than large ones, a symbol
becomes the number that it is in the example, with a guard; one that depends on data is an error.
"""

from __future__ import annotations

import math
import re

import corten
from corten import Tensor
from corten._symbolic_numbers import SymBool, SymFloat, SymInt
from corten.utils._python_dispatch import _disable_current_modes

from . import _symexpr as ex
from ._recovery import Recovery, lift_number, lift_view
from ._sym_errors import UnrecoverableSizeError

_SYMBOLIC = (SymInt, SymFloat, SymBool)


class SymbolicGeometry:
    """Sizes, strides and offset of a tensor as expressions."""

    __slots__ = ("env", "sizes", "strides", "offset")

    def __init__(self, env, sizes, strides, offset=0):
        self.env, self.sizes, self.strides, self.offset = env, tuple(sizes), tuple(strides), offset

    def has_symbols(self):
        """Whether one of them is no number."""
        return any(isinstance(one, ex.Expr) for one in (*self.sizes, *self.strides, self.offset))

    def samples(self):
        """Their values with the samples of the symbols."""
        value = self.env.sample_of
        return tuple(map(value, self.sizes)), tuple(map(value, self.strides)), value(self.offset)

    def numbers(self, expressions):
        """Expressions as Python has them."""
        return tuple(self.env.create_symintnode(self.env.replace(one)) for one in expressions)

    def numel(self):
        """The number of elements."""
        return ex.product(self.sizes)


def symbolic_geometry(env, t, source, context):
    """Sizes, strides and offset of what stands for a tensor, with new symbols for those that are not static."""
    from ._shape_env import _name
    from .symbolic_shapes import DimDynamic

    name = _name(source) if source is not None else env.unknown_source()
    sizes = []
    for dim, size in enumerate(t.shape):
        if isinstance(size, SymInt):
            sizes.append(size.node.expr)
            continue
        kind, constraint = _kind(env, t, dim, context)
        sizes.append(env.create_symbol(size, f"{name}.size()[{dim}]", kind, constraint))
    known, strides = {}, [None] * len(sizes)
    for dim in sorted(range(len(sizes)), key=lambda dim: (t.stride(dim), -dim)):
        value = t.stride(dim)
        if value in (0, 1):
            strides[dim] = value
        elif value in known:
            strides[dim] = known[value]
        else:
            static = context is not None or not any(isinstance(one, ex.Expr) for one in sizes)
            kind = DimDynamic.STATIC if static else DimDynamic.DUCK
            strides[dim] = env.create_symbol(value, f"{name}.stride()[{dim}]", kind)
        known[t.shape[dim] * value] = ex.mul(sizes[dim], strides[dim])
    return SymbolicGeometry(env, sizes, strides, t.storage_offset())


def _kind(env, t, dim, context):
    from .symbolic_shapes import DimDynamic, RelaxedUnspecConstraint

    if context is not None:
        return context.dynamic_sizes[dim], context.constraint_sizes[dim]
    marks = vars(t) if hasattr(t, "__dict__") else {}
    if dim in marks.get("_dynamo_unbacked_indices", ()):
        return DimDynamic.UNBACKED, None
    if dim in marks.get("_dynamo_dynamic_indices", ()):
        limits = next((one for one in marks.get("_dynamo_dynamic_range", ()) if one.dim == dim), None)
        return DimDynamic.DYNAMIC, _within(limits) if limits is not None else RelaxedUnspecConstraint()
    if dim in marks.get("_dynamo_weak_dynamic_indices", ()):
        return DimDynamic.DYNAMIC, None
    if dim in marks.get("_dynamo_static_indices", ()) or env.assume_static_by_default:
        return DimDynamic.STATIC, None
    return DimDynamic.DUCK, None


def _within(limits):
    from .symbolic_shapes import StrictMinMaxConstraint, ValueRanges

    low = 0 if limits.min is None else limits.min
    return StrictMinMaxConstraint(ValueRanges(low, math.inf if limits.max is None else limits.max))


def geometry_of(env, fake):
    """The expressions of a tensor without data; numbers where it has no symbols."""
    found = fake.__dict__.get("_symbolic")
    if found is None:
        return SymbolicGeometry(env, Tensor.shape.__get__(fake), Tensor.stride(fake), Tensor.storage_offset(fake))
    replace = found.env.replace
    return SymbolicGeometry(
        env, map(replace, found.sizes), map(replace, found.strides), replace(found.offset),
    )


def involves_symbols(args, kwargs, fakes):
    """Whether sizes or numbers of a call are symbolic."""
    if any(fake.__dict__.get("_symbolic") is not None for fake in fakes):
        return True
    return _has_numbers(args) or _has_numbers(kwargs.values())


def _has_numbers(values):
    for value in values:
        if isinstance(value, _SYMBOLIC) or type(value) in (list, tuple) and _has_numbers(value):
            return True
    return False


def meta_of(dtype, sizes, strides, offset, store=None):
    """A meta tensor of a geometry, in a storage where that is given."""
    needed = offset
    if 0 not in sizes:
        needed += 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    if store is None:
        store = corten.empty(needed, dtype=dtype, device="meta")
    return store.as_strided(sizes, strides, offset)


def attach(env, fake, geometry):
    """Gives a tensor symbolic sizes, where they are such."""
    if geometry.has_symbols():
        fake._symbolic = geometry
        env.track_tensor(fake)
    elif "_symbolic" in fake.__dict__:
        fake._symbolic = None


def refresh(env, fake):
    """Gives a tensor the samples of what its sizes are now known to be."""
    found = fake.__dict__.get("_symbolic")
    if found is None:
        return
    now = geometry_of(env, fake)
    sizes, strides, offset = now.samples()
    if sizes != tuple(Tensor.shape.__get__(fake)) or strides != Tensor.stride(fake):
        _take(fake, (sizes, strides, offset))
    attach(env, fake, now)


def _take(fake, samples):
    """Gives a tensor the sizes, strides and offset of samples."""
    with _disable_current_modes():
        elem = meta_of(fake.dtype, *samples)
        elem = elem.conj() if fake.is_conj() else elem
    fake._elem = elem
    fake._set_fake_geometry(elem, None)


class Problem:
    """A call whose results' sizes are to be expressed."""

    def __init__(self, env, func, operator, args, kwargs, fakes):
        self.env, self.func, self.operator, self.args, self.kwargs, self.fakes = env, func, operator, args, kwargs, fakes
        self.geometries = {id(fake): geometry_of(env, fake) for fake in fakes}
        self.trial = {}
        self.pairs = []

    def expressions(self):
        """The expressions in the arguments, without those that are numbers."""
        found = []
        for geometry in self.geometries.values():
            found += [*geometry.sizes, geometry.numel(), *geometry.strides, geometry.offset]
        _numbers(self.args, found)
        _numbers(self.kwargs.values(), found)
        found = [ex.substitute(self.env.replace(one), self.trial) for one in found]
        return list(dict.fromkeys(one for one in found if isinstance(one, ex.Expr)))

    def symbols(self):
        """The symbols in the arguments, in the order in which they were made."""
        found = set()
        for one in self.expressions():
            ex.symbols_of(one, found)
        return sorted(found, key=self.env._age)

    def value(self, expr, values):
        """The value of an expression."""
        expr = ex.substitute(self.env.replace(expr), self.trial)
        return ex.evaluate(expr, values)

    def run(self, values):
        """The results, with meta tensors of the sizes that follow from values of the symbols."""
        from corten._subclasses import _fake_run

        metas, stores = {}, {}
        for fake in self.fakes:
            if id(fake) not in metas:
                metas[id(fake)] = self._meta(fake, values, stores)
        self.pairs = [(fake, metas[id(fake)]) for fake in self.fakes]

        def given(value):
            if isinstance(value, Tensor) and id(value) in metas:
                return metas[id(value)]
            if isinstance(value, _SYMBOLIC):
                found = self.value(value.node.expr, values)
                return value.node.pytype(found)
            if type(value) in (list, tuple):
                return type(value)(given(one) for one in value)
            return value

        args, kwargs = [given(value) for value in self.args], {name: given(value) for name, value in self.kwargs.items()}
        args, kwargs = _fake_run.to_meta(self.operator, args, kwargs)
        with _disable_current_modes():
            return self.func(*args, **kwargs)

    def _meta(self, fake, values, stores):
        found = self.geometries[id(fake)]
        sizes = [self.value(size, values) for size in found.sizes]
        strides = [self.value(stride, values) for stride in found.strides]
        key = fake.untyped_storage()._cdata
        with _disable_current_modes():
            if key not in stores and sum(one.untyped_storage()._cdata == key for one in self.fakes) > 1:
                stores[key] = corten.empty(1 << 40, dtype=fake.dtype, device="meta")
            store = stores.get(key)
            if store is not None and store.dtype != fake.dtype:
                store = store.view(fake.dtype)
            made = meta_of(fake.dtype, sizes, strides, self.value(found.offset, values), store)
            return made.conj() if fake.is_conj() else made


def _numbers(values, found):
    for value in values:
        if isinstance(value, _SYMBOLIC):
            found.append(value.node.expr)
        elif type(value) in (list, tuple):
            _numbers(value, found)


def flat_results(result):
    """The geometries and numbers in a result, in order."""
    found = []
    for one in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(one, (list, tuple)):
            found.extend(flat_results(one))
        elif isinstance(one, Tensor):
            found.append((tuple(one.shape), tuple(one.stride()), one.storage_offset()))
        elif type(one) is int:
            found.append(one)
        else:
            found.append(None)
    return found


def run(mode, func, operator, args, kwargs, fakes):
    """The result of an operator some of whose sizes are symbolic."""
    from corten._subclasses import _fake_run

    from . import _symbolic_rules

    env = mode.shape_env
    rule = _symbolic_rules.find(operator)
    if rule is not None:
        changed = rule(env, *args, **kwargs)
        if isinstance(changed, (list, _symbolic_rules.Direct)):
            return _direct(mode, changed)
        if changed is not None:
            args, kwargs = changed
    problem = Problem(env, func, operator, args, kwargs, fakes)
    if not problem.symbols():
        args, kwargs = _known(args), {name: _known(value) for name, value in kwargs.items()}
        return _fake_run.run_meta(mode, func, operator, args, kwargs, fakes)
    if _SPARSE.fullmatch(operator.packet) is not None:
        # Sizes of tensors of other layouts are numbers.
        _specialise(problem)
        return _fake_run._run(mode, func, operator, args, kwargs, fakes)
    try:
        found, result = solve(problem)
    except NotImplementedError as error:
        if "FakeTensor" in str(error) or not mode.allow_fallback_kernels:
            raise
        found = None
    if found is None:
        _specialise(problem)
        return _fake_run._run(mode, func, operator, args, kwargs, fakes)
    device = _fake_run._result_device(func, operator, args, kwargs, fakes)
    return _wrapped(mode, problem, result, device, found)


def _direct(mode, found):
    """Views of given geometries."""
    from corten._subclasses.fake_tensor import FakeTensor

    if isinstance(found, list):
        return [_direct(mode, one) for one in found]
    geometry = SymbolicGeometry(mode.shape_env, found.sizes, found.strides, found.offset)
    with _disable_current_modes():
        elem = meta_of(found.base.dtype, *geometry.samples())
    made = FakeTensor(mode, elem, found.base.device, _source=found.base)
    attach(mode.shape_env, made, geometry)
    return made


def _known(value):
    if isinstance(value, _SYMBOLIC):
        return value.node.pytype(value.node.expr)
    if type(value) in (list, tuple):
        return type(value)(map(_known, value))
    return value


def _wrapped(mode, problem, result, device, found):
    from corten._subclasses import _fake_run

    env, places = mode.shape_env, iter(found)

    def mark(made, place, existing=False):
        geometry = next(places)
        if not existing or problem.operator.changes_geometry:
            geometry = SymbolicGeometry(env, *geometry)
            if existing:
                _take(made, geometry.samples())
            attach(env, made, geometry)

    if not problem.operator.returns_tensors and result is not None:
        single = not isinstance(result, (list, tuple))
        made = [env.create_symintnode(one) if isinstance(one, ex.Expr) else value
                for one, value in zip(found, (result,) if single else result)]
        return made[0] if single else type(result)(made)
    return _fake_run.wrap(mode, problem.operator, result, device, problem.pairs, problem.fakes, mark)


def solve(problem):
    """The expressions of the results' sizes and a result at the samples; None where there are none.

    Raises:
        Exception: The operator refuses the sizes of the example.
    """
    env, symbols = problem.env, problem.symbols()
    key = _key(problem)
    kept = env.__dict__.setdefault("_solved", {}).get(key)
    if kept is not None:
        return kept, problem.run(env.samples())
    hints = None
    if not any(symbol.unbacked for symbol in symbols):
        hints = flat_results(problem.run(env.backed_var_to_val))
    for trial in _trials(problem):
        problem.trial = trial
        try:
            result = problem.run(env.samples())
            pairs = problem.pairs
            found = Recovery(problem, result).expressions()
            problem.pairs = pairs
        except NotImplementedError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError, UnrecoverableSizeError) as error:
            failure = error
            continue
        if found is None or hints is not None and not _agrees(env, problem, found, hints):
            failure = None
            continue
        if trial:
            _record(env, trial)
            problem.trial = {}
            result = problem.run(env.samples())
        env._solved[_key(problem)] = found
        return found, result
    if hints is None:
        if isinstance(failure, Exception) and not isinstance(failure, UnrecoverableSizeError):
            raise failure
        raise UnrecoverableSizeError(
            f"{problem.func}: the sizes of the result could not be expressed by those of its arguments, "
            f"{[tuple(map(str, one.sizes)) for one in problem.geometries.values()]}"
        )
    problem.trial = {}
    return None, None


def _key(problem):
    parts = [problem.func, problem.env._get_key()[1:3]]
    for value in (problem.args, tuple(problem.kwargs.items())):
        parts.append(_part(problem, value))
    return tuple(parts)


def _part(problem, value):
    if isinstance(value, Tensor):
        found = problem.geometries.get(id(value))
        if found is None:
            return "real", id(value)
        return "T", found.sizes, found.strides, found.offset, value.dtype, value.is_conj()
    if isinstance(value, _SYMBOLIC):
        return "S", problem.env.replace(value.node.expr)
    if type(value) in (list, tuple):
        return tuple(_part(problem, one) for one in value)
    if isinstance(value, (int, float, str, bool, complex, type(None))):
        return type(value).__name__, value
    return str(value)


def _trials(problem):
    """What may be taken for granted: nothing, then equalities of sizes, then single symbols as numbers."""
    yield {}
    env = problem.env
    yield from _equal_sizes(problem)
    for symbol in problem_symbols(problem):
        if not symbol.unbacked:
            yield {symbol: env.backed_var_to_val[symbol]}


def problem_symbols(problem):
    """The symbols of a call, without assumptions."""
    problem.trial = {}
    return problem.symbols()


def _equal_sizes(problem):
    """Assumptions that sizes of different tensors are equal, counted from the last."""
    problem.trial = {}
    sizes = [
        list(map(problem.env.replace, geometry.sizes)) for geometry in problem.geometries.values()
    ]
    pairs = []
    for first in sizes:
        for second in sizes:
            if first is second:
                continue
            for one in _aligned(first, second):
                pairs.append(one)
    single, together = [], {}
    for one, two in dict.fromkeys(pairs):
        assumed = _assumption(problem.env, one, two)
        if assumed and assumed not in single:
            single.append(assumed)
            if together.keys().isdisjoint(assumed):
                together.update(assumed)
    yield from single
    if len(together) > 1:
        yield together


def _aligned(first, second):
    yield from zip(reversed(first), reversed(second))
    yield from ((one, two) for one in first for two in second)


def _assumption(env, one, two):
    if one == two or 1 in (one, two):
        return None
    if not isinstance(one, ex.Symbol):
        one, two = two, one
    if not isinstance(one, ex.Symbol) or one in ex.symbols_of(two):
        return None
    known = env.hint_of(one), env.hint_of(two)
    if None not in known and known[0] != known[1]:
        return None
    if not one.unbacked and isinstance(two, ex.Symbol) and two.unbacked:
        one, two = two, one
    if None in known and not one.unbacked:
        return None
    if isinstance(two, ex.Symbol) and two.unbacked == one.unbacked and env._age(two) > env._age(one):
        one, two = two, one
    return {one: two}


def _record(env, trial):
    for symbol, value in trial.items():
        condition = ex.relation("Eq", symbol, value)
        if any(one.unbacked for one in ex.symbols_of(condition)):
            env.expect_true(condition)
        else:
            env.evaluate(condition)


def _agrees(env, problem, found, hints):
    def value(expr):
        return problem.value(expr, env.backed_var_to_val)

    for one, hint in zip(found, hints):
        if isinstance(hint, tuple):
            sizes = tuple(map(value, one[0]))
            if sizes != hint[0] or value(one[2]) != hint[2]:
                return False
            if 0 not in sizes and any(
                size > 1 and value(stride) != known for size, stride, known in zip(sizes, one[1], hint[1])
            ):
                return False
        elif hint is not None and value(one) != hint:
            return False
    return len(found) == len(hints)


def _specialise(problem):
    """Lets all symbols of a call be the numbers that they are in the example."""
    env = problem.env
    for symbol in problem_symbols(problem):
        env.evaluate(symbol)


def lift(args, kwargs, env):
    """Arguments with symbolic numbers in place of their samples."""
    known = env._known_samples
    if not known:
        return args, kwargs

    def number(value):
        kind = type(value)
        if kind is int and (value > 500 or value < -500 or value > 20 and value in known):
            expr = lift_number(env, value)
            return value if expr is None else env.create_symintnode(env.replace(expr))
        if kind is float and value in known:
            expr = known[value]
            return env.create_symfloatnode(expr) if ex.is_float(expr) else value
        if kind in (tuple, list):
            return kind(map(number, value))
        return value

    return tuple(map(number, args)), {name: number(value) for name, value in kwargs.items()}


_SPARSE = re.compile("_?to_sparse.*|_?sparse_.*")
_VIEW = re.compile(r"aten::(_unsafe_)?view(_copy)?(\.default)?|aten::_?reshape(_copy)?(\.default)?")


def _lift_view(args, lifted, env):
    """The arguments of a view, whose sizes go together."""
    geometry = geometry_of(env, args[0]) if hasattr(args[0], "_elem") else None
    if geometry is None or not geometry.has_symbols() or len(args) < 2 or not isinstance(args[1], (list, tuple)):
        return lifted
    if not all(type(one) is int for one in args[1]):
        return lifted
    taken = [env.replace(one.node.expr) if isinstance(one, SymInt) else one for one in lifted[1]]
    found = lift_view(env, env.replace(geometry.numel()), list(args[1]), taken)
    return (lifted[0], type(args[1])(map(env.create_symintnode, found)), *lifted[2:])


def environment(args, kwargs):
    """The environment of the mode that is in force, or of the tensors of a call, or None."""
    from corten._subclasses.fake_tensor import FakeTensor, _leaves, active_mode

    mode = active_mode()
    if mode is None:
        mode = next((one.fake_mode for one in _leaves(args, kwargs) if isinstance(one, FakeTensor)), None)
    return None if mode is None else mode.shape_env


def lift_arguments(name, args, kwargs):
    """Arguments of a call of an operator with symbolic numbers in place of their samples."""
    env = environment(args, kwargs)
    if env is None:
        return args, kwargs
    lifted = lift(args, kwargs, env)
    if _VIEW.fullmatch(name) is not None and env._known_samples:
        return _lift_view(args, lifted[0], env), lifted[1]
    return lifted
