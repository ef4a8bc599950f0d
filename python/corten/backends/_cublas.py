"""The precision of products of matrices on GPUs, as ``torch.backends.cuda.matmul`` and its kin set it."""

from __future__ import annotations

from corten import _C

#: What ``fp32_precision`` was set to: for all operators, and for products of matrices.
_precision = {"generic": "none", "matmul": "none"}


def _push(name, *values):
    """Tells the back end for GPUs, where this build has one."""
    setter = getattr(_C, name, None)
    if setter is not None:
        setter(*values)


def _switch(name, value):
    if not isinstance(value, bool):
        raise RuntimeError(f"{name} expects a bool, but got {type(value).__name__}")
    return value


def precision(kind):
    """The precision of float32 for a kind of operators: its own, or that of all."""
    own = _precision[kind]
    return _precision["generic"] if own == "none" else own


def set_precision(kind, value):
    """Sets the precision of float32 for a kind of operators: ``ieee``, ``tf32`` or ``none`` for that of all."""
    if value not in ("ieee", "tf32", "bf16", "none"):
        raise RuntimeError(f"Unknown precision: {value}")
    if kind != "generic" and value == "bf16":
        raise RuntimeError("backend 'cuda' does not support precision 'bf16'")
    _precision[kind] = value
    _push("_cuda_setAllowTF32", precision("matmul") == "tf32")


def _reduction(name, value):
    """(may be reduced, may be split) of a bool or a pair of them."""
    if isinstance(value, bool):
        return value, True
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} expects a bool or a tuple/list of bools, but got {type(value)!r}")
    if not value:
        raise TypeError(f"{name} expects at least one boolean argument")
    if len(value) > 2:
        raise TypeError(f"{name} expects at most two boolean arguments")
    for which, part in zip(("allow_reduced_precision", "allow_splitk"), value):
        if not isinstance(part, bool):
            raise TypeError(f"{name} expects a bool for {which}, but got {type(part)!r}")
    reduced, split = (*value, True)[:2]
    if reduced and not split:
        raise RuntimeError("allow_splitk=False is not supported when reduced precision reductions are enabled")
    return reduced, split


_REDUCTIONS = {
    "allow_fp16_reduced_precision_reduction": False, "allow_bf16_reduced_precision_reduction": True,
}


class Matmul:
    """How exact products of matrices on GPUs are."""

    def __init__(self):
        vars(self).update(_sums=False, _parts={name: (True, True) for name in _REDUCTIONS})

    def __getattr__(self, name):
        if name == "allow_tf32":
            return precision("matmul") == "tf32"
        if name == "fp32_precision":
            return precision("matmul")
        if name == "allow_fp16_accumulation":
            return self._sums
        whole = name.removesuffix("_split_k")
        if whole in _REDUCTIONS:
            return self._parts[whole][whole != name]
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name, value):
        from corten import _settings

        if name == "allow_tf32":
            _switch("set_allow_tf32_cublas", value)
            set_precision("matmul", "tf32" if value else "ieee")
            _settings._state["precision"] = "high" if value else "highest"
        elif name == "fp32_precision":
            set_precision("matmul", value)
        elif name == "allow_fp16_accumulation":
            vars(self)["_sums"] = _switch("set_allow_fp16_accumulation_cublas", value)
            _push("_cuda_setAllowHalfSums", value)
        elif name in _REDUCTIONS:
            self._parts[name] = _reduction(name, value)
            _push("_cuda_setSplitReduction", _REDUCTIONS[name], *self._parts[name])
        else:
            raise AttributeError(f"Unknown attribute {name}")

    def __dir__(self):
        return sorted({*object.__dir__(self), "allow_tf32", "fp32_precision", "allow_fp16_accumulation", *_REDUCTIONS,
                       *(f"{name}_split_k" for name in _REDUCTIONS)})
