"""``rearrange``: permutations and reshapes by a pattern."""

from __future__ import annotations

import re

import corten

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|[^\s().]+|\S)")
_ELLIPSIS = "..."


def rearrange(tensor, pattern, **axes_lengths):
    """Permutes, splits and joins dimensions: ``"b (h w) c -> b c h w"`` with ``h=2`` splits the
    second one and moves the last. ``...`` stands for any others, ``1`` for one of size 1; a list of
    tensors is stacked.

    Raises:
        ValueError: The pattern is not one, or does not fit.
    """
    if not isinstance(tensor, corten.Tensor):
        tensor = corten.stack(list(tensor))
    left, right = _parsed(pattern)
    _check(pattern, left, right, axes_lengths)
    groups = _without_ellipsis(left, tensor.dim())
    sizes, named = [], []
    for group, size in zip(groups, tensor.shape):
        found = _split(group, size, axes_lengths)
        sizes += found
        named += group
    places = {name: place for place, name in enumerate(named)}
    others = [name for name in named if name.startswith(_ELLIPSIS)]
    wanted = [[one for name in group for one in (others if name == _ELLIPSIS else [name])]
              for group in _spread(right, others)]
    order = [places[name] for group in wanted for name in group]
    size_of = dict(zip(named, sizes))
    shape = [_product(size_of[name] for name in group) for group in wanted]
    return tensor.reshape(sizes).permute(order).reshape(shape)


def _product(sizes):
    total = 1
    for size in sizes:
        total *= size
    return total


def _parsed(pattern):
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    return [_side(text) for text in sides]


class _Alone(list):
    """A group that has no brackets."""


def _side(text):
    """The groups of names of one side: those alone are groups of one, and 1 is a group of none."""
    groups, inside = [], None
    for token in _TOKEN.findall(text):
        if token == "(":
            if inside is not None:
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed)"
                )
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
            groups.append(inside)
            inside = None
        else:
            _check_name(token)
            names = [] if token == "1" else [token]
            if inside is None:
                groups.append(_Alone(names))
            else:
                inside += names
    if inside is not None:
        raise ValueError(f"Imbalanced parentheses in expression: '{text}'")
    return groups


def _check_name(token):
    if token in (_ELLIPSIS, "1"):
        return
    if token.isdecimal():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if not token.isidentifier():
        raise ValueError(f"Invalid axis identifier: {token}\nnot a valid python identifier")
    if token[0] == "_" or token[-1] == "_":
        raise ValueError(
            f"Invalid axis identifier: {token}\naxis name should should not start or end with "
            "underscore"
        )


def _check(pattern, left, right, lengths):
    names = [[name for group in side for name in group] for side in (left, right)]
    for side in names:
        for name in side:
            if side.count(name) > 1:
                raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
    if _ELLIPSIS in names[1] and _ELLIPSIS not in names[0]:
        raise ValueError(
            f"Ellipsis found in right side, but not left side of a pattern {pattern}"
        )
    if any(_ELLIPSIS in group and len(group) > 1 for group in left):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    single = set(names[0]) ^ set(names[1])
    if single:
        raise ValueError(
            "Identifiers only on one side of rearrange expression (should be on both): "
            f"{single}"
        )
    unknown = set(lengths) - set(names[0])
    if unknown:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


def _without_ellipsis(groups, count):
    """The groups, one for each dimension: ``...`` becomes as many as are missing."""
    place = next((i for i, group in enumerate(groups) if group == [_ELLIPSIS]), None)
    if place is None:
        if len(groups) != count:
            raise ValueError(
                f"Number of dimensions in pattern ({len(groups)}) must be equal to the number of "
                f"dimensions in the tensor ({count})"
            )
        return groups
    missing = count - (len(groups) - 1)
    if missing < 0:
        raise ValueError(
            f"Number of dimensions in pattern ({len(groups) - 1}) must be less than or equal to the "
            f"number of dimensions in the tensor ({count})"
        )
    return groups[:place] + [[f"...{i}"] for i in range(missing)] + groups[place + 1:]


def _spread(groups, others):
    """``...`` alone stands for dimensions of their own, in brackets for one of all."""
    for group in groups:
        if isinstance(group, _Alone) and group == [_ELLIPSIS]:
            yield from ([name] for name in others)
        else:
            yield group


def _split(group, size, lengths):
    """The sizes of the dimensions that a dimension is made of, of which one may be unknown."""
    known = [lengths.get(name) for name in group]
    unknown = [place for place, length in enumerate(known) if length is None]
    if len(group) == 1 and known[0] is None:
        return [size]
    if len(unknown) > 1:
        raise ValueError(
            "cannot infer the sizes of two dimensions at once "
            + " and ".join(group[place] for place in unknown[:2])
        )
    rest = _product(length for length in known if length is not None)
    if unknown:
        if rest == 0 or size % rest:
            raise ValueError(
                f"inferred dimension does not evenly fit into larger dimension: {size} vs {rest}"
            )
        known[unknown[0]] = size // rest
    elif rest != size:
        raise ValueError(f"dimensions of sizes {known} do not make one of size {size}")
    return known
