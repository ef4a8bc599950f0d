"""The deprecated class of :mod:`corten.cpu.amp`."""

from corten.cpu.amp import GradScaler

__all__ = ["GradScaler"]
