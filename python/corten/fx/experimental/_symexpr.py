"""Expressions of integers that are not known: polynomials of symbols, floor divisions, remainders and the like.

An expression is an `int`, a `float`, a `bool` or an :class:`Expr`; the functions of this module take and
give any of them. Sums of products are canonical, so that equal polynomials are equal objects by ``==``.
"""

from __future__ import annotations

import math
import operator


class Expr:
    """An expression that is no number."""

    __slots__ = ()

    def __add__(self, other):
        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other):
        return add(self, mul(other, -1))

    def __rsub__(self, other):
        return add(other, mul(self, -1))

    def __mul__(self, other):
        return mul(self, other)

    __rmul__ = __mul__

    def __neg__(self):
        return mul(self, -1)

    def __pow__(self, power):
        return power_of(self, power)

    def __floordiv__(self, other):
        return floordiv(self, other)

    def __rfloordiv__(self, other):
        return floordiv(other, self)

    def __mod__(self, other):
        return modulo(self, other)

    def __rmod__(self, other):
        return modulo(other, self)

    def __lt__(self, other):
        return relation("Lt", self, other)

    def __le__(self, other):
        return relation("Le", self, other)

    def __gt__(self, other):
        return relation("Gt", self, other)

    def __ge__(self, other):
        return relation("Ge", self, other)

    def __repr__(self):
        return str(self)

    @property
    def free_symbols(self):
        """The symbols in the expression."""
        return symbols_of(self)

    def subs(self, mapping):
        """The expression with others in place of symbols."""
        return substitute(self, mapping)

    xreplace = subs

    @property
    def is_symbol(self):
        """Whether this is a symbol alone."""
        return isinstance(self, Symbol)

    is_number = False


class Symbol(Expr):
    """A number that is not known: that of an input (`s0`), of data (`u0`), or a float (`zf0`)."""

    __slots__ = ("name", "unbacked", "is_float")

    def __init__(self, name, *, unbacked=False, is_float=False):
        self.name, self.unbacked, self.is_float = name, unbacked, is_float

    def __str__(self):
        return self.name


class Call(Expr):
    """A function of expressions, by its name in :data:`FUNCTIONS`."""

    __slots__ = ("name", "args", "_hash")

    def __init__(self, name, *args):
        self.name, self.args = name, args
        self._hash = hash((name, args))

    def __eq__(self, other):
        return isinstance(other, Call) and self.name == other.name and self.args == other.args

    def __hash__(self):
        return self._hash

    def __str__(self):
        args = ", ".join(map(str, self.args))
        if self.name == "FloorDiv":
            return f"({_in_parentheses(self.args[0])}//{_in_parentheses(self.args[1])})"
        if self.name == "Piecewise":
            return f"Piecewise(({self.args[1]}, {self.args[0]}), ({self.args[2]}, True))"
        return f"{self.name}({args})"


def _in_parentheses(expr):
    text = str(expr)
    is_sum = isinstance(expr, Poly) and (len(expr.terms) > 1 or "*" in text or text.startswith("-"))
    return f"({text})" if is_sum else text


class Poly(Expr):
    """A sum of products: coefficients by products of powers of symbols and calls."""

    __slots__ = ("terms", "_hash")

    def __init__(self, terms):
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __eq__(self, other):
        return isinstance(other, Poly) and self.terms == other.terms

    def __hash__(self):
        return self._hash

    def __str__(self):
        ordered = sorted(self.terms.items(), key=_Order)
        if len(ordered) == 2 and not ordered[1][0] and ordered[1][1] > 0 and ordered[0][1] < 0 \
                and len(ordered[0][0]) == 1 and ordered[0][0][0][1] == 1:
            ordered.reverse()
        parts = []
        for product, factor in ordered:
            text = _product_text(product, abs(factor))
            if parts:
                parts.append(f" {'-' if factor < 0 else '+'} {text}")
            else:
                parts.append(f"-{text}" if factor < 0 else text)
        return "".join(parts)


class _Order:
    """Products in lexicographic order, of high powers first and numbers last."""

    def __init__(self, item):
        self.powers = {str(atom): power for atom, power in item[0]}

    def __lt__(self, other):
        for name in sorted({*self.powers, *other.powers}):
            mine, theirs = self.powers.get(name, 0), other.powers.get(name, 0)
            if mine != theirs:
                return mine > theirs
        return False


