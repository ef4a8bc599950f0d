"""Loggers of starters."""

from __future__ import annotations

import logging
import os
import warnings

__all__ = ["get_logger"]


def get_logger(name=None):
    """A logger, whose level ``LOGLEVEL`` sets."""
    logger = logging.getLogger(name or __name__)
    level = os.environ.get("LOGLEVEL", "WARNING").upper()
    if level not in logging.getLevelNamesMapping():
        warnings.warn(f"LOGLEVEL={level} is no level of logging; WARNING is used", stacklevel=2)
        level = "WARNING"
    logger.setLevel(level)
    return logger
