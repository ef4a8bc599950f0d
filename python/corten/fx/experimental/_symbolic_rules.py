"""Operators whose arguments decide something about sizes, which becomes a guard before the shape rule runs."""

from __future__ import annotations

import re

from corten._symbolic_numbers import SymInt

from . import _symexpr as ex
from ._recovery import exact_quotients

_RULES = []


def _rule(pattern):
    """Makes a function the rule of the operators whose names a pattern matches."""

    def keep(function):
        _RULES.append((re.compile(pattern), function))
        return function

    return keep


def find(operator):
    """The rule of an operator, or None."""
    if operator.namespace != "aten":
        return None
    if not hasattr(operator, "size_rule"):
        operator.size_rule = next((rule for pattern, rule in _RULES if pattern.fullmatch(operator.packet)), None)
    return operator.size_rule


def _expr(value):
    return value.node.expr if isinstance(value, SymInt) else value


def _geometry(env, tensor):
    from ._symbolic_tensor import geometry_of

    return geometry_of(env, tensor)


@_rule("(_unsafe_)?view(_copy)?|_?reshape(_copy)?")
def _view(env, self, size, **kwargs):
    if not isinstance(size, (list, tuple)):
        return None
    sizes = [env.replace(_expr(one)) for one in size]
    numel = env.replace(_geometry(env, self).numel())
    if sizes.count(-1) != 1:
        quotients = exact_quotients(env, sizes, numel)
        for quotient in quotients:
            env.expect_true(ex.relation("Eq", ex.modulo(*quotient.args), 0))
        if quotients:
            _obey(env)
        return None
    rest = ex.product(one for one in sizes if one != -1)
    if isinstance(rest, ex.Expr) or isinstance(numel, ex.Expr):
        remainder = ex.modulo(numel, rest)
        if isinstance(remainder, ex.Expr):
            holds = env.expect_true(ex.relation("Eq", remainder, 0))
            if not holds:
                return None
            _obey(env)
        sizes[sizes.index(-1)] = ex.floordiv(numel, rest)
        return (self, [env.create_symintnode(one) for one in sizes]), kwargs
    return None


def _obey(env):
    """Gives symbols samples that obey what is known of their divisors."""
    changed = False
    for rule in list(env.divisible):
        rule = env.replace(rule)
        if ex.is_number(rule):
            continue
        symbols = sorted(ex.symbols_of(rule), key=str)
        values, symbol = env._sample_of_symbol, symbols[-1]
        for _ in range(256):
            if ex.evaluate(rule, values) == 0:
                break
            env._known_samples.pop(values[symbol], None)
            env._set_sample(symbol, values[symbol] + 1)
            changed = True
    if changed:
        env._known_samples = {value: expr for value, expr in env._known_samples.items() if isinstance(expr, ex.Symbol)}
        env.refresh_tensors()


@_rule("slice")
def _slice(env, self, dim=0, start=None, end=None, step=1):
    geometry = _geometry(env, self)
    if not geometry.sizes or not isinstance(dim, int):
        return None
    size = env.replace(geometry.sizes[dim])
    first, last = _bound(env, start, size, 0), _bound(env, end, size, size)
    if last is not size and env.evaluate(ex.relation("Lt", last, first), fallback=False):
        last = first
    if any(symbol.unbacked for one in (first, last) for symbol in ex.symbols_of(one)):
        return _slice_of_data(env, self, geometry, dim, (first, last, step))
    return (self, dim, env.create_symintnode(first), env.create_symintnode(last), step), {}


class Direct:
    """A view whose geometry a rule gives."""

    def __init__(self, base, sizes, strides, offset):
        self.base, self.sizes, self.strides, self.offset = base, sizes, strides, offset


def _slice_of_data(env, self, geometry, dim, bounds):
    """A slice whose bounds depend on data; so does its length, where they may lie outside."""
    first, last, step = bounds
    size = env.replace(geometry.sizes[dim])
    length = ex.floordiv(ex.add(last, ex.mul(first, -1), step - 1), step)
    inside = env.decide(ex.relation("Le", last, size)) and env.decide(ex.relation("Le", first, last)) \
        and env.decide(ex.relation("Ge", first, 0))
    if not inside:
        length = env.create_unbacked_symint().node._expr
        env._constrain_range_for_size(length, 0, env.bounds(size)[1])
    sizes, strides = list(geometry.sizes), list(geometry.strides)
    offset = ex.add(geometry.offset, ex.mul(first, strides[dim]))
    sizes[dim], strides[dim] = length, ex.mul(strides[dim], step)
    return Direct(self, sizes, strides, offset)


@_rule("split_with_sizes")
def _split_with_sizes(env, self, split_sizes, dim=0):
    """Pieces whose lengths depend on data are as long as the whole together."""
    lengths = [env.replace(_expr(one)) for one in split_sizes]
    if not any(symbol.unbacked for one in lengths for symbol in ex.symbols_of(one)):
        return None
    geometry = _geometry(env, self)
    env.expect_true(ex.relation("Eq", ex.add(*lengths), env.replace(geometry.sizes[dim])))
    pieces, start = [], 0
    for length in lengths:
        if isinstance(length, ex.Symbol):
            env._constrain_range_for_size(length)
        sizes = list(geometry.sizes)
        sizes[dim] = length
        offset = ex.add(geometry.offset, ex.mul(start, geometry.strides[dim]))
        pieces.append(Direct(self, sizes, list(geometry.strides), offset))
        start = ex.add(start, length)
    return pieces


def _bound(env, value, size, default):
    """A bound of a slice, within the size."""
    if value is None or isinstance(value, int) and value >= 1 << 62:
        return default if value is None else size
    bound = env.replace(_expr(value))
    if bound == size:
        return size
    if env.evaluate(ex.relation("Lt", bound, 0), fallback=False):
        bound = ex.add(bound, size)
        if env.evaluate(ex.relation("Lt", bound, 0), fallback=False):
            return 0
    if env.evaluate(ex.relation("Gt", bound, size), fallback=False):
        return size
    return bound


@_rule("unbind")
def _items(env, self, dim=0):
    sizes = [env.replace(one) for one in _geometry(env, self).sizes]
    if dim in range(-len(sizes), len(sizes)) and isinstance(sizes[dim], ex.Expr):
        env.evaluate(sizes[dim])
    return None


@_rule("(unsafe_)?(split|chunk)|tensor_split")
def _pieces(env, self, amount=0, dim=0, **kwargs):
    geometry = _geometry(env, self)
    sizes = [env.replace(one) for one in geometry.sizes]
    if isinstance(amount, (list, tuple)) or not sizes:
        return None
    if len(sizes) and dim in range(-len(sizes), len(sizes)) and isinstance(sizes[dim], ex.Expr):
        size = sizes[dim]
        piece = env.replace(_expr(amount))
        if piece == size:
            return None
        count = ex.floordiv(ex.add(size, piece, -1), piece) if not isinstance(piece, int) or piece > 0 else 1
        if isinstance(count, ex.Expr):
            env.evaluate(size)
    return None


@_rule("expand")
def _expand(env, self, size, **kwargs):
    """Sizes that are expanded to are equal to those that are there, or these are 1."""
    have = [env.replace(one) for one in _geometry(env, self).sizes]
    wanted = [env.replace(_expr(one)) for one in size]
    for one, two in zip(reversed(have), reversed(wanted)):
        if two != -1 and one != 1 and one != two and (isinstance(one, ex.Expr) or isinstance(two, ex.Expr)):
            if not env.expect_true(ex.relation("Eq", one, two)):
                return None
    return None
