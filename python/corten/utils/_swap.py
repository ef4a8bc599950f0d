"""Exchanging what two tensor objects are, with their identities kept."""

from __future__ import annotations

import weakref

from corten import _C


def _slots(tensor):
    import copyreg

    return set(copyreg._slotnames(type(tensor)))


def swap_tensors(t1, t2):
    """Gives each object the data, the class and the attributes of the other.

    Raises:
        RuntimeError: Something besides the objects holds a tensor: weak references, a graph.
    """
    for tensor, name in ((t1, "t1"), (t2, "t2")):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = _slots(t1)
    if slots != _slots(t2):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    _C._swap_tensor_impl(t1, t2)
    t1.__class__, t2.__class__ = type(t2), type(t1)
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    for tensor, attributes in ((t1, second), (t2, first)):
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)
    for slot in slots:
        _swap_slot(t1, t2, slot)


def _swap_slot(t1, t2, slot):
    missing = object()
    values = getattr(t1, slot, missing), getattr(t2, slot, missing)
    for tensor, value in ((t1, values[1]), (t2, values[0])):
        if value is not missing:
            setattr(tensor, slot, value)
        elif hasattr(tensor, slot):
            delattr(tensor, slot)
