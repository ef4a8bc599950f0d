"""The deprecated class of :mod:`corten.cuda.amp`."""

from corten.cuda.amp import GradScaler

__all__ = ["GradScaler"]
