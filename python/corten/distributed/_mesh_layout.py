"""The dimensions of a device mesh as steps through the list of its ranks.

An axis is a tuple of pairs ``(size, stride)``, the slowest first, as the CuTe layouts of CUTLASS have it: an
axis of a mesh that was sliced or cut has one pair, a flattened one several, where its ranks are not evenly
spaced.
"""

from __future__ import annotations

import itertools
import math


def axes_of_shape(shape):
    """The axes of a mesh whose ranks stand in row-major order."""
    axes, stride = [], 1
    for size in reversed(shape):
        axes.append(((size, stride),))
        stride *= size
    return tuple(reversed(axes))


def size_of(axis):
    """How many ranks an axis has."""
    return math.prod(size for size, _ in axis)


def collapsed(axes):
    """Axes as one, neighbouring pairs with even steps as one pair."""
    pairs = []
    for size, stride in itertools.chain.from_iterable(axes):
        if size == 1:
            continue
        if pairs and pairs[-1][1] == size * stride:
            pairs[-1] = (pairs[-1][0] * size, stride)
        else:
            pairs.append((size, stride))
    return tuple(pairs) or ((1, 1),)


def is_sorted(axes):
    """Whether later axes take smaller steps."""
    strides = [stride for _, stride in collapsed(axes)]
    return strides == sorted(strides, reverse=True)


def is_orthogonal(axes):
    """Whether different coordinates are different places."""
    reach = 1
    pairs = [pair for pair in itertools.chain.from_iterable(axes) if pair[0] > 1]
    for size, stride in sorted(pairs, key=lambda pair: pair[1]):
        if stride % reach:
            return False
        reach = size * stride
    return True


def coordinate(axis, place):
    """Where along an axis a place of the list of ranks is."""
    found = 0
    for size, stride in axis:
        found = found * size + place // stride % size
    return found


def offsets(axis):
    """The steps from the first place of an axis to each of its places."""
    steps = [[index * stride for index in range(size)] for size, stride in axis]
    return [sum(each) for each in itertools.product(*steps)]


def start(axes, place):
    """The first place of the part of a mesh that a place is in."""
    return place - sum(place // stride % size * stride for size, stride in itertools.chain.from_iterable(axes))


def places_by_group(axis, count):
    """The places along an axis, for every position on the others, of ``count`` places."""
    steps = offsets(axis)
    firsts = [place for place in range(count) if coordinate(axis, place) == 0]
    return [[first + step for step in steps] for first in firsts]


def cut(axis, sizes):
    """An axis as several of these sizes.

    Raises:
        ValueError: Their product is not the axis's size, or a boundary falls into a step.
    """
    rest, axes = list(collapsed([axis])), []
    for size in reversed(sizes):
        pairs, missing = [], size
        while missing > 1:
            have, stride = rest.pop() if rest else (1, 1)
            part = math.gcd(have, missing)
            if part == 1 or (part != have and part != missing):
                raise ValueError(f"an axis of the pairs {axis} cannot be cut into {tuple(sizes)}")
            pairs.insert(0, (part, stride))
            if part != have:
                rest.append((have // part, stride * part))
            missing //= part
        axes.insert(0, tuple(pairs) or ((1, 1),))
    return tuple(axes)
