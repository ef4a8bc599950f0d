"""Operators of each element by itself."""

from __future__ import annotations

import math

from corten.onnx._builder import category, promote
from corten.onnx._graph import BOOL, DOUBLE, FLOAT, FLOATS, INT32, INT64, INTEGERS, UINT8, Value
from corten.onnx._table import translation

#: Operators that are one of ONNX, computed in the type of the result.
_SAME = {
    "abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "ceil": "Ceil", "floor": "Floor", "sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf",
    "reciprocal": "Reciprocal", "sign": "Sign", "special_expit": "Sigmoid", "special_erf": "Erf", "sgn": "Sign",
}


def _enter_unary(name, op_type):
    @translation(name)
    def unary(g, self):
        if g.out.dtype not in FLOATS and op_type in ("Ceil", "Floor"):
            return self
        return g.op(op_type, g.cast(self, g.out.dtype))


for _name, _op_type in _SAME.items():
    _enter_unary(_name, _op_type)


def unary(g, op_type, value):
    """An operator of ONNX of one value."""
    return g.op(op_type, value, shape=value.shape)


@translation("rsqrt")
def rsqrt(g, self):
    return unary(g, "Reciprocal", unary(g, "Sqrt", g.cast(self, g.out.dtype)))


@translation("log2", "log10")
def log2(g, self):
    base = 2.0 if "log2" in g.label else 10.0
    value = unary(g, "Log", g.cast(self, g.out.dtype))
    return g.binary("Mul", value, 1 / math.log(base))


@translation("log1p", "special_log1p")
def log1p(g, self):
    """The sum rounds small values away: Kahan's correction brings them back."""
    value = g.cast(self, g.out.dtype)
    shifted = g.binary("Add", value, 1.0)
    rest = g.binary("Sub", shifted, 1.0)
    zero = g.op("Equal", rest, g.like(0.0, rest), dtype=BOOL, shape=rest.shape)
    safe = g.op("Where", zero, g.like(1.0, rest), rest, dtype=rest.dtype, shape=rest.shape)
    exact = g.binary("Mul", unary(g, "Log", shifted), g.binary("Div", value, safe))
    return g.op("Where", zero, value, exact, dtype=value.dtype)


@translation("expm1", "special_expm1")
def expm1(g, self):
    """``tanh(x / 2) (exp(x) + 1)``, which keeps the digits near zero that the difference loses."""
    value = g.cast(self, g.out.dtype)
    tangent = unary(g, "Tanh", g.binary("Mul", value, 0.5))
    return g.binary("Mul", tangent, g.binary("Add", unary(g, "Exp", value), 1.0))


@translation("exp2", "special_exp2")
def exp2(g, self):
    return g.op("Pow", g.like(2.0, g.scalar(0, g.out.dtype)), g.cast(self, g.out.dtype), dtype=g.out.dtype)


@translation("square")
def square(g, self):
    self = g.cast(self, g.out.dtype)
    return g.op("Mul", self, self)


@translation("erfc", "special_erfc")
def erfc(g, self):
    return g.op("Sub", g.scalar(1.0, g.out.dtype), unary(g, "Erf", g.cast(self, g.out.dtype)))


@translation("trunc", "fix")
def trunc(g, self):
    if self.dtype not in FLOATS:
        return self
    whole = unary(g, "Floor", unary(g, "Abs", self))
    return g.binary("Mul", whole, unary(g, "Sign", self))


@translation("frac")
def frac(g, self):
    return g.binary("Sub", self, trunc(g, self))


@translation("deg2rad", "rad2deg")
def deg2rad(g, self):
    factor = math.pi / 180 if "deg2rad" in g.label else 180 / math.pi
    return g.binary("Mul", g.cast(self, g.out.dtype), factor)


@translation("round")
def rounded(g, self, decimals=0):
    if self.dtype not in FLOATS:
        return self
    if not decimals:
        return g.op("Round", self)
    factor = float(10**decimals)
    return g.binary("Div", unary(g, "Round", g.binary("Mul", self, factor)), factor)


@translation("logit", "special_logit")
def logit(g, self, eps=None):
    self = g.cast(self, g.out.dtype)
    if eps is not None:
        self = g.op("Clip", self, g.like(eps, self), g.like(1 - eps, self), shape=self.shape)
    return unary(g, "Log", g.binary("Div", self, g.binary("Sub", g.like(1.0, self), self)))


@translation("isnan")
def isnan(g, self):
    return _of_floats(g, "IsNaN", self)


@translation("isinf")
def isinf(g, self):
    return _of_floats(g, "IsInf", self)


@translation("isfinite")
def isfinite(g, self):
    either = g.op("Or", _of_floats(g, "IsNaN", self), _of_floats(g, "IsInf", self), dtype=BOOL)
    return g.op("Not", either, dtype=BOOL)


