"""The sizes of inputs that are not fixed while a program is exported, and what was promised of them."""

from __future__ import annotations

import math

import corten
from corten.export import _symbols
from corten.export.dynamic_shapes import Dim, _DimHint, _DimHintType, leaf_shapes
from corten.fx.experimental import _symexpr as ex
from corten.fx.experimental.symbolic_shapes import (
    DimDynamic, RelaxedUnspecConstraint, ShapeEnv, StatelessSymbolicContext, StrictMinMaxConstraint, ValueRanges,
)
from corten.utils._pytree import keystr, tree_flatten_with_path

__all__ = ["Sizes"]


class Sizes:
    """Makes tensors with sizes that are not known, and checks afterwards that they stayed so."""

    def __init__(self, mod, args, kwargs, dynamic_shapes):
        self.shapes = leaf_shapes(mod, args, kwargs, dynamic_shapes) if dynamic_shapes is not None else {}
        self.shape_env = ShapeEnv(duck_shape=False, assume_static_by_default=True)
        from corten.export.dynamic_shapes import _combine_args

        paths = tree_flatten_with_path(_combine_args(mod, args, kwargs))[0]
        self.sources = {}
        for path, value in paths:
            self.sources.setdefault(id(value), f"L{keystr(path)}")
        self.promised, self.roots = [], {}

    def convert(self, mode, place, value):
        """What stands for a leaf of the inputs."""
        shapes = self.shapes.get(id(value))
        if isinstance(value, corten.Tensor):
            dims = [_of(shapes[0], place) for place in range(value.dim())] if shapes else [None] * value.dim()
            if any(isinstance(dim, (Dim, _DimHint)) for dim in dims):
                return self._tensor(mode, value, dims)
            self._check_numbers(value, dims)
            return mode.from_tensor(value)
        if type(value) is int and shapes and isinstance(shapes[0], _DimHint) and _is_dynamic(shapes[0]):
            source = self.sources.get(id(value), f"L['input{place}']")
            return self.shape_env.create_unspecified_symint_and_symbol(value, source)
        return value

    def _check_numbers(self, value, dims):
        for place, dim in enumerate(dims):
            if type(dim) is int and dim != value.shape[place]:
                self._violated([str(dim)], [
                    f"Static shape constraint of {dim} does not match input size of {value.shape[place]}, for "
                    f"{self.sources.get(id(value))}.size()[{place}]"
                ], [])

    def _tensor(self, mode, value, dims):
        source = self.sources[id(value)]
        kinds, constraints = [], []
        for dim in dims:
            kind, constraint = _kind(dim)
            kinds.append(kind)
            constraints.append(constraint)
        context = StatelessSymbolicContext(dynamic_sizes=kinds, constraint_sizes=constraints)
        made = mode.from_tensor(value, static_shapes=False, source=source, symbolic_context=context)
        geometry = made.__dict__.get("_symbolic")
        for place, dim in enumerate(dims):
            if isinstance(dim, Dim) or isinstance(dim, _DimHint) and dim.type is not _DimHintType.STATIC:
                size = geometry.sizes[place] if geometry is not None else int(value.shape[place])
                self._promise(dim, f"{source}.size()[{place}]", size, int(value.shape[place]))
        return made

    def _promise(self, dim, source, size, example):
        self.promised.append((dim, source, size, example))
        if not isinstance(dim, Dim):
            return
        root = dim.root
        if root.__name__ not in self.roots:
            if dim is root or dim.factor == 1 and dim.term == 0:
                self.roots[root.__name__] = (size, source, example, root)
                return
            made = self.shape_env.create_symbol(
                (example - dim.term) // dim.factor, f"{source}.root", DimDynamic.DYNAMIC,
            )
            self.roots[root.__name__] = (made, source, (example - dim.term) // dim.factor, root)
        known, first, value, _ = self.roots[root.__name__]
        expected = ex.add(ex.mul(known, dim.factor), dim.term)
        if dim.factor * value + dim.term != example:
            self._violated([dim.__name__], [
                f"The values of {dim.__name__} = {source} and {root.__name__} = {first} must always be equal."
            ], [])
        if not ex.is_number(size) and not ex.is_number(expected):
            self.shape_env.evaluate(ex.relation("Eq", size, expected))

    # Checks

    def _violated(self, names, texts, fixes):
        from corten._dynamo.exc import UserError, UserErrorType

        text = (
            f"Constraints violated ({', '.join(names)})! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
            + "\n".join(f"  - {one}" for one in texts)
        )
        if fixes:
            text += "\n\nSuggested fixes:\n" + "\n".join(f"  {one}" for one in fixes)
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, text)

    def finish(self, recorder):
        """Checks that all sizes are what was promised.

        Raises:
            UserError: One is not.
        """
        names, texts, fixes, owners = [], [], [], {}
        for dim, source, size, example in self.promised:
            found = self.shape_env.replace(size)
            name = dim.__name__ if isinstance(dim, Dim) else source
            if isinstance(dim, _DimHint) and dim.type is _DimHintType.AUTO:
                continue
            if ex.is_number(found):
                self._specialized(name, found, dim, names, texts, fixes)
            elif isinstance(dim, Dim) and isinstance(found, ex.Symbol):
                self._compare(dim, source, found, owners, names, texts, fixes)
        if names:
            self._violated(list(dict.fromkeys(names)), texts, list(dict.fromkeys(fixes)))

    @staticmethod
    def _specialized(name, found, dim, names, texts, fixes):
        names.append(name)
        texts.append(
            f"You marked {name} as dynamic but your code specialized it to be a constant ({found}). If you're using "
            "mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with "
            "either Dim.STATIC or Dim.AUTO."
        )
        if isinstance(dim, Dim):
            fixes.append(f"{name} = {found}")

    def _compare(self, dim, source, found, owners, names, texts, fixes):
        known = owners.setdefault(found, (dim, source))
        if known[0].__name__ != dim.__name__ and dim.root is dim and known[0].root is known[0]:
            names.append(dim.__name__)
            texts.append(
                f"The values of {dim.__name__} = {source} and {known[0].__name__} = {known[1]} must always be equal."
            )
            fixes.append(f"{dim.__name__} = {known[0].__name__}")
            return
        low, high = self.shape_env.var_to_range.get(found, (0, math.inf))
        least, most = max(dim.min, 2), dim.max
        if (low > least or high < most) and dim.root is dim and dim.__name__ not in names:
            names.append(dim.__name__)
            upper = f" and {source} <= {int(high)}" if high < most else ""
            texts.append(
                f"Not all values of {dim.__name__} = {source} in the specified range satisfy the generated guard "
                f"{int(low)} <= {source}{upper}"
            )
            limits = ", ".join(
                [f"min={int(low)}"] * (low > 2) + [f"max={int(high)}"] * (high < math.inf)
            )
            fixes.append(f"{dim.__name__} = Dim('{dim.__name__}', {limits})")

    def range_constraints(self):
        """The ranges of the symbols of inputs."""
        found = {}
        for dim, _, size, _ in self.promised:
            expr = self.shape_env.replace(size)
            if ex.is_number(expr):
                continue
            low, high = self.shape_env.bounds(expr)
            if isinstance(dim, Dim):
                low, high = dim.min, min(dim.max, high)
            found[expr] = _symbols.ValueRanges(low, high)
        for symbol, (low, high) in self.shape_env.var_to_range.items():
            if symbol.unbacked:
                found.setdefault(symbol, _symbols.ValueRanges(max(low, 0) if not symbol.is_float else low, high))
        return found


def _of(shape, place):
    """What is said of a dimension."""
    if isinstance(shape, dict):
        return shape.get(place)
    return shape[place] if isinstance(shape, (list, tuple)) else None


def _is_dynamic(hint):
    return hint.type is not _DimHintType.STATIC


def _kind(dim):
    """How the symbol of a dimension is made, and its constraint."""
    if isinstance(dim, Dim):
        limits = None if dim.root is not dim else StrictMinMaxConstraint(ValueRanges(dim.min, dim.max))
        return DimDynamic.DYNAMIC, limits
    if isinstance(dim, _DimHint) and _is_dynamic(dim):
        if dim.min is not None or dim.max is not None:
            limits = ValueRanges(dim.min or 0, math.inf if dim.max is None else dim.max)
            return DimDynamic.DYNAMIC, StrictMinMaxConstraint(limits)
        strict = dim.type is _DimHintType.DYNAMIC
        return DimDynamic.DYNAMIC, RelaxedUnspecConstraint() if strict else None
    return DimDynamic.STATIC, None
