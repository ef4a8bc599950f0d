"""``SymInt``, ``SymFloat`` and ``SymBool``: numbers that are not known, as sizes of traced programs are."""

from __future__ import annotations

__all__ = ["SymBool", "SymFloat", "SymInt"]


class _Symbolic:
    """A number by its node, which does the computing."""

    __slots__ = ("node",)

    def __init__(self, node):
        from corten.fx.experimental.sym_node import SymNode

        if not isinstance(node, SymNode) and not hasattr(node, "expr"):
            raise AssertionError(f"expected a SymNode, got {type(node)}")
        self.node = node

    def __repr__(self):
        return self.node._graph_repr() if hasattr(self.node, "_graph_repr") else str(self.node)

    def __reduce_ex__(self, protocol):
        raise RuntimeError(f"{type(self).__name__} cannot be pickled: it belongs to the trace of a program")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def _sample(self):
        """The number in whose place operators compute."""
        return self.node.sample()

    def __bool__(self):
        return self.node.bool_()

    def __int__(self):
        return self.node.int_()

    def __float__(self):
        return self.node.guard_float("", 0)


def _binary(name):
    def method(self, other):
        from corten.fx.experimental import sym_node

        return sym_node.binary(name, self, other)

    return method


def _reflected(name):
    def method(self, other):
        from corten.fx.experimental import sym_node

        return sym_node.binary(name, other, self)

    return method


def _unary(name):
    def method(self):
        from corten.fx.experimental import sym_node

        return sym_node.unary(name, self)

    return method


class _Number(_Symbolic):
    """An integer or float."""

    __slots__ = ()

    def __round__(self, ndigits=None):
        from corten.fx.experimental import sym_node

        return sym_node.rounded(self, ndigits)

    __abs__, __neg__, __pos__ = _unary("abs"), _unary("neg"), _unary("pos")
    __trunc__, __floor__, __ceil__ = _unary("trunc"), _unary("floor"), _unary("ceil")
    __sym_float__, __sym_int__ = _unary("sym_float"), _unary("sym_int")


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(_Number, f"__{_name}__", _binary(_name))
    setattr(_Number, f"__r{_name}__", _reflected(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(_Number, f"__{_name}__", _binary(_name))
_Number.__sym_max__, _Number.__sym_min__ = _binary("sym_max"), _binary("sym_min")
for _name in ("sqrt", "cos", "sin", "tan", "cosh", "sinh", "tanh", "acos", "asin", "atan", "exp", "log", "log2"):
    setattr(_Number, f"__sym_{_name}__", _unary(f"sym_{_name}"))


class SymInt(_Number):
    """An integer that is not known.

    Arithmetic gives further ones; what needs to know it (``if``, ``range``, ``int``) goes by its hint, the
    value in the example that is traced, and records that as a guard.
    """

    __slots__ = ("__weakref__",)

    def __index__(self):
        return self.node.int_()

    def __hash__(self):
        known = self.node.maybe_as_int()
        if known is None:
            raise TypeError("unhashable type: non-nested SymInt")
        return hash(known)

    def is_integer(self):
        """True."""
        return True

    def bit_length(self):
        """The number of bits, at the hint."""
        return int(self).bit_length()

    def conjugate(self):
        """The number."""
        return self

    def as_integer_ratio(self):
        """The number and one."""
        return self, 1


for _name in ("and", "or", "xor", "lshift", "rshift"):
    setattr(SymInt, f"__{_name}__", _binary(f"{_name}_" if _name in ("and", "or") else _name))
    setattr(SymInt, f"__r{_name}__", _reflected(f"{_name}_" if _name in ("and", "or") else _name))


class SymFloat(_Number):
    """A float that is not known."""

    __slots__ = ("__weakref__",)

    def __hash__(self):
        if self.node.is_constant():
            return hash(float(self))
        return id(self.node)

    is_integer = _unary("is_integer")

    def conjugate(self):
        """The number."""
        return self


class SymBool(_Symbolic):
    """A condition that is not known; ``&``, ``|`` and :func:`torch.sym_not` combine such."""

    __slots__ = ("__weakref__",)

    __and__ = __rand__ = _binary("and_")
    __or__ = __ror__ = _binary("or_")
    __eq__, __ne__ = _binary("eq"), _binary("ne")
    __sym_not__ = _unary("sym_not")

    def __sym_ite__(self, then, otherwise):
        from corten.fx.experimental import sym_node

        return sym_node.choose(self, then, otherwise)

    def __hash__(self):
        known = self.node.maybe_as_bool()
        if known is None:
            raise TypeError("unhashable type: SymBool")
        return hash(known)

    def __int__(self):
        return int(bool(self))

    def _as_int(self):
        from corten.fx.experimental import sym_node

        return sym_node.choose(self, 1, 0)

    def __add__(self, other):
        return self._as_int() + other

    __radd__ = __add__

    def __mul__(self, other):
        return self._as_int() * other

    __rmul__ = __mul__

    def __sub__(self, other):
        return self._as_int() - other


for _class in (SymInt, SymFloat, SymBool):
    _class.__module__ = "torch" if __name__.startswith("torch") else "corten"
