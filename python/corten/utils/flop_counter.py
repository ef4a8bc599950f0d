"""Counting the multiplications and additions that operators do, by module."""

from __future__ import annotations

import functools
import math
from collections import defaultdict

import corten
from corten import ops

from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = ops.aten

#: By operator, the function that counts one call.
flop_registry = {}


def _shape(value):
    return tuple(value.shape) if isinstance(value, corten.Tensor) else value


def _of_shapes(formula):
    """A formula over shapes as one over tensors."""

    @functools.wraps(formula)
    def count(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = tree_map(_shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)

    return count


def register_flop_formula(targets, get_raw=False):
    """A decorator: the function counts calls of some operators such as ``torch.ops.aten.mm``.

    It gets the arguments, shapes in place of tensors, and ``out_shape``; with ``get_raw`` the
    tensors, and ``out_val``.

    Raises:
        ValueError: A target is no operator.
        RuntimeError: It has a formula already.
    """

    def register(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, ops.Packet):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket "
                    f"(i.e. torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    """A product of matrices."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """A product of matrices; the sum is not counted."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    """Products of matrices."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    """Products of matrices; the sum is not counted."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    """A convolution: every weight meets every place of the smaller side once per sample."""
    places = math.prod((x_shape if transposed else out_shape)[2:])
    return 2 * x_shape[0] * places * math.prod(w_shape)


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape, w_shape, bias, stride, padding, dilation, transposed, *args, out_shape=None, **kwargs
):
    """A convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_shape, x_shape, w_shape, bias, stride, padding, dilation, transposed, output_padding,
    groups, output_mask, out_shape
):
    """The convolutions that give the gradients which are asked for."""
    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        pair = (grad_shape, x_shape) if transposed else (x_shape, grad_shape)
        data, filters, result = ((s[1], s[0], *s[2:]) for s in (*pair, out_shape[1]))
        count += conv_flop_count(data, filters, result)
    return count


@register_flop_formula(aten._scaled_dot_product_flash_attention_for_cpu)
def sdpa_flop(query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
    """Two products of matrices."""
    *batch, queries, width = query_shape
    keys, values = key_shape[-2], value_shape[-1]
    return 2 * math.prod(batch) * queries * keys * (width + values)


@register_flop_formula(aten._scaled_dot_product_flash_attention_for_cpu_backward)
def sdpa_backward_flop(
    grad_shape, query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs
):
    """Five products of matrices: one is computed again."""
    *batch, queries, width = query_shape
    keys, values = key_shape[-2], value_shape[-1]
    return 2 * math.prod(batch) * queries * keys * (3 * width + 2 * values)


class FlopCounterMode:
    """A ``with`` block in which operations are counted, by module and operator.

    Args:
        depth: How deep modules of modules are shown.
        display: Whether a table is printed at the end.
        custom_mapping: Further formulas by operator; see :func:`register_flop_formula`.
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if mods is not None:
            import warnings

            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth, self.display = depth, display
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.flop_registry = {
            **flop_registry,
            **{op: f if getattr(f, "_get_raw", False) else _of_shapes(f)
               for op, f in (custom_mapping or {}).items()},
        }
        self.mod_tracker = ModuleTracker()
        self.mode = None

    def get_total_flops(self):
        """All that were counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """By the name of the module, ``Global`` for all, and the operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts as text."""
        depth = (999999 if self.depth is None else self.depth) if depth is None else depth
        names = sorted(name for name in self.flop_counts if name != "Global")
        names = [name for name in names if name.count(".") < depth]
        total = self.get_total_flops()
        covered = any(sum(self.flop_counts[name].values()) >= total for name in names)
        rows = [] if covered or not total else list(self._rows("Global", 0, total))
        for name in names:
            rows += self._rows(name, name.count(".") + (not covered), total)
        return _aligned([("Module", "FLOP", "% Total"), *(rows or [("Global", "0", "0%")])])

    def _rows(self, name, depth, total):
        counts = self.flop_counts[name]
        for label, count in ((name, sum(counts.values())), *((f" - {op}", n) for op, n in counts.items())):
            share = f"{count / total:.2%}" if total else "0%"
            yield " " * depth + label, _with_suffix(count, total), share

    def __enter__(self):
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *exception):
        self.mode.__exit__(*exception)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            import sys

            sys.stdout.write(self.get_table() + "\n")

    def _count(self, op, out, args, kwargs):
        formula = self.flop_registry.get(op)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in set(self.mod_tracker.parents):
                self.flop_counts[name][op] += count


class _Counting(TorchDispatchMode):
    def __init__(self, counter):
        self._counter = counter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self._counter._count(func.overloadpacket, out, args, kwargs)
        return out


def _with_suffix(count, total):
    """A count in thousands, millions, …: in those of the total."""
    power = 0
    while power < 5 and total >= 1000 ** (power + 1):
        power += 1
    return f"{count / 1000**power:.3f}{' KMBTQ'[power] if power else ''}" if power else str(count)


def _aligned(rows):
    """Lines of columns under a ruled head; numbers are at the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    head, *body = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])
        for row in rows
    ]
    return "\n".join([head, "  ".join("-" * width for width in widths), *body])
