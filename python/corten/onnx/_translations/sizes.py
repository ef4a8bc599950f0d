"""Numbers of Python: sizes that are known when the model runs, and what is computed with them."""

from __future__ import annotations

from corten.onnx._graph import BOOL, DOUBLE, INT64, Value
from corten.onnx._table import translation


@translation("sym_size")
def sym_size(g, self, dim):
    return g.size(self, dim)


@translation("sym_numel", "numel")
def sym_numel(g, self):
    count = 1
    for dim in range(self.rank):
        count = g.compute("Mul", count, g.size(self, dim))
    return count


@translation("sym_storage_offset", "sym_stride")
def sym_stride(g, *arguments):
    g.refuse("strides have no meaning in ONNX")


@translation("item", "_local_scalar_dense")
def item(g, self):
    found = g.op("Reshape", g.cast(self, g.out.dtype), g.vector([1]), shape=(1,))
    found.is_size = True
    return found


@translation("sym_constrain_range", "sym_constrain_range_for_size", "_assert_scalar", "_assert_async", "_assert_tensor_metadata",
             "_functional_assert_async", "_functional_assert_scalar", "_functional_sym_constrain_range", "_assert", "python.assert")
def nothing(g, *arguments, **options):
    return None


def _number(g, op_type, a, b, dtype=None):
    """An operator of two numbers."""
    wide = DOUBLE if DOUBLE in (_type(a), _type(b)) else INT64
    a, b = (_as(g, part, wide) for part in (a, b))
    found = g.op(op_type, a, b, dtype=dtype or wide, shape=(1,))
    found.is_size = True
    return found


def _type(value):
    return value.dtype if isinstance(value, Value) else DOUBLE if isinstance(value, float) else INT64


def _as(g, value, dtype):
    if not isinstance(value, Value):
        return g.vector([value], dtype)
    if not value.is_size:
        value = g.op("Reshape", value, g.vector([1]), shape=(1,))
    if value.dtype == dtype:
        return value
    found = g.op("Cast", value, dtype=dtype, shape=(1,), to=dtype)
    found.is_size = True
    return found


def _enter(name, op_type, dtype=None):
    @translation(name)
    def number(g, a, b):
        return _number(g, op_type, a, b, dtype)


for _name, _op_type in (("add", "Add"), ("sub", "Sub"), ("mul", "Mul"), ("mod", "Mod"), ("sym_max", "Max"), ("sym_min", "Min"),
                        ("pow", "Pow"), ("max", "Max"), ("min", "Min"), ("pow_by_natural", "Pow")):
    _enter(f"python.{_name}", _op_type)
for _name, _op_type in (("eq", "Equal"), ("lt", "Less"), ("le", "LessOrEqual"), ("gt", "Greater"), ("ge", "GreaterOrEqual")):
    _enter(f"python.{_name}", _op_type, BOOL)


@translation("python.ne")
def ne(g, a, b):
    return _not(g, _number(g, "Equal", a, b, BOOL))


@translation("python.not", "python.sym_not")
def _not(g, a):
    found = g.op("Not", _as(g, a, BOOL), dtype=BOOL, shape=(1,))
    found.is_size = True
    return found


@translation("python.and", "python.or")
def both(g, a, b):
    found = g.op("And" if "and" in g.label else "Or", _as(g, a, BOOL), _as(g, b, BOOL), dtype=BOOL, shape=(1,))
    found.is_size = True
    return found


@translation("python.floordiv")
def floordiv(g, a, b):
    if isinstance(b, int) and b > 0 and _type(a) == INT64:
        # The remainder is not negative, so that the quotient rounds down.
        return _number(g, "Div", _number(g, "Sub", a, _number(g, "Mod", a, b)), b)
    if DOUBLE in (_type(a), _type(b)):
        return _rounded(g, _number(g, "Div", a, b), "Floor", DOUBLE)
    return _number(g, "Div", _number(g, "Sub", a, _number(g, "Mod", a, b)), b)


@translation("python.truediv", "python.int_truediv", "python.float_truediv")
def truediv(g, a, b):
    return _number(g, "Div", _as(g, a, DOUBLE), _as(g, b, DOUBLE))


@translation("python.neg")
def neg(g, a):
    return _number(g, "Sub", 0, a)


@translation("python.abs")
def absolute(g, a):
    return _number(g, "Max", a, neg(g, a))


def _rounded(g, value, op_type, dtype):
    found = g.op(op_type, value, shape=(1,))
    found.is_size = True
    return _as(g, found, dtype)


@translation("python.floor", "python.ceil", "python.trunc", "python.sym_int", "python.int", "python.round")
def rounded(g, a):
    if _type(a) == INT64:
        return a
    if "trunc" in g.label or "int" in g.label:
        return _as(g, a, INT64)
    op_type = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}[g.label.rpartition(".")[2].strip("_")]
    return _rounded(g, a, op_type, INT64)


@translation("python.sym_float", "python.float")
def sym_float(g, a):
    return _as(g, a, DOUBLE)


@translation("python.sqrt", "python.sym_sqrt")
def sqrt(g, a):
    return _rounded(g, _as(g, a, DOUBLE), "Sqrt", DOUBLE)


@translation("python.sym_ite")
def sym_ite(g, condition, a, b):
    found = g.op("Where", _as(g, condition, BOOL), _as(g, a, _type(a)), _as(g, b, _type(a)), dtype=_type(a), shape=(1,))
    found.is_size = True
    return found


@translation("python.sym_sum")
def sym_sum(g, values):
    total = values[0]
    for value in values[1:]:
        total = _number(g, "Add", total, value)
    return total
