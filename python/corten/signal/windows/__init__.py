"""Windows of signal processing: symmetric ones, or with ``sym=False`` periodic ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import corten

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]


def _window(shape):
    """A window from a function of its length and of where its points may lie."""

    @functools.wraps(shape)
    def window(M, *args, sym=True, dtype=None, layout=None, device=None, requires_grad=False,
               **kwargs):
        dtype = corten.get_default_dtype() if dtype is None else dtype
        _check(shape.__name__, M, dtype, layout)
        options = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        return shape(_Points(M, sym, options), *args, **kwargs)

    return window


def _check(name, M, dtype, layout):
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not corten.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (corten.float32, corten.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")


class _Points:
    """The points of a window."""

    def __init__(self, M, sym, options):
        self.M, self.sym, self.options = M, sym, options

    @property
    def span(self):
        """The distance between the ends, of a periodic window beyond the last point."""
        return self.M if not self.sym and self.M > 1 else self.M - 1

    @property
    def trivial(self):
        """The window of at most one point, else nothing."""
        if self.M == 0:
            return corten.empty((0,), **self.options)
        return corten.ones((1,), **self.options) if self.M == 1 else None

    def line(self, start, step):
        """Points a step apart."""
        return corten.linspace(start, start + (self.M - 1) * step, self.M, **self.options)


@_window
def exponential(points, *, center=None, tau=1.0):
    """``exp(-|n - center| / tau)``."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if points.sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if points.M == 0:
        return points.trivial
    if center is None:
        center = points.span / 2.0
    return corten.exp(-corten.abs(points.line(-center / tau, 1 / tau)))


@_window
def cosine(points):
    """Half a period of a sine."""
    if points.M == 0:
        return points.trivial
    step = math.pi / (points.span + 1)
    return corten.sin(points.line(0.5 * step, step))


@_window
def gaussian(points, *, std=1.0):
    """``exp(-n² / (2 std²))``."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if points.M == 0:
        return points.trivial
    step = 1 / (std * math.sqrt(2))
    return corten.exp(-(points.line(-points.span / 2.0 * step, step) ** 2))


@_window
def kaiser(points, *, beta=12.0):
    """Kaiser's window with shape ``beta``."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if points.M <= 1:
        return points.trivial
    place = {"dtype": points.options["dtype"], "device": points.options["device"]}
    beta = corten.tensor(beta, **place)
    end = corten.minimum(beta, -beta + (points.M - 1) * (2.0 * beta / points.span))
    line = corten.linspace(-beta, end, points.M, **points.options)
    return corten.i0(corten.sqrt(beta * beta - corten.pow(line, 2))) / corten.i0(beta)


def _cosines(points, a):
    if points.M <= 1:
        return points.trivial
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    place = {"dtype": points.options["dtype"], "device": points.options["device"]}
    line = points.line(0, 2 * math.pi / points.span)
    signed = [(-1) ** i * weight for i, weight in enumerate(a)]
    weights = corten.tensor(signed, **points.options)
    order = corten.arange(len(signed), **place)
    return (weights.unsqueeze(-1) * corten.cos(order.unsqueeze(-1) * line)).sum(0)


@_window
def general_cosine(points, *, a):
    """A sum of cosines with weights ``a``."""
    return _cosines(points, a)


@_window
def general_hamming(points, *, alpha=0.54):
    """``alpha - (1 - alpha) cos``."""
    return _cosines(points, [alpha, 1.0 - alpha])


@_window
def hamming(points):
    """Hamming's window."""
    return _cosines(points, [0.54, 0.46])


@_window
def hann(points):
    """Hann's window."""
    return _cosines(points, [0.5, 0.5])


@_window
def blackman(points):
    """Blackman's window."""
    return _cosines(points, [0.42, 0.5, 0.08])


@_window
def nuttall(points):
    """Nuttall's window with the smallest lobes."""
    return _cosines(points, [0.3635819, 0.4891775, 0.1365995, 0.0106411])


@_window
def bartlett(points):
    """A triangle."""
    if points.M <= 1:
        return points.trivial
    return 1 - corten.abs(points.line(-1, 2 / points.span))