def _of_floats(g, op_type, value):
    if value.dtype not in (FLOAT, DOUBLE):
        value = g.cast(value, FLOAT)
    return g.op(op_type, value, dtype=BOOL, shape=value.shape)


@translation("logical_not")
def logical_not(g, self):
    return g.op("Not", truth(g, self), dtype=BOOL)


@translation("bitwise_not")
def bitwise_not(g, self):
    return g.op("Not" if self.dtype == BOOL else "BitwiseNot", self)


def truth(g, value):
    """Whether elements are not zero."""
    if not isinstance(value, Value):
        return g.scalar(bool(value), BOOL)
    return value if value.dtype == BOOL else g.cast(value, BOOL)


@translation("logical_and", "logical_or", "logical_xor")
def logical(g, self, other):
    op_type = {"and": "And", "or": "Or", "xor": "Xor"}[g.label.split("_")[1].split(".")[0]]
    return g.op(op_type, truth(g, self), truth(g, other), dtype=BOOL)


@translation("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__")
def bitwise(g, self, other):
    word = next(word for word in ("and", "xor", "or") if word in g.label)
    op_type = {"and": "And", "or": "Or", "xor": "Xor"}[word]
    dtype = g.out.dtype
    return g.op(op_type if dtype == BOOL else f"Bitwise{op_type}", g.cast(self, dtype), g.cast(other, dtype), dtype=dtype)


@translation("bitwise_left_shift", "__lshift__")
def left_shift(g, self, other):
    return g.binary("Mul", self, _power_of_two(g, other), g.out.dtype)


@translation("bitwise_right_shift", "__rshift__")
def right_shift(g, self, other):
    return floor_divide(g, self, _power_of_two(g, other))


def _power_of_two(g, exponent):
    if not isinstance(exponent, Value):
        return 2**exponent
    power = g.op("Pow", g.scalar(2.0, DOUBLE), g.cast(exponent, DOUBLE), dtype=DOUBLE, shape=exponent.shape)
    return g.cast(power, g.out.dtype)


# Arithmetic.


@translation("add")
def add(g, self, other, *, alpha=1):
    if g.out.dtype == BOOL:
        return g.op("Or", truth(g, self), truth(g, other), dtype=BOOL)
    return g.binary("Add", self, _scaled(g, other, alpha), g.out.dtype)


@translation("sub", "subtract")
def sub(g, self, other, *, alpha=1):
    return g.binary("Sub", self, _scaled(g, other, alpha), g.out.dtype)


@translation("rsub")
def rsub(g, self, other, alpha=1):
    return g.binary("Sub", other, _scaled(g, self, alpha), g.out.dtype)


def _scaled(g, value, alpha):
    if not isinstance(alpha, Value) and alpha == 1:
        return value
    if not isinstance(value, Value) and not isinstance(alpha, Value):
        return value * alpha
    return g.binary("Mul", value, alpha, g.out.dtype)


@translation("mul", "multiply")
def mul(g, self, other):
    if g.out.dtype == BOOL:
        return g.op("And", truth(g, self), truth(g, other), dtype=BOOL)
    return g.binary("Mul", self, other, g.out.dtype)


@translation("div", "true_divide", "divide")
def div(g, self, other, *, rounding_mode=None):
    if rounding_mode == "floor":
        return floor_divide(g, self, other)
    if rounding_mode == "trunc":
        quotient = g.binary("Div", self, other, g.out.dtype)
        return trunc(g, quotient)
    return g.binary("Div", self, other, g.out.dtype)


@translation("floor_divide")
def floor_divide(g, self, other):
    dtype = g.out.dtype
    self, other = g.cast(self, dtype), g.cast(other, dtype)
    if dtype in FLOATS:
        return unary(g, "Floor", g.binary("Div", self, other))
    rest = g.binary("Mod", self, other)
    return g.binary("Div", g.binary("Sub", self, rest), other)


@translation("remainder")
def remainder(g, self, other):
    dtype = g.out.dtype
    self, other = g.cast(self, dtype), g.cast(other, dtype)
    if dtype not in FLOATS:
        return g.op("Mod", self, other)
    quotient = unary(g, "Floor", g.binary("Div", self, other))
    return g.binary("Sub", self, g.binary("Mul", quotient, other))


@translation("fmod")
def fmod(g, self, other):
    dtype = g.out.dtype
    return g.op("Mod", g.cast(self, dtype), g.cast(other, dtype), fmod=1)


@translation("pow", "float_power")
def power(g, self, exponent):
    dtype = g.out.dtype
    if exponent == 2 and not isinstance(exponent, Value):
        return square(g, self)
    if exponent == 0.5 and not isinstance(exponent, Value):
        return g.op("Sqrt", g.cast(self, dtype))
    return g.binary("Pow", self, exponent, dtype)


