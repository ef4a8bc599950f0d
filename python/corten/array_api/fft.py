"""Fourier transforms of the array API standard."""

from __future__ import annotations

from corten import _C

from corten.array_api._array import wrapped
from corten.array_api._axes import axes_of

_fft = _C._fft


def _along_one(name, doc):
    compute = getattr(_fft, name)

    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return wrapped(compute(x, n=n, dim=axis, norm=norm))

    return _named(function, name, doc)


def _along_several(name, doc):
    compute = getattr(_fft, name)

    def function(x, /, *, s=None, axes=None, norm="backward"):
        if s is not None and axes is None:
            axes = range(x.ndim - len(s), x.ndim)
        sizes = None if s is None else tuple(s)
        return wrapped(compute(x, s=sizes, dim=None if axes is None else tuple(axes), norm=norm))

    return _named(function, name, doc)


def _named(function, name, doc):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


fft = _along_one("fft", "The transform along an axis.")
ifft = _along_one("ifft", "The inverse transform along an axis.")
rfft = _along_one("rfft", "The transform of real numbers along an axis, without what is symmetric.")
irfft = _along_one("irfft", "The inverse of :func:`rfft`.")
hfft = _along_one("hfft", "The real transform of what is symmetric along an axis.")
ihfft = _along_one("ihfft", "The inverse of :func:`hfft`.")
fftn = _along_several("fftn", "The transform along several axes.")
ifftn = _along_several("ifftn", "The inverse transform along several axes.")
rfftn = _along_several("rfftn", "The transform of real numbers along several axes.")
irfftn = _along_several("irfftn", "The inverse of :func:`rfftn`.")


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of :func:`fft` for ``n`` samples at distances of ``d``."""
    return wrapped(_fft.fftfreq(n, d, dtype=dtype, device=device))


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of :func:`rfft` for ``n`` samples at distances of ``d``."""
    return wrapped(_fft.rfftfreq(n, d, dtype=dtype, device=device))


def fftshift(x, /, *, axes=None):
    """The frequencies in order, with zero in the middle."""
    return wrapped(_fft.fftshift(x, axes_of(axes, x.ndim)))


def ifftshift(x, /, *, axes=None):
    """The inverse of :func:`fftshift`."""
    return wrapped(_fft.ifftshift(x, axes_of(axes, x.ndim)))


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn",
    "rfft", "rfftfreq", "rfftn",
]
