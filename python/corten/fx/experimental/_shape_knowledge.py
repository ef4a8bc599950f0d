"""What conditions that hold say of symbols: what they are equal to, and within which range they lie."""

from __future__ import annotations

import math

from . import _symexpr as ex


class Knowledge:
    """What an environment learns from its guards."""

    def _learn(self, condition):
        """Takes a condition that holds into what is known of symbols."""
        if not isinstance(condition, ex.Expr):
            return
        if condition.name == "And":
            for part in condition.args:
                self._learn(part)
        elif condition.name == "Eq":
            self._learn_equality(*condition.args)
        elif condition.name in ("Lt", "Le", "Gt", "Ge"):
            self._learn_bound(condition)

    def _learn_equality(self, a, b):
        if isinstance(a, (ex.Condition, bool)) or isinstance(b, (ex.Condition, bool)):
            return
        if isinstance(a, ex.Call) and a.name == "Mod" and b == 0:
            self.divisible.add(a)
            return
        difference = ex.terms_of(ex.add(a, ex.mul(b, -1)))
        candidates = [
            (product[0][0], factor) for product, factor in difference.items()
            if len(product) == 1 and product[0][1] == 1 and isinstance(product[0][0], ex.Symbol) and abs(factor) == 1
            and not any(product[0][0] in ex.symbols_of(ex._from_terms({other: 1})) for other in difference if other != product)
        ]
        if not candidates:
            self._divide_equality(difference)
            return
        # What data tells becomes what inputs tell, and later symbols earlier ones.
        symbol, factor = max(candidates, key=lambda one: (one[0].unbacked, self._age(one[0])))
        rest = ex._from_terms({p: f for p, f in difference.items() if p != ((symbol, 1),)})
        value = ex.mul(rest, -factor)
        # A difference of samples may be negative, which no size is.
        if symbol.is_float or ex.is_number(value) or ex.evaluate(value, self._sample_of_symbol) > 0:
            self._replace_by(symbol, value)

    def _divide_equality(self, difference):
        """``6*s == 24`` and ``s*t == 4*t`` say what ``s`` is."""
        if len(difference) != 2:
            return
        (one, x), (two, y) = difference.items()
        left, right = ex._from_terms({one: x}), ex._from_terms({two: -y})
        for symbol in sorted(ex.symbols_of(left) | ex.symbols_of(right), key=lambda s: (s.unbacked, self._age(s)), reverse=True):
            for a, b in ((left, right), (right, left)):
                rest = ex.divide_exactly(a, symbol)
                if rest is None or symbol in ex.symbols_of(rest) or symbol in ex.symbols_of(b):
                    continue
                value = ex.divide_exactly(b, rest)
                if value is not None and self.bounds(rest)[0] > 0:
                    self._replace_by(symbol, value)
                    return

    def _age(self, symbol):
        return list(self._sample_of_symbol).index(symbol) if symbol in self._sample_of_symbol else -1

    def _replace_by(self, symbol, target):
        low, high = self.bounds(target)
        least, most = self.var_to_range.get(symbol, (-math.inf, math.inf))
        if isinstance(target, ex.Symbol):
            self.var_to_range[target] = (max(low, least), min(high, most))
            if symbol in self.size_like:
                self.size_like.add(target)
        elif ex.is_number(target):
            self.var_to_range[symbol] = (target, target)
        self.replacements[symbol] = target
        for known, value in list(self.replacements.items()):
            self.replacements[known] = ex.substitute(value, {symbol: target})
        self.refresh_tensors()

    def _learn_bound(self, condition):
        difference = ex.terms_of(ex.add(condition.args[0], ex.mul(condition.args[1], -1)))
        rest = {product: factor for product, factor in difference.items() if product}
        if len(rest) != 1:
            return
        (product, factor), = rest.items()
        if len(product) != 1 or product[0][1] != 1 or not isinstance(product[0][0], ex.Symbol):
            return
        symbol, constant = product[0][0], difference.get((), 0)
        name = condition.name
        if factor < 0:
            factor, constant = -factor, -constant
            name = {"Lt": "Gt", "Gt": "Lt", "Le": "Ge", "Ge": "Le"}[name]
        # factor * symbol + constant <name> 0
        edge, (low, high) = -constant / factor, self.var_to_range.get(symbol, (-math.inf, math.inf))
        if name == "Lt":
            high = min(high, math.ceil(edge) - 1)
        elif name == "Le":
            high = min(high, math.floor(edge))
        elif name == "Gt":
            low = max(low, math.floor(edge) + 1)
        else:
            low = max(low, math.ceil(edge))
        self.var_to_range[symbol] = (low, high)
        if low == high:
            self._replace_by(symbol, low)