@translation("maximum", "fmax", "max.other")
def maximum(g, self, other):
    return _least_or_most(g, "Max", self, other)


@translation("minimum", "fmin", "min.other")
def minimum(g, self, other):
    return _least_or_most(g, "Min", self, other)


def _least_or_most(g, op_type, self, other):
    if g.out.dtype == BOOL:
        return g.op("Or" if op_type == "Max" else "And", self, other)
    return g.binary(op_type, self, other, g.out.dtype)


@translation("atan2", "arctan2")
def atan2(g, self, other):
    y, x = g.cast(self, g.out.dtype), g.cast(other, g.out.dtype)
    angle = unary(g, "Atan", g.binary("Div", y, x))
    negative = g.op("Less", y, g.like(0.0, y), dtype=BOOL, shape=y.shape)
    half_turn = g.op("Where", negative, g.like(-math.pi, y), g.like(math.pi, y), dtype=y.dtype, shape=y.shape)
    left = g.op("Less", x, g.like(0.0, x), dtype=BOOL, shape=x.shape)
    turned = g.op("Where", left, g.binary("Add", angle, half_turn), angle, dtype=y.dtype)
    zero = g.op("And", g.op("Equal", x, g.like(0.0, x), dtype=BOOL), g.op("Equal", y, g.like(0.0, y), dtype=BOOL), dtype=BOOL)
    return g.op("Where", zero, g.like(0.0, y), turned, dtype=y.dtype)


@translation("hypot")
def hypot(g, self, other):
    a, b = g.cast(self, g.out.dtype), g.cast(other, g.out.dtype)
    return unary(g, "Sqrt", g.binary("Add", g.binary("Mul", a, a), g.binary("Mul", b, b)))


@translation("copysign")
def copysign(g, self, other):
    size = unary(g, "Abs", g.cast(self, g.out.dtype))
    other = g.cast(other, g.out.dtype)
    # The sign of zero is that of its reciprocal.
    inverse = unary(g, "Reciprocal", other)
    negative = g.op("Less", inverse, g.like(0.0, inverse), dtype=BOOL)
    return g.op("Where", negative, unary(g, "Neg", size), size, dtype=size.dtype)


@translation("xlogy", "special_xlogy")
def xlogy(g, self, other):
    self, other = g.cast(self, g.out.dtype), g.cast(other, g.out.dtype)
    product = g.binary("Mul", self, unary(g, "Log", other))
    zero = g.op("Equal", self, g.like(0.0, self), dtype=BOOL)
    found = g.op("Where", zero, g.like(0.0, self), product, dtype=self.dtype)
    nan = g.op("IsNaN", other, dtype=BOOL)
    return g.op("Where", nan, other, found, dtype=self.dtype)


@translation("logaddexp")
def logaddexp(g, self, other):
    self, other = g.cast(self, g.out.dtype), g.cast(other, g.out.dtype)
    most = g.binary("Max", self, other)
    distance = unary(g, "Abs", g.binary("Sub", self, other))
    return g.binary("Add", most, unary(g, "Softplus", unary(g, "Neg", distance)))


@translation("heaviside")
def heaviside(g, self, values):
    zero = g.op("Equal", self, g.like(0, self), dtype=BOOL)
    positive = g.cast(g.op("Greater", self, g.like(0, self), dtype=BOOL), g.out.dtype)
    return g.op("Where", zero, g.cast(values, g.out.dtype), positive, dtype=g.out.dtype)


@translation("addcmul")
def addcmul(g, self, tensor1, tensor2, *, value=1):
    product = g.binary("Mul", tensor1, tensor2, g.out.dtype)
    return g.binary("Add", self, _scaled(g, product, value), g.out.dtype)


@translation("addcdiv")
def addcdiv(g, self, tensor1, tensor2, *, value=1):
    quotient = g.binary("Div", tensor1, tensor2, g.out.dtype)
    return g.binary("Add", self, _scaled(g, quotient, value), g.out.dtype)


@translation("lerp")
def lerp(g, self, end, weight):
    return g.binary("Add", self, g.binary("Mul", g.binary("Sub", end, self), weight, g.out.dtype))


# Comparisons and choices.

_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


@translation("eq", "lt", "le", "gt", "ge", "greater", "less", "greater_equal", "less_equal")
def compare(g, self, other):
    name = g.label.split(".")[1]
    name = {"greater": "gt", "less": "lt", "greater_equal": "ge", "less_equal": "le"}.get(name, name)
    return comparison(g, _COMPARISONS[name], self, other)


@translation("ne", "not_equal")
def ne(g, self, other):
    return g.op("Not", comparison(g, "Equal", self, other), dtype=BOOL)


