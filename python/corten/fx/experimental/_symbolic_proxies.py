"""Nodes of numbers that a trace leaves open: sizes of inputs, and what is computed of them."""

from __future__ import annotations

import functools
import operator

import corten
from corten import ops
from corten.fx.proxy import Proxy

from . import _symexpr as ex
from ._proxy_slots import py_sym_types, set_meta

__all__ = ["Thunk", "argument", "dispatch", "find_number", "note_number", "track_geometry"]

aten = ops.aten


class ConstantSource:
    """Where a symbol comes from: an input."""

    def __init__(self, source_name):
        self.source_name = source_name

    def name(self):
        """The name of the input."""
        return self.source_name

    def __repr__(self):
        return f"ConstantSource(source_name={self.source_name!r})"


class Thunk:
    """A value that is made when it is first asked for."""

    def __init__(self, make):
        self._make, self._made = make, None

    def force(self):
        """The value."""
        if self._make is not None:
            self._made, self._make = self._make(), None
        return self._made


def symbolic_number(env, value, source):
    """A symbol for an integer argument."""
    return env.create_symintnode(env.create_symbol(value, source, positive=None), hint=value, source=source)


def _key(number):
    return str(number.node.expr), number.node.pytype


def note_number(number, tracer, slot):
    """Says which node a number is the value of, unless one is known."""
    tracer.sympy_expr_tracker.setdefault(_key(number), (number, slot))


def find_number(number, tracer):
    """The node of a number: one that is known, or what computes the number of those that are."""
    known = tracer.sympy_expr_tracker.get(_key(number))
    if known is not None:
        return known[1]
    expr = number.node.expr
    if ex.is_number(expr):
        return None
    values = {}
    for symbol in ex.symbols_of(expr):
        slot = tracer.sympy_expr_tracker.get((str(symbol), int))
        if slot is None:
            return None
        values[symbol] = _node(slot[1])
    try:
        made = ex.evaluate(expr, values)
    except Exception:  # noqa: BLE001
        return None
    if not isinstance(made, Proxy):
        return None
    set_meta(made, number)
    note_number(number, tracer, made)
    return made


def _node(slot):
    return slot.force() if isinstance(slot, Thunk) else slot


def argument(tracer, number):
    """What stands for a number in a node's arguments."""
    if number.node.is_constant():
        expr = number.node.expr
        return number.node.pytype(expr)
    slot = find_number(number, tracer)
    if slot is None:
        raise RuntimeError(f"{number} is not tracked with proxy for {tracer}")
    return _node(slot)


def _is_open(value):
    return isinstance(value, py_sym_types) and not value.node.is_constant()


def track_geometry(tensor, proxy, tracer):
    """Notes the nodes that give the sizes, strides and the offset of a tensor, where these are not known."""
    questions = [(size, aten.sym_size.int, (place,)) for place, size in enumerate(tensor.shape)]
    if tensor.layout == corten.strided:
        questions += [(stride, aten.sym_stride.int, (place,)) for place, stride in enumerate(tensor.stride())]
        questions.append((tensor.storage_offset(), aten.sym_storage_offset.default, ()))
    for value, target, args in questions:
        if _is_open(value):
            note_number(value, tracer, Thunk(functools.partial(_asked, tracer, proxy, value, target, args)))


def _asked(tracer, proxy, value, target, args):
    """The node that gives a size, made when it is first needed."""
    name = target.overloadpacket.__name__
    made = tracer.create_proxy("call_function", target, (proxy, *args), {}, name=f"{name}_int" if args else name)
    return set_meta(made, value)


def dispatch(tracer, func, args, kwargs):
    """The number that a function of numbers gives, with a node for it."""
    if func is operator.mul and len(args) == 2:
        if type(args[1]) is int and args[1] == 1:
            return args[0]
        if type(args[0]) is int and args[0] == 1:
            return args[1]
    made = func(*args, **kwargs)
    if _is_open(made):
        def leaf(value):
            if isinstance(value, py_sym_types):
                return argument(tracer, value)
            return tuple(map(leaf, value)) if isinstance(value, (tuple, list)) else value

        if _key(made) not in tracer.sympy_expr_tracker:
            nodes = tuple(_as_node(leaf(value)) for value in args)
            proxy = Proxy(tracer.create_node("call_function", func, nodes, {}), tracer)
            set_meta(proxy, made)
            note_number(made, tracer, proxy)
    return made


def _as_node(value):
    if isinstance(value, Proxy):
        return value.node
    return tuple(map(_as_node, value)) if isinstance(value, tuple) else value
