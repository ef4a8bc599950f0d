"""Sizes that are not known, in exported graphs: the nodes that compute them, the guards, and their text."""

from __future__ import annotations

import math
import operator

import corten
from corten._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from corten.fx.experimental import _symexpr as ex

__all__ = ["ValueRanges", "bounds", "check_size", "guards", "hint", "node_of", "sizes_of", "tensor", "written"]

_SYMBOLIC = (corten.SymInt, corten.SymFloat, corten.SymBool)


class ValueRanges:
    """The numbers between two, which print as ``VR[2, 64]``."""

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper

    def __eq__(self, other):
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self):
        return hash((self.lower, self.upper))

    def __repr__(self):
        return f"VR[{_bound(self.lower)}, {_bound(self.upper)}]"


def _bound(value):
    if value is None or value == math.inf:
        return "int_oo"
    return "-int_oo" if value == -math.inf else value


def bounds(constraint):
    """The least and the greatest value, None where there is no bound."""
    return tuple(None if value in (None, math.inf, -math.inf) else int(value)
                 for value in (constraint.lower, constraint.upper))


def sizes_of(mod, args, kwargs, dynamic_shapes):
    """What knows which sizes of the inputs are not fixed."""
    from corten.export._dynamic import Sizes

    return Sizes(mod, args, kwargs, dynamic_shapes)


# Nodes

_RELATIONS = {
    "Eq": operator.eq, "Ne": operator.ne, "Lt": operator.lt, "Le": operator.le, "Gt": operator.gt, "Ge": operator.ge,
    "And": operator.and_, "Or": operator.or_,
}


def _functions():
    return {
        "FloorDiv": operator.floordiv, "Mod": operator.mod, "Max": corten.sym_max, "Min": corten.sym_min,
        "TrueDiv": operator.truediv, "ToFloat": corten.sym_float, "Not": corten.sym_not,
    }


class Nodes:
    """The nodes of a graph that compute numbers which are not known, by their expressions."""

    def __init__(self, recorder):
        self.recorder, self.known, self.places = recorder, {}, {}

    def note(self, node, value):
        """Remembers of which sizes a node's value says something."""
        if isinstance(value, _SYMBOLIC):
            self.known.setdefault(value.node.expr, node)
        elif isinstance(value, FakeTensor):
            geometry = value.__dict__.get("_symbolic")
            for place, size in enumerate(geometry.sizes if geometry is not None else ()):
                if isinstance(size, ex.Expr):
                    self.places.setdefault(size, (node, place))

    def computes(self, expr):
        """Whether all symbols of an expression are values of nodes, or sizes of tensors."""
        replace = self.recorder.inputs.fake_mode.shape_env.replace
        found = {symbol for one in (*self.known, *self.places) for symbol in ex.symbols_of(replace(one))}
        return ex.symbols_of(expr) <= found

    def of(self, expr, value=None):
        """The node of an expression, or the number where it is one."""
        if ex.is_number(expr):
            return expr
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self._made(expr)
            found.meta.setdefault("val", value if value is not None else self._value(expr))
        return found

    def _value(self, expr):
        env = self.recorder.inputs.fake_mode.shape_env
        if isinstance(expr, ex.Condition):
            return env.create_symboolnode(expr)
        return env.number(expr)

    def _made(self, expr):
        if expr in self.places:
            return self._size(*self.places[expr])
        if isinstance(expr, ex.Poly):
            return self._sum(expr)
        if isinstance(expr, ex.Call) and expr.name in _functions():
            return self._call(_functions()[expr.name], expr.args)
        if isinstance(expr, ex.Condition) and expr.name in _RELATIONS:
            return self._call(_RELATIONS[expr.name], expr.args)
        if isinstance(expr, ex.Condition) and expr.name == "Not":
            return self._call(corten.sym_not, expr.args)
        made = self._root(expr) if isinstance(expr, ex.Symbol) else None
        if made is None:
            raise RuntimeError(f"{expr} cannot be computed from the sizes of the inputs of the program")
        return made

    def _root(self, symbol):
        """A symbol that no size is, but of which one is a multiple with an offset, as of ``2 * Dim("half")``."""
        replace = self.recorder.inputs.fake_mode.shape_env.replace
        for size, place in list(self.places.items()):
            terms = dict(ex.terms_of(replace(size)))
            offset, factor = terms.pop((), 0), terms.pop(((symbol, 1),), 0)
            if terms or not factor:
                continue
            node = self.of(size)
            node = self._node(operator.sub, (node, offset)) if offset else node
            return self._node(operator.floordiv, (node, factor)) if factor != 1 else node
        return None

    def _call(self, function, args):
        return self._node(function, tuple(self.of(arg) for arg in args))

    def _node(self, function, args):
        node = self.recorder.graph.call_function(function, args)
        self.recorder.note(node)
        return node

    def _sum(self, expr):
        total = None
        for product, factor in sorted(expr.terms.items(), key=ex._Order):
            value = self._product(product, factor)
            total = value if total is None else self._node(operator.add, (total, value))
            self._describe(total)
        return total

    def _product(self, product, factor):
        value = None
        for atom, power in product:
            one = self.of(atom)
            one = one if power == 1 else self._node(operator.pow, (one, power))
            value = one if value is None else self._node(operator.mul, (value, one))
            self._describe(value)
        if value is None:
            return factor
        if factor == 1:
            return value
        made = self._node(operator.mul, (value, factor))
        return made

    def _describe(self, node):
        """The value of a node in between."""
        if not hasattr(node, "meta") or "val" in node.meta:
            return
        values = [arg.meta["val"] if hasattr(arg, "meta") else arg for arg in node.args]
        node.meta["val"] = node.target(*values)

    def _size(self, tensor, place):
        """A size of a tensor: of an input before all calls, of another one behind its call."""
        graph = self.recorder.graph
        if tensor.op == "placeholder":
            anchor = next((node for node in graph.nodes if node.op != "placeholder"), None)
        else:
            anchor = tensor.next
        args, name = (tensor, place), f"sym_size_int_{sum('sym_size' in node.name for node in graph.nodes) + 1}"
        target = corten.ops.aten.sym_size.int
        if anchor is None or anchor is graph._root:
            return graph.create_node("call_function", target, args, {}, name=name)
        with graph.inserting_before(anchor):
            return graph.create_node("call_function", target, args, {}, name=name)


