"""Operators by their plain names, as some programs reach them."""

from __future__ import annotations


def __getattr__(name):
    import corten

    return getattr(corten, name)