def _product_text(product, factor):
    parts = []
    if factor != 1 or not product:
        parts.append(str(factor))
    for atom, power in sorted(product, key=lambda item: str(item[0])):
        text = str(atom)
        if isinstance(atom, Call) and atom.name == "FloorDiv":
            text = f"({text})"
        parts.append(text if power == 1 else f"{text}**{power}")
    return "*".join(parts)


class Condition(Expr):
    """A relation of two expressions, or a combination of conditions."""

    __slots__ = ("name", "args", "_hash")

    def __init__(self, name, *args):
        self.name, self.args = name, args
        self._hash = hash((name, args))

    def __eq__(self, other):
        return isinstance(other, Condition) and self.name == other.name and self.args == other.args

    def __hash__(self):
        return self._hash

    def __str__(self):
        if self.name in ("Eq", "Ne"):
            return f"{self.name}({self.args[0]}, {self.args[1]})"
        if self.name in _SIGNS:
            return f"{self.args[0]} {_SIGNS[self.name]} {self.args[1]}"
        if self.name == "Not":
            return f"~({self.args[0]})"
        sign = " & " if self.name == "And" else " | "
        return sign.join(f"({arg})" for arg in self.args)


_SIGNS = {"Lt": "<", "Le": "<=", "Gt": ">", "Ge": ">="}
_NEGATED = {"Eq": "Ne", "Ne": "Eq", "Lt": "Ge", "Ge": "Lt", "Gt": "Le", "Le": "Gt"}
_RELATIONS = {
    "Eq": operator.eq, "Ne": operator.ne, "Lt": operator.lt, "Le": operator.le, "Gt": operator.gt, "Ge": operator.ge,
}


def is_number(expr):
    """Whether an expression is a number."""
    return not isinstance(expr, Expr)


def terms_of(expr):
    """Coefficients by products."""
    if isinstance(expr, Poly):
        return expr.terms
    if isinstance(expr, Expr):
        return {((expr, 1),): 1}
    return {(): expr} if expr != 0 else {}


def _from_terms(terms):
    terms = {product: factor for product, factor in terms.items() if factor != 0}
    if not terms:
        return 0
    if len(terms) == 1:
        (product, factor), = terms.items()
        if not product:
            return factor
        if factor == 1 and len(product) == 1 and product[0][1] == 1:
            return product[0][0]
    return Poly(terms)


def add(*parts):
    """The sum."""
    if all(map(is_number, parts)):
        return sum(parts)
    total = {}
    for part in parts:
        for product, factor in terms_of(part).items():
            total[product] = total.get(product, 0) + factor
    return _from_terms(total)


def mul(a, b):
    """The product."""
    if is_number(a) and is_number(b):
        return a * b
    total = {}
    for left, x in terms_of(a).items():
        for right, y in terms_of(b).items():
            product = _merge(left, right)
            total[product] = total.get(product, 0) + x * y
    return _from_terms(total)


def _merge(left, right):
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(((atom, power) for atom, power in powers.items() if power), key=lambda item: str(item[0])))


def product(parts):
    """The product of all."""
    result = 1
    for part in parts:
        result = mul(result, part)
    return result


def power_of(a, power):
    """A power with an integer exponent that is not negative; others are floats."""
    if is_number(a) and is_number(power):
        return a ** power
    if isinstance(power, int) and power >= 0:
        return product([a] * power)
    return Call("FloatPow", to_float(a), power if is_number(power) else to_float(power))


def divide_exactly(a, b):
    """``a / b`` where that is a polynomial with integer coefficients, or None."""
    if is_number(a) and is_number(b):
        return a // b if b and a % b == 0 else None
    divisor = terms_of(b)
    if len(divisor) != 1:
        if len(divisor) > 1 and isinstance(a, Expr):
            return _divide_by_sum(a, b)
        return None
    (below, factor), = divisor.items()
    quotient = {}
    for above, coefficient in terms_of(a).items():
        powers = dict(above)
        for atom, power in below:
            if powers.get(atom, 0) < power:
                return None
            powers[atom] -= power
        if coefficient % factor:
            return None
        quotient[tuple((atom, power) for atom, power in powers.items() if power)] = coefficient // factor
    return _from_terms(quotient)


