"""What operators have kernels for: the tables of the dispatcher, as PyTorch's tools ask for them."""

from __future__ import annotations

from corten import _C
from corten._dispatch_keys import (
    DispatchKey, _BACKENDS, _dispatch_is_alias_key, _dispatch_is_included_in_alias, _parsed,
)

__all__ = [
    "_dispatch_dump", "_dispatch_dump_table", "_dispatch_find_schema_or_throw", "_dispatch_get_all_op_names",
    "_dispatch_get_registrations_for_dispatch_key", "_dispatch_has_backend_fallback",
    "_dispatch_has_computed_kernel_for_dispatch_key", "_dispatch_has_kernel",
    "_dispatch_has_kernel_for_any_dispatch_key", "_dispatch_has_kernel_for_dispatch_key",
    "_dispatch_kernel_for_dispatch_key_is_fallthrough",
]


def _known(name):
    packet, _, overload = name.partition(".")
    return overload in _C._op_overloads(packet)


def _registered(name):
    """The kernels of an operator by their keys: the last one of each."""
    return dict(_C._op_kernels(name))


def _dispatch_has_kernel(name):
    """Whether there is an operator of this name with a kernel."""
    return _known(name) and bool(_C._op_kernels(name))


def _dispatch_has_kernel_for_dispatch_key(name, key):
    """Whether a kernel of an operator is registered for a key itself. Loops over memory count for the devices that
    have them."""
    key = _parsed(key).name
    registered = _registered(name)
    if key in registered:
        return True
    explicit = registered.keys() & {"CompositeExplicitAutograd"}
    return key in ("CPU", "CUDA", "Meta") and bool(explicit) and not _is_composite(name) and _C._op_serves(name, key)


def _is_composite(name):
    return "CompositeImplicitAutograd" in _registered(name)


def _dispatch_has_kernel_for_any_dispatch_key(name, keys):
    """Whether a kernel of an operator is registered for one of the keys."""
    return any(_dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _dispatch_has_computed_kernel_for_dispatch_key(name, key):
    """Whether a call of an operator that arrives at a key finds a kernel there."""
    return _C._op_serves(name, _parsed(key).name)


def _dispatch_kernel_for_dispatch_key_is_fallthrough(name, key):
    """Whether calls of an operator pass a key by."""
    return _registered(name).get(_parsed(key).name) == "fallthrough"


def _dispatch_has_backend_fallback(key):
    """Whether there is a kernel for all operators that have none of their own at a key."""
    from corten.library import _fallbacks

    name = _parsed(key).name
    return name in _fallbacks or name in (
        "Python", "Functionalize", "Conjugate", "Negative", "ZeroTensor", "FuncTorchBatched", "BackendSelect",
        "ADInplaceOrView", "AutogradOther", "Tracer", "MkldnnCPU",
    ) or name.startswith("Autocast") or name.startswith("Autograd")


def _dispatch_get_all_op_names():
    """The names of all overloads."""
    return [op["name"] for op in _C._ops()]


def _dispatch_get_registrations_for_dispatch_key(key=""):
    """The names of all overloads that have a kernel for a key."""
    return [
        op["name"] for op in _C._ops() if not key or key in op["kernels"]
    ]


def _dispatch_find_schema_or_throw(name, overload):
    """An overload, from its name.

    Raises:
        RuntimeError: There is none.
    """
    full = f"{name}.{overload}" if overload else name
    if not _known(full):
        raise RuntimeError(f"Could not find schema for {full}")
    return full


def _dispatch_dump(name):
    """The kernels that were registered for an operator, one a line, with the schema before them."""
    if not _known(name):
        return ""
    lines = [f"name: {name}", f"schema: {_C._op_schema(name)}", "alias analysis kind: FROM_SCHEMA"]
    for key, kind in _registered(name).items():
        alias = "[alias]" if _dispatch_is_alias_key(key) else ""
        shown = {"fallthrough": "fallthrough", "typed": "[ boxed unboxed ]"}.get(kind, "[ boxed ]")
        lines.append(f"{key}{alias}: {shown}")
    return "\n".join(lines) + "\n"


def _dispatch_dump_table(name):
    """The kernels that calls of an operator find, one line for each key that has one."""
    lines = []
    registered = _registered(name)
    for key in DispatchKey.__members__:
        if key.startswith(("StartOf", "EndOf", "Named", "NegativeStrides")) or _dispatch_is_alias_key(key) or key == "Undefined":
            continue
        if not _C._op_serves(name, key):
            continue
        if key in registered:
            kind = "fallthrough" if registered[key] == "fallthrough" else "kernel"
        elif "CompositeExplicitAutograd" in registered and key in _BACKENDS:
            kind = "default backend kernel"
        elif "CompositeImplicitAutograd" in registered and _dispatch_is_included_in_alias(
            key, "CompositeImplicitAutograd"
        ):
            kind = "math kernel"
        else:
            kind = "autograd kernel" if key.startswith("Autograd") else "kernel"
        lines.append(f"{key}: [{kind}]")
    return "\n".join(lines) + "\n"
