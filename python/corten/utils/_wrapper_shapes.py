"""Tensors that wrap others and answer for sizes, strides, device or layout by ``__torch_dispatch__``."""

from __future__ import annotations

import functools
import weakref

from corten import _C
from corten._tensor import _native_wrapper

__all__ = []

_QUESTIONS = {
    "sizes": ("aten", "sym_size", "default"), "strides": ("aten", "sym_stride", "default"),
    "device": ("prim", "device", "default"), "layout": ("prim", "layout", "default"),
}


class _Question:
    """What stands for an operator where a tensor is asked about itself."""

    def __init__(self, space, name, overload):
        self.namespace, self.__name__, self._overloadname = space, f"{name}.{overload}", overload

    def __call__(self, tensor):
        return {
            "sym_size": tensor.size, "sym_stride": tensor.stride, "device": lambda: tensor.device,
            "layout": lambda: tensor.layout,
        }[self.__name__.partition(".")[0]]()

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        packet, _, overload = self.__name__.partition(".")
        return f"<OpOverload(op='{self.namespace}.{packet}', overload='{overload}')>"

    def name(self):
        """``aten::sym_size``."""
        return f"{self.namespace}::{self.__name__.partition('.')[0]}"


@functools.cache
def _operator(question):
    import corten

    space, name, overload = _QUESTIONS[question]
    if _C._op_overloads(f"{space}::{name}"):
        return getattr(getattr(getattr(corten.ops, space), name), overload)
    packet = getattr(getattr(corten.ops, space), name, None)
    found = getattr(packet, overload, None)
    return found if callable(found) and hasattr(found, "namespace") else _Question(space, name, overload)


def _asked(question, tensor):
    """The answer of a tensor's class; None where it has none."""
    kind = type(tensor)
    result = kind.__torch_dispatch__(_operator(question), (kind,), (tensor,), {})
    return None if result is NotImplemented else result


def _asked_for_strides(question, tensor):
    return None if question == "sizes" else _asked(question, tensor)


#: Arguments that may be given by place.
_NAMES = ("strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory", "requires_grad",
          "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", "_extra_dispatch_keys", "storage_size")


def make_wrapper(cls, size, *given, **options):
    """A tensor without elements, whose operators are those of the ``__torch_dispatch__`` of its class, as
    ``Tensor._make_wrapper_subclass`` makes it.

    Raises:
        ValueError: There is no such policy.
    """
    options |= zip(_NAMES, given)
    policy = options.pop("dispatch_sizes_strides_policy", None)
    if policy not in (None, "sizes", "strides"):
        raise ValueError(f"Unknown sizes_strides_policy: {policy}; expected 'strides' or 'sizes'")
    device, layout = options.pop("dispatch_device", False), options.pop("dispatch_layout", False)
    keys = options.pop("_extra_dispatch_keys", None)
    made = _native_wrapper(cls, size, **options)
    if keys is not None:
        word = (_C._key_set(made) | keys.raw_repr()) & (1 << 64) - 1
        _C._set_key_set(made, word - (1 << 64) if word >> 63 else word)
    install(made, policy, device, layout)
    return made


def install(made, policy, device, layout):
    """Lets the class of a tensor answer for it."""
    if policy is None and not device and not layout:
        return
    asked = _asked_for_strides if policy == "strides" else _asked
    _C._set_shape_policy(made, weakref.ref(made), asked, policy is not None, device, layout)