def _divide_by_sum(a, b):
    """``a / b`` where `a` is a product of `b` and one term."""
    first = next(iter(terms_of(b)))
    for above in terms_of(a):
        candidate = divide_exactly(_from_terms({above: terms_of(a)[above]}), _from_terms({first: terms_of(b)[first]}))
        if candidate is not None and mul(candidate, b) == a:
            return candidate
    return None


def floordiv(a, b):
    """The quotient, rounded down.

    Raises:
        ZeroDivisionError: The divisor is zero.
    """
    if is_number(b) and b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if is_number(a) and is_number(b):
        return a // b
    exact = divide_exactly(a, b)
    if exact is not None:
        return exact
    if is_number(b):
        # Multiples of the divisor come out, what is left stays inside.
        whole = {product: factor for product, factor in terms_of(a).items() if factor % b == 0}
        if whole:
            rest = _from_terms({p: f for p, f in terms_of(a).items() if p not in whole})
            return add(divide_exactly(_from_terms(whole), b), floordiv(rest, b))
        if isinstance(a, Call) and a.name == "FloorDiv" and is_number(a.args[1]) and b > 0 and a.args[1] > 0:
            return floordiv(a.args[0], a.args[1] * b)
        common = math.gcd(b, *terms_of(a).values()) if all(isinstance(f, int) for f in terms_of(a).values()) else 1
        if common > 1:
            return floordiv(divide_exactly(a, common), b // common)
    return Call("FloorDiv", a, b)


def modulo(a, b):
    """The remainder, with the sign of the divisor.

    Raises:
        ZeroDivisionError: The divisor is zero.
    """
    if is_number(b) and b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    if is_number(a) and is_number(b):
        return a % b
    if divide_exactly(a, b) is not None:
        return 0
    if is_number(b):
        rest = {product: factor % b for product, factor in terms_of(a).items()}
        a = _from_terms(rest)
        if is_number(a):
            return a % b
    return Call("Mod", a, b)


def maximum(a, b):
    """The greater one."""
    return _extreme("Max", max, a, b)


def minimum(a, b):
    """The lesser one."""
    return _extreme("Min", min, a, b)


def _extreme(name, function, a, b):
    if is_number(a) and is_number(b):
        return function(a, b)
    if a == b:
        return a
    difference = add(a, mul(b, -1))
    if is_number(difference):
        greater = a if difference > 0 else b
        lesser = b if difference > 0 else a
        return greater if name == "Max" else lesser
    parts = []
    for one in (a, b):
        parts.extend(one.args if isinstance(one, Call) and one.name == name else (one,))
    numbers = [part for part in parts if is_number(part)]
    others = sorted({part for part in parts if not is_number(part)}, key=str)
    return Call(name, *([function(numbers)] if numbers else []), *others)


def to_float(a):
    """The number as a float."""
    if is_number(a):
        return float(a)
    return a if is_float(a) else Call("ToFloat", a)


def is_float(expr):
    """Whether an expression is of floats."""
    if isinstance(expr, Symbol):
        return expr.is_float
    if isinstance(expr, Call):
        return expr.name in _FLOATS
    if isinstance(expr, Poly):
        return any(isinstance(f, float) for f in expr.terms.values()) or any(
            is_float(atom) for product in expr.terms for atom, _ in product
        )
    return isinstance(expr, float)


_FLOATS = {"ToFloat", "IntTrueDiv", "FloatTrueDiv", "FloatPow", "RoundDecimal"}


def call(name, *args):
    """A function of expressions; its value where they are numbers."""
    if all(map(is_number, args)):
        return FUNCTIONS[name](*args)
    return Call(name, *args)


def relation(name, a, b):
    """``a`` compared to ``b``."""
    if is_number(a) and is_number(b):
        return _RELATIONS[name](a, b)
    if isinstance(a, Condition) or isinstance(b, Condition) or isinstance(a, bool) or isinstance(b, bool):
        return Condition(name, a, b)
    difference = add(a, mul(b, -1))
    if is_number(difference):
        return _RELATIONS[name](difference, 0)
    return Condition(name, a, b)


def negate(condition):
    """The contrary."""
    if is_number(condition):
        return not condition
    if condition.name in _NEGATED:
        return Condition(_NEGATED[condition.name], *condition.args)
    if condition.name == "Not":
        return condition.args[0]
    return Condition("Not", condition)


def both(a, b):
    """Whether both conditions hold."""
    if is_number(a):
        return b if a else False
    if is_number(b):
        return a if b else False
    return a if a == b else Condition("And", a, b)


def either(a, b):
    """Whether one of the conditions holds."""
    if is_number(a):
        return True if a else b
    if is_number(b):
        return True if b else a
    return a if a == b else Condition("Or", a, b)


def _round(a, digits=None):
    return round(a) if digits is None else round(a, digits)


#: What the functions of calls compute.
FUNCTIONS = {
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Max": lambda *a: max(a), "Min": lambda *a: min(a),
    "Abs": abs, "ToFloat": float, "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv,
    "FloatPow": operator.pow, "TruncToInt": math.trunc, "CeilToInt": math.ceil, "FloorToInt": math.floor,
    "RoundToInt": _round, "RoundDecimal": _round, "Piecewise": lambda c, a, b: a if c else b,
    "BitwiseFn_bitwise_and": operator.and_, "BitwiseFn_bitwise_or": operator.or_,
    "BitwiseFn_bitwise_xor": operator.xor, "LShift": operator.lshift, "RShift": operator.rshift,
}
for _name in ("sqrt", "cos", "sin", "tan", "cosh", "sinh", "tanh", "acos", "asin", "atan", "exp", "log", "log2"):
    FUNCTIONS[f"OpaqueUnaryFn_{_name}"] = getattr(math, _name)
    _FLOATS.add(f"OpaqueUnaryFn_{_name}")


def symbols_of(expr, _found=None):
    """The symbols in an expression."""
    found = set() if _found is None else _found
    if isinstance(expr, Symbol):
        found.add(expr)
    elif isinstance(expr, Poly):
        for term in expr.terms:
            for atom, _ in term:
                symbols_of(atom, found)
    elif isinstance(expr, (Call, Condition)):
        for arg in expr.args:
            symbols_of(arg, found)
    return found


def calls_of(expr, name):
    """The calls of a function in an expression, the outer ones first."""
    if isinstance(expr, Poly):
        return [one for term in expr.terms for atom, _ in term for one in calls_of(atom, name)]
    if not isinstance(expr, (Call, Condition)):
        return []
    own = [expr] if isinstance(expr, Call) and expr.name == name else []
    return own + [one for arg in expr.args for one in calls_of(arg, name)]


def evaluate(expr, values, functions=FUNCTIONS):
    """The value of an expression with values of its symbols, which may be whatever has arithmetic."""
    if not isinstance(expr, Expr):
        return expr
    if isinstance(expr, Symbol):
        return values[expr]
    if isinstance(expr, Poly):
        total = None
        for term, factor in sorted(expr.terms.items(), key=_Order):
            value = None
            for atom, power in term:
                one = evaluate(atom, values, functions)
                for _ in range(power):
                    value = one if value is None else value * one
            value = factor if value is None else value if factor == 1 else value * factor
            total = value if total is None else total + value
        return total
    args = [evaluate(arg, values, functions) for arg in expr.args]
    if isinstance(expr, Call):
        return functions[expr.name](*args)
    if expr.name in _RELATIONS:
        return _RELATIONS[expr.name](*args)
    return {"And": all, "Or": any, "Not": lambda a: not a[0]}[expr.name](args)


_REBUILD = {
    "FloorDiv": floordiv, "Mod": modulo, "ToFloat": to_float,
    "Max": lambda *args: _fold(maximum, args), "Min": lambda *args: _fold(minimum, args),
}


def _fold(function, args):
    result = args[0]
    for arg in args[1:]:
        result = function(result, arg)
    return result


def substitute(expr, mapping):
    """The expression with others in place of symbols."""
    if not isinstance(expr, Expr) or not mapping or mapping.keys().isdisjoint(symbols_of(expr)):
        return expr
    if isinstance(expr, Symbol):
        return mapping.get(expr, expr)
    if isinstance(expr, Poly):
        parts = []
        for term, factor in expr.terms.items():
            value = factor
            for atom, power in term:
                value = mul(value, product([substitute(atom, mapping)] * power))
            parts.append(value)
        return add(*parts)
    args = [substitute(arg, mapping) for arg in expr.args]
    if isinstance(expr, Call):
        rebuild = _REBUILD.get(expr.name)
        return rebuild(*args) if rebuild else call(expr.name, *args)
    if expr.name in _RELATIONS:
        return relation(expr.name, *args)
    if expr.name == "Not":
        return negate(args[0])
    return (both if expr.name == "And" else either)(*args)
