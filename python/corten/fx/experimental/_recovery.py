"""Which expression of known ones has given values: see Note [Recovery of sizes] in `_symbolic_tensor.py`."""

from __future__ import annotations

import random
from fractions import Fraction

from . import _symexpr as ex
from ._sym_errors import UnrecoverableSizeError


class Recovery:
    """The expressions of a result's sizes and strides.

    Args:
        problem: The call, which can be run with other values of the symbols.
        result: Its result at the samples.
    """

    def __init__(self, problem, result):
        from ._symbolic_tensor import flat_results

        self.problem, self.env = problem, problem.env
        self.symbols, self._flat = problem.symbols(), flat_results
        self.probes = [dict(self.env.samples())]
        self.runs = [flat_results(result)]
        for turn in (1, 2, 3):
            self._probe(self._shifted(turn))
        self.pool = None

    def _shifted(self, turn):
        """Other values of the symbols, which obey what is known of them."""
        values = dict(self.env.samples())
        numbers = random.Random(turn)
        for symbol in self.symbols:
            values[symbol] = numbers.randint(900, 2300)
        return self._obedient(values)

    def _obedient(self, values):
        for rule in self.env.divisible:
            rule = self.env.replace(rule)
            if ex.is_number(rule) or not ex.symbols_of(rule) <= values.keys():
                continue
            for symbol in sorted(ex.symbols_of(rule), key=str):
                for _ in range(256):
                    if ex.evaluate(rule, values) == 0:
                        break
                    values[symbol] += 1
        return values

    def _probe(self, values):
        found = self._flat(self.problem.run(values))
        if len(found) != len(self.runs[0]):
            raise UnrecoverableSizeError("the number of results depends on sizes")
        self.probes.append(values)
        self.runs.append(found)

    def expressions(self):
        """For each tensor sizes, strides and offset, for each number its expression."""
        values = self.problem.value
        self.pool = {}
        for expr in (*self.problem.expressions(), *self.symbols):
            vector = tuple(values(expr, probe) for probe in self.probes)
            if all(isinstance(one, int) for one in vector):
                self.pool.setdefault(vector, expr)
        found = [self._result(place) for place in range(len(self.runs[0]))]
        self._confirm(found)
        return found

    def _result(self, place):
        runs = [run[place] for run in self.runs]
        if runs[0] is None:
            return None
        if isinstance(runs[0], int):
            return self._number(tuple(runs), lambda run: run[place])
        if len({len(run[0]) for run in runs}) != 1:
            raise UnrecoverableSizeError("the number of dimensions depends on sizes")
        rank = len(runs[0][0])
        sizes = [
            self._number(tuple(run[0][dim] for run in runs), lambda run, dim=dim: run[place][0][dim])
            for dim in range(rank)
        ]
        # Strides are most often products of sizes.
        behind = 1
        for size in reversed(sizes):
            behind = ex.mul(behind, size)
            if isinstance(behind, ex.Expr):
                self.pool.setdefault(tuple(self.problem.value(behind, probe) for probe in self.probes), behind)
        strides = [
            self._number(tuple(run[1][dim] for run in runs), lambda run, dim=dim: run[place][1][dim])
            for dim in range(rank)
        ]
        return sizes, strides, self._number(tuple(run[2] for run in runs), lambda run: run[place][2])

    def _number(self, vector, ask, depth=2):
        expr = self._search(vector, ask, depth)
        if expr is None:
            raise UnrecoverableSizeError(f"no expression has the values {vector}")
        if isinstance(expr, ex.Expr):
            self.pool.setdefault(vector, expr)
        return expr

    def _search(self, vector, ask, depth):
        if len(set(vector)) == 1:
            return vector[0]
        found = self.pool.get(vector)
        if found is not None:
            return found
        for values, expr in list(self.pool.items()):
            line = _line(vector, values)
            if line is not None:
                return ex.add(ex.mul(expr, line[0]), line[1])
        if depth == 0:
            return None
        return self._product(vector, depth) or self._sum(vector, depth) or self._quotient(vector, ask)

    def _product(self, vector, depth):
        for values, expr in list(self.pool.items()):
            if all(b and a % b == 0 for a, b in zip(vector, values)):
                rest = self._search(tuple(a // b for a, b in zip(vector, values)), None, depth - 1)
                if rest is not None:
                    return ex.mul(expr, rest)
        return None

    def _sum(self, vector, depth):
        for values, expr in list(self.pool.items()):
            for factor in (1, -1, 2):
                rest = tuple(a - factor * b for a, b in zip(vector, values))
                other = self._search(rest, None, 0)
                if other is not None:
                    return ex.add(ex.mul(expr, factor), other)
        return None

    def _quotient(self, vector, ask):
        """``(p * expression + c) // q``, where runs with neighbouring sizes tell which `c` it is."""
        if ask is None:
            return None
        for values, expr in list(self.pool.items()):
            if values[1] == values[0]:
                continue
            slope = Fraction(vector[1] - vector[0], values[1] - values[0]).limit_denominator(64)
            if slope.denominator == 1 and slope.numerator == 0:
                continue
            for candidate in {slope, *_near(vector, values)}:
                found = self._floor(candidate, expr, ask, vector, values)
                if found is not None:
                    return found
        return None

    def _floor(self, slope, expr, ask, vector, values):
        p, q = slope.numerator, slope.denominator
        if q < 2 or _offsets(p, q, vector, values) is None:
            return None
        symbol = max(ex.symbols_of(expr), key=str)
        points, results, seen = list(values), list(vector), set()
        for step in range(1, 8 * q + 1):
            probe = {**self.probes[0], symbol: self.probes[0][symbol] + step}
            point = self.problem.value(expr, probe)
            if point % q in seen or self._obedient(dict(probe)) != probe:
                continue
            seen.add(point % q)
            points.append(point)
            results.append(ask(self._flat(self.problem.run(probe))))
        offsets = _offsets(p, q, results, points)
        if offsets is None or offsets[0] != offsets[1]:
            return None
        # As windows have it: the last position, and one.
        whole = -(-offsets[0] // q)
        return ex.add(ex.floordiv(ex.add(ex.mul(expr, p), offsets[0] - whole * q), q), whole)

    def _confirm(self, found):
        """Compares the expressions to a run that did not choose them.

        Raises:
            UnrecoverableSizeError: They differ.
        """
        probe = self._shifted(4)
        run = self._flat(self.problem.run(probe))
        for expected, one in zip(run, found):
            if isinstance(expected, tuple):
                sizes, strides, offset = one
                now = (
                    tuple(self.problem.value(size, probe) for size in sizes),
                    tuple(self.problem.value(stride, probe) for stride in strides),
                    self.problem.value(offset, probe),
                )
            else:
                now = None if one is None else self.problem.value(one, probe)
            if now != expected:
                raise UnrecoverableSizeError(f"the sizes {expected} are not {now}, as the expressions say")


def _line(vector, values):
    """Factor and offset where one sequence of numbers is a multiple of another with an offset, or None."""
    below = values[1] - values[0]
    if below == 0 or (vector[1] - vector[0]) % below:
        return None
    factor = (vector[1] - vector[0]) // below
    if factor == 0:
        return None
    offset = vector[0] - factor * values[0]
    if any(a != factor * b + offset for a, b in zip(vector, values)):
        return None
    return factor, offset


def _near(vector, values):
    """Small fractions that two sequences of numbers may be related by."""
    found = []
    for q in range(2, 17):
        p = round(q * vector[0] / values[0]) if values[0] else 0
        if p and abs(q * vector[0] - p * values[0]) < 16 * q:
            found.append(Fraction(p, q))
    return [one for one in found if one.denominator > 1]


def _offsets(p, q, vector, values):
    """The least and greatest `c` for which ``vector`` is ``(p * values + c) // q``, or None."""
    low = max(q * a - p * b for a, b in zip(vector, values))
    high = min(q * a + q - 1 - p * b for a, b in zip(vector, values))
    return (low, high) if low <= high else None


def lift_number(env, value):
    """The expression that has a value with the samples of the symbols, or None where that is a number."""
    known = env._known_samples
    found = known.get(value)
    if found is not None:
        return found
    if value < 0:
        found = lift_number(env, -value)
        return None if found is None else ex.mul(found, -1)
    if value > (1 << 62):
        return None
    refused = env.__dict__.setdefault("_constants", set())
    if value in refused:
        return None
    expressions = [(one, expr) for one, expr in known.items() if isinstance(one, int) and one > 500]
    found = _lift(expressions, value, known)
    if found is None:
        refused.add(value)
    else:
        known[value] = found
    return found


def _sum(expressions, value):
    """The sum or difference of two expressions that has a value, or None."""
    for one, expr in expressions:
        for other, second in expressions:
            for total, factor in ((one + other, 1), (one - other, -1)):
                if total == value:
                    return ex.add(expr, ex.mul(second, factor))
    return None


def lift_view(env, numel, sizes, lifted):
    """The sizes of a view in place of their samples. Their product is the number of elements: where it is not, one
    of them was taken for something else that has the same sample, and follows from the others.

    Args:
        numel: The number of elements.
        sizes: The samples.
        lifted: What each of them was taken for.
    """
    if -1 in sizes or ex.product(lifted) == numel or exact_quotients(env, lifted, numel):
        return lifted
    for place in sorted(range(len(sizes)), key=lambda place: isinstance(lifted[place], ex.Symbol)):
        rest = ex.product(one for other, one in enumerate(lifted) if other != place)
        size = ex.floordiv(numel, rest) if rest != 0 else 0
        if env.sample_of(size) == sizes[place] and _agree(env, ex.mul(size, rest), numel):
            env.expect_true(ex.relation("Eq", ex.modulo(numel, rest), 0))
            return [*lifted[:place], size, *lifted[place + 1:]]
    return lifted


def exact_quotients(env, sizes, numel):
    """The quotients among sizes whose product is a number of elements where nothing is left of them, as of
    ``x.view(x.shape[0] // 2, 2, -1)``; none where that is not the reason, or not so in the example."""
    product, found = ex.product(sizes), []
    while product != numel:
        quotient = next(iter(ex.calls_of(product, "FloorDiv")), None)
        rest = None if quotient is None else ex.divide_exactly(product, quotient)
        if rest is None or env.hint_of(ex.modulo(*quotient.args)) != 0:
            return []
        product, numel = ex.mul(quotient.args[0], rest), ex.mul(numel, quotient.args[1])
        found.append(quotient)
    return found


def _agree(env, one, other):
    """Whether expressions have one value in the example, where that is known."""
    values = env.hint_of(one), env.hint_of(other)
    return None in values or values[0] == values[1]


def _lift(expressions, value, known):
    for one, expr in expressions:
        if abs(value - one) <= 8:
            return ex.add(expr, value - one)
    for one, expr in expressions:
        if value % one == 0:
            rest = value // one
            # What is no size of its own may be made of some, too: only then it is a number of the program.
            other = known.get(rest, _sum(expressions, rest) if rest > 500 else None)
            if other is not None or rest <= 4096:
                return ex.mul(expr, rest if other is None else other)
    for one, expr in expressions:
        for other, second in expressions:
            if one + other == value:
                return ex.add(expr, second)
            if one - other == value:
                return ex.add(expr, ex.mul(second, -1))
    for one, expr in expressions:
        for q in range(2, 9):
            if one // q == value:
                return ex.floordiv(expr, q)
            if -(-one // q) == value:
                return ex.floordiv(ex.add(expr, q - 1), q)
            for p in range(2, 4 * q):
                if p % q and one * p // q == value:
                    return ex.floordiv(ex.mul(expr, p), q)
        for p in (2, 3, 4):
            if abs(value - p * one) <= 8:
                return ex.add(ex.mul(expr, p), value - p * one)
    return None
