"""Sparse gradients: what the engine needs of sparse tensors, as kernels of its operators."""

from __future__ import annotations

import functools

from corten import _C
from corten._C import no_grad

from ._compressed import OPERATORS, CompressedTensor


def _kernels(kind, operators, added):
    """The kernels of what the engine calls, for one kind of sparse tensor and its operators."""

    def copy(self, *, memory_format=None):
        return operators["clone"](self) if isinstance(self, kind) else self.clone()

    def converted(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False,
                  memory_format=None):
        target = {"dtype": dtype or self.dtype, "device": self.device if device is None else device}
        return operators["to"](self, **target, copy=True)

    return {
        "_to_copy": converted,
        "add.Tensor": added, "add_.Tensor": operators["add_"], "clone": copy,
        "detach": operators["detach"], "alias": operators["detach"],
        "mul.Tensor": operators["mul"], "neg": operators["neg"],
    }


_KERNELS = {
    **dict.fromkeys(
        ("SparseCsrCPU", "SparseCsrMeta"), _kernels(CompressedTensor, OPERATORS, OPERATORS["add"])
    ),
}


def _below(kernel):
    """A kernel below autograd: what calls it has recorded the call."""

    @functools.wraps(kernel)
    def below(*args, **kwargs):
        with no_grad():
            return kernel(*args, **kwargs)

    return below


def register():
    """Gives the operators that the engine calls kernels for sparse tensors."""
    for key, kernels in _KERNELS.items():
        for name, kernel in kernels.items():
            _C._library_impl(f"aten::{name}", key, _below(kernel))
