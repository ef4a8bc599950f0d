"""Tensors without data, with which programs are traced: there are none, and questions about them say so."""

from __future__ import annotations

import contextlib

__all__ = []


def is_fake(x):
    """Whether a tensor has no data because a program is being traced."""
    return False


def maybe_get_fake_mode(t):
    """The mode that a tensor without data belongs to: None."""
    return None


def unset_fake_temporarily():
    """A block in which tensors have data, as they have anyway."""
    return contextlib.nullcontext()


def get_plain_tensors(subclass, *, out):
    """The tensors that one of a class with ``__tensor_flatten__`` is made of, added to a list."""
    names, _ = subclass.__tensor_flatten__()
    for name in names:
        inner = getattr(subclass, name)
        if hasattr(type(inner), "__tensor_flatten__"):
            get_plain_tensors(inner, out=out)
        else:
            out.append(inner)
    return out