def comparison(g, op_type, a, b):
    """A comparison in the type that both operands have together."""
    dtype = promote(a, b)
    if dtype == BOOL and op_type != "Equal":
        dtype = INT32
    if category(dtype) == 1 and dtype not in (INT32, INT64) and op_type != "Equal":
        dtype = INT64
    return g.op(op_type, g.cast(a, dtype), g.cast(b, dtype), dtype=BOOL)


@translation("where")
def where(g, condition, self=None, other=None):
    if self is None and other is None:
        from corten.onnx._translations.indexing import positions

        return positions(g, condition)
    dtype = g.out.dtype
    return g.op("Where", truth(g, condition), g.cast(self, dtype), g.cast(other, dtype), dtype=dtype)


@translation("masked_fill")
def masked_fill(g, self, mask, value):
    return g.op("Where", truth(g, mask), g.cast(value, self.dtype), self, dtype=self.dtype)


@translation("clamp", "clip")
def clamp(g, self, min=None, max=None):  # noqa: A002
    dtype = g.out.dtype
    value = g.cast(self, dtype)
    bounds = [bound for bound in (min, max) if bound is not None]
    if all(not isinstance(bound, Value) or not bound.shape for bound in bounds) and dtype in FLOATS | {INT64, INT32, UINT8}:
        low = None if min is None else g.cast(_within(min, dtype), dtype)
        high = None if max is None else g.cast(_within(max, dtype), dtype)
        return g.op("Clip", value, low, high)
    if min is not None:
        value = g.binary("Max", value, min)
    return value if max is None else g.binary("Min", value, max)


def _within(bound, dtype):
    """A bound that integers can be compared with."""
    if isinstance(bound, float) and math.isinf(bound) and dtype in INTEGERS:
        return -(2**31) if bound < 0 else 2**31 - 1
    return bound


@translation("clamp_min")
def clamp_min(g, self, min):  # noqa: A002
    return clamp(g, self, min, None)


@translation("clamp_max")
def clamp_max(g, self, max):  # noqa: A002
    return clamp(g, self, None, max)


@translation("nan_to_num")
def nan_to_num(g, self, nan=None, posinf=None, neginf=None):
    if self.dtype not in FLOATS:
        return self
    largest = {FLOAT: 3.4028234663852886e38, DOUBLE: 1.7976931348623157e308, 10: 65504.0, 16: 3.3895313892515355e38}[self.dtype]
    low, high = -largest if neginf is None else neginf, largest if posinf is None else posinf
    value = g.op("Where", _of_floats(g, "IsNaN", self), g.like(nan or 0.0, self), self, dtype=self.dtype, shape=self.shape)
    infinite = g.like(math.inf, self), g.like(-math.inf, self)
    for bound, number in zip(infinite, (high, low)):
        equal = g.op("Equal", value, bound, dtype=BOOL)
        value = g.op("Where", equal, g.like(number, self), value, dtype=self.dtype, shape=self.shape)
    return value


# Types and copies.


@translation("alias", "detach", "clone", "contiguous", "lift_fresh_copy", "lift_fresh", "lift", "detach_", "dropout", "alpha_dropout", "feature_dropout",
             "_conj", "resolve_conj", "resolve_neg", "_assert_tensor_metadata_and_alias", "positive", "real", "requires_grad")
def identity(g, self, *rest, **options):
    if g.label.startswith(("aten.dropout", "aten.alpha_dropout", "aten.feature_dropout")) and rest and rest[-1] is True:
        return dropout_in_training(g, self, rest[0])
    return self


def dropout_in_training(g, self, p):
    """Dropout that runs: only the plain one is an operator."""
    if not g.label.startswith("aten.dropout"):
        g.refuse("only dropout by elements can be exported in training mode; call model.eval() first")
    return g.op("Dropout", self, g.scalar(p, FLOAT), g.scalar(True, BOOL))


@translation("native_dropout")
def native_dropout(g, self, p, train=None):
    if train is False:
        return self, None
    mask = g.op("Dropout", self, g.scalar(p, FLOAT), g.scalar(train is not False, BOOL), outputs=2)
    mask[1].dtype = BOOL
    return mask


@translation("_to_copy", "to", "type_as", "_autocast_to_reduced_precision", "_autocast_to_full_precision", "to_dense")
def to(g, self, *rest, **options):
    return g.cast(self, g.out.dtype)


@translation("copy")
def copy(g, self, src, non_blocking=False):
    """The elements of ``src`` in the type and the shape of ``self``."""
    return g.op("Expand", g.cast(src, self.dtype), g.sizes(self), dtype=self.dtype, shape=self.shape)


@translation("prims.convert_element_type")
def convert_element_type(g, self, dtype):
    return g.cast(self, g.out.dtype)