def node_of(recorder, value):
    """The node of a number that is not known, or the number where it is."""
    return recorder.numbers.of(value.node.expr, value)


# Guards

def _texts(nodes, names):
    """Where the symbols of inputs are found first, and all sizes that are not known."""
    first, every = {}, []
    for node, name in zip(nodes, names):
        value = node.meta.get("val")
        if isinstance(value, corten.SymInt):
            every.append((value.node.expr, name))
        elif isinstance(value, corten.Tensor):
            for place, size in enumerate(value.shape):
                if isinstance(size, corten.SymInt):
                    every.append((size.node.expr, f"{name}.size()[{place}]"))
    for expr, text in every:
        if isinstance(expr, ex.Symbol):
            first.setdefault(expr, text)
    return first, every


def guards(program, nodes, names):
    """What must hold for the sizes of inputs."""
    first, every = _texts(nodes, names)
    found = []
    for expr, text in every:
        if isinstance(expr, ex.Symbol):
            if first[expr] != text:
                found.append(f"{text} == {first[expr]}")
                continue
            limits = program.range_constraints.get(expr)
            if limits is None:
                continue
            lower, upper = bounds(limits)
            if lower is not None and lower > 2:
                found.append(f"{text} >= {lower}")
            if upper is not None:
                found.append(f"{text} <= {upper}")
        elif all(symbol in first for symbol in ex.symbols_of(expr)):
            found.append(f"{text} == {_python(expr, first)}")
    return found


def _python(expr, texts):
    """An expression in Python, with texts for symbols."""
    if ex.is_number(expr):
        return str(expr)
    if isinstance(expr, ex.Symbol):
        return texts[expr]
    if isinstance(expr, ex.Poly):
        parts = []
        for product, factor in expr.terms.items():
            atoms = [_python(atom, texts) + (f"**{power}" if power != 1 else "") for atom, power in product]
            parts.append("*".join(([str(factor)] if factor != 1 or not atoms else []) + atoms))
        return " + ".join(parts)
    if isinstance(expr, ex.Call) and expr.name in ("FloorDiv", "Mod"):
        sign = "//" if expr.name == "FloorDiv" else "%"
        return f"(({_python(expr.args[0], texts)}) {sign} ({_python(expr.args[1], texts)}))"
    raise RuntimeError(f"{expr} is no guard of sizes")


def check_size(where, size, given, range_constraints, sizes):
    """Checks the size of an input.

    Raises:
        RuntimeError: It is out of range, or differs from what other inputs say.
    """
    expr = size.node.expr if isinstance(size, corten.SymInt) else size
    if isinstance(expr, ex.Symbol):
        if expr in sizes and sizes[expr] != given:
            raise RuntimeError(f"Expected input at {where} to be equal to {sizes[expr]}, but got {given}")
        sizes[expr] = given
        limits = range_constraints.get(expr)
        lower, upper = bounds(limits) if limits is not None else (None, None)
        if lower is not None and lower > 2 and given < lower:
            raise RuntimeError(f"Expected input at {where} to be >= {lower}, but got {given}")
        if upper is not None and given > upper:
            raise RuntimeError(f"Expected input at {where} to be <= {upper}, but got {given}")
    elif isinstance(expr, ex.Expr) and all(symbol in sizes for symbol in ex.symbols_of(expr)):
        wanted = ex.evaluate(expr, sizes)
        if wanted != given:
            raise RuntimeError(f"Expected input at {where} to be equal to {wanted}, but got {given}")


