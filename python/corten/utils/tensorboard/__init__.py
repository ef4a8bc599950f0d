"""Writing what TensorBoard shows: numbers, histograms, images, sounds, texts."""

from __future__ import annotations

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
