"""Points that fill a cube more evenly than random ones: Sobol' sequences.

The recurrence is that of P. Bratley and B. L. Fox (Algorithm 659), with the numbers of S. Joe and
F. Y. Kuo to begin with; the scrambling is that of J. Matoušek, a matrix and a shift per dimension.
"""

from __future__ import annotations

import functools
import pathlib
import zlib

import corten

__all__ = ["SobolEngine"]

_BITS, _DIMENSIONS, _DEGREES = 30, 21201, 18
#: Scrambling takes memory for this many dimensions at a time.
_AT_ONCE = 512


@functools.cache
def _beginnings():
    """The primitive polynomials, and for each degree the numbers that its dimensions begin with."""
    data = zlib.decompress((pathlib.Path(__file__).parent / "_sobol_numbers.bin").read_bytes())
    read = corten.frombuffer(bytearray(data), dtype=corten.uint8).to(corten.int64)
    count = _DIMENSIONS - 1
    polynomials = read[:count].mul(2).cumsum(0) + 1
    numbers, at, start = [], count, 0
    for degree in range(1, _DEGREES + 1):
        many = int((polynomials >> degree == 1).sum())
        columns = []
        for place in range(degree):
            halves = corten.zeros(many, dtype=corten.int64)
            for byte in range((place + 7) // 8):
                halves = halves + (read[at:at + many] << 8 * byte)
                at += many
            columns.append(halves * 2 + 1)
        numbers.append((polynomials[start:start + many], corten.stack(columns, 1)))
        start += many
    return numbers


def _directions(dimension):
    """The direction numbers of the first dimensions, one row each."""
    rows, left = [corten.ones((1, _BITS), dtype=corten.int64)], dimension - 1
    for degree, (polynomials, first) in enumerate(_beginnings(), 1):
        if left <= 0:
            break
        polynomials, columns = polynomials[:left], list(first[:left].unbind(1))
        left -= polynomials.numel()
        bits = [polynomials >> (degree - place) & 1 for place in range(degree)]
        for place in range(degree, _BITS):
            made = columns[place - degree] ^ (columns[place - degree] << degree)
            for back in range(1, degree):
                made = made ^ (bits[back] * (columns[place - back] << back))
            columns.append(made)
        rows.append(corten.stack(columns, 1))
    return corten.cat(rows) << (_BITS - 1 - corten.arange(_BITS))


def _gray(number):
    return number ^ number >> 1


class SobolEngine:
    """Draws the points of a Sobol' sequence in the unit cube, one row each.

    With ``scramble`` the sequence is randomised, by ``seed`` or by the default generator.

    Raises:
        ValueError: There are no numbers for so many dimensions.
    """

    MAXBIT = _BITS
    MAXDIM = _DIMENSIONS

    def __init__(self, dimension, scramble=False, seed=None):
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = _directions(dimension)
        self.shift = corten.zeros(dimension, dtype=corten.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = corten.Generator()
            generator.manual_seed(self.seed)
        bits = corten.randint(2, (self.dimension, _BITS), generator=generator)
        self.shift = (bits << corten.arange(_BITS)).sum(1)
        matrices = corten.randint(2, (self.dimension, _BITS, _BITS), generator=generator).tril()
        matrices.diagonal(0, 1, 2).fill_(1)
        weights = corten.arange(_BITS - 1, -1, -1)
        rows = (matrices << weights).sum(2)
        for start in range(0, self.dimension, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            common = self.sobolstate[part, :, None] & rows[part, None, :]
            for width in (16, 8, 4, 2, 1):
                common = common ^ common >> width
            self.sobolstate[part] = ((common & 1) << weights).sum(2)

    def draw(self, n=1, out=None, dtype=None):
        """The next ``n`` points, of shape ``(n, dimension)``."""
        dtype = corten.get_default_dtype() if dtype is None else dtype
        if self.num_generated == 0:
            points = self._first_point.to(dtype)
            if n != 1:
                points = corten.cat([points, self._next(n - 1, 0, dtype)])
        else:
            points = self._next(n, self.num_generated - 1, dtype)
        self.num_generated += n
        return points if out is None else out.resize_as_(points).copy_(points)

    def draw_base2(self, m, out=None, dtype=None):
        """The next ``2**m`` points; all points so far must be as many as a power of two.

        Raises:
            ValueError: They are not.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self):
        """Begins again with the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Passes over ``n`` points."""
        start, count = (0, n - 1) if self.num_generated == 0 else (self.num_generated - 1, n)
        changed = _gray(start) ^ _gray(start + count)
        for bit in range(_BITS):
            if changed >> bit & 1:
                self.quasi ^= self.sobolstate[:, bit]
        self.num_generated += n
        return self

    def _next(self, n, before, dtype):
        """Points ``before + 1`` to ``before + n``: where Gray codes differ, directions are added."""
        if n < 0:
            raise ValueError(f"n must be non-negative, but got {n}")
        codes = corten.arange(before + 1, before + n + 1)
        changed = _gray(codes) ^ _gray(before)
        points = self.quasi.expand(n, self.dimension)
        for bit in range((before + n).bit_length()):
            points = points ^ (-(changed >> bit & 1))[:, None] & self.sobolstate[:, bit]
        if n:
            self.quasi = points[-1].clone()
        return (points.to(corten.float64) / 2**_BITS).to(dtype)

    def __repr__(self):
        said = [f"dimension={self.dimension}"]
        if self.scramble:
            said.append("scramble=True")
        if self.seed is not None:
            said.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(said)})"