# Text of the schema

_WRITTEN = {"Eq": "Equality", "Ne": "Unequality", "Lt": "StrictLessThan", "Le": "LessThan", "Gt": "StrictGreaterThan",
            "Ge": "GreaterThan"}


def written(value):
    """The expression of a number, as SymPy's ``srepr`` writes it."""
    return _srepr(value.node.expr if isinstance(value, _SYMBOLIC) else value)


def _srepr(expr):
    if isinstance(expr, bool):
        return "true" if expr else "false"
    if isinstance(expr, int):
        return f"Integer({expr})"
    if isinstance(expr, float):
        return f"Float('{expr!r}', precision=53)"
    if isinstance(expr, ex.Symbol):
        return f"Symbol('{expr.name}', {'' if expr.unbacked else 'positive=True, '}integer=True)"
    if isinstance(expr, ex.Poly):
        terms = [_srepr_product(product, factor) for product, factor in expr.terms.items()]
        return terms[0] if len(terms) == 1 else f"Add({', '.join(terms)})"
    name = _WRITTEN.get(expr.name, expr.name)
    return f"{name}({', '.join(map(_srepr, expr.args))})"


def _srepr_product(product, factor):
    parts = [f"Integer({factor})"] if factor != 1 or not product else []
    for atom, power in product:
        parts.append(_srepr(atom) if power == 1 else f"Pow({_srepr(atom)}, Integer({power}))")
    return parts[0] if len(parts) == 1 else f"Mul({', '.join(parts)})"


def hint(value):
    """The number with which the program was made; None where there is none."""
    return value.node.hint


# Programs of files

class Read:
    """The sizes of a program that was read from a file, by the names of their symbols."""

    def __init__(self, ranges):
        from corten.fx.experimental.symbolic_shapes import ShapeEnv

        self.ranges, self.symbols, self.env = ranges, {}, ShapeEnv()

    def symbol(self, name, sample=None):
        """A symbol by its name."""
        found = self.symbols.get(name)
        if found is None:
            unbacked = name.startswith(("u", "zuf"))
            found = self.symbols[name] = ex.Symbol(name, unbacked=unbacked, is_float=name.startswith("z"))
            lower, upper = self.ranges.get(name, (None, None))
            self.env.var_to_range[found] = (
                (-math.inf if unbacked else 0) if lower is None else lower, math.inf if upper is None else upper,
            )
            self.env._give_sample(found)
            if not unbacked:
                self.env.backed_var_to_val[found] = 3 if sample is None else sample
        return found

    def constraints(self):
        """The ranges by symbol."""
        return {self.symbol(name): ValueRanges(*found) for name, found in self.ranges.items()}

    def number(self, text, sample, kind):
        """A number out of its expression."""
        from corten._export.serde._srepr import parsed

        expr = parsed(text, lambda name: self.symbol(name, sample if text.startswith("Symbol(") else None))
        if ex.is_number(expr):
            return expr
        if isinstance(sample, int) and isinstance(expr, ex.Symbol) and not expr.unbacked:
            self.env.backed_var_to_val[expr] = sample
        if kind == "SymBool":
            return self.env.create_symboolnode(expr)
        return self.env.create_symfloatnode(expr) if kind == "SymFloat" else self.env.create_symintnode(expr)


def tensor(symbols, sizes, strides, dtype, device):
    """A tensor without elements of these sizes."""
    if symbols.mode is None:
        env = symbols.made.env if symbols._made is not None else None
        symbols.mode = FakeTensorMode(allow_non_fake_inputs=True, export=True, shape_env=env, static_shapes=True)
    if not any(isinstance(one, corten.SymInt) for one in (*sizes, *strides)):
        return FakeTensor(symbols.mode, corten.empty_strided(sizes, strides, dtype=dtype, device="meta"), device)
    from corten.fx.experimental._symbolic_tensor import SymbolicGeometry, attach

    env = symbols.made.env
    if symbols.mode.shape_env is None:
        symbols.mode.shape_env = env
    geometry = SymbolicGeometry(env, map(_expr, sizes), map(_expr, strides))
    sampled, steps, _ = geometry.samples()
    made = FakeTensor(symbols.mode, corten.empty_strided(sampled, steps, dtype=dtype, device="meta"), device)
    attach(env, made, geometry)
    return made


def _expr(value):
    return value.node.expr if isinstance(value, _SYMBOLIC) else value
