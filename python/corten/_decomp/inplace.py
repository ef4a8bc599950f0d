"""Operators that write to their first operand: what the operator without a write gives, copied there."""

from __future__ import annotations

from corten import ops
from corten._decomp._register import decomposition_table, register_decomposition
from corten._decomp.pointwise import heaviside
from corten._decomp.reductions import _zeros_like

aten = ops.aten

#: Operators whose forms that write are copies of their results.
_COPIED = (
    "addcdiv", "addcmul", "celu", "deg2rad", "elu", "frac", "gelu", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "lerp.Scalar", "lerp.Tensor", "logit", "masked_fill.Scalar", "masked_fill.Tensor", "mish",
    "mvlgamma", "nan_to_num", "rad2deg", "renorm", "sgn", "silu", "sinc", "threshold", "tril", "triu",
    "xlogy.Scalar_Other", "xlogy.Tensor", "fill.Scalar", "fill.Tensor",
)


def _overload(packet, name):
    return getattr(getattr(aten, packet), name or "default")


def _register_copied(full_name):
    packet, _, name = full_name.partition(".")
    plain = _overload(packet, name)

    @register_decomposition(_overload(f"{packet}_", name))
    def written(self, *args, **kwargs):
        made = decomposition_table.get(plain, plain)(self, *args, **kwargs)
        return made if made is NotImplemented else aten.copy_.default(self, made)

    written.__name__ = f"{packet}_"


for _name in _COPIED:
    _register_copied(_name)


@register_decomposition(aten.heaviside_.default)
def heaviside_(self, values):
    """0, 1, or ``values`` where ``self`` is 0."""
    return aten.copy_.default(self, heaviside(self, values))


@register_decomposition(aten.zero_.default)
def zero_(self):
    """0 everywhere."""
    return aten.copy_.default(self, _zeros_like(self))


def _places(self, dim, index):
    return [None] * (dim % self.dim()) + [index]


@register_decomposition(aten.index_add_.default)
def index_add_(self, dim, index, source, *, alpha=1):
    """Adds items at positions of a dimension."""
    if self.dim() == 0:
        index_add_(self.unsqueeze(0), 0, index, source, alpha=alpha)
        return self
    source = source if alpha == 1 else source * alpha
    return aten.index_put_.default(self, _places(self, dim, index), source, True)


@register_decomposition(aten.index_copy_.default)
def index_copy_(self, dim, index, source):
    """Replaces items at positions of a dimension."""
    if self.dim() == 0:
        aten.index_put_.default(self.unsqueeze(0), [index], source)
        return self
    return aten.index_put_.default(self, _places(self, dim, index), source)


@register_decomposition(aten.index_fill_.int_Scalar)
def index_fill_(self, dim, index, value):
    """One number at positions of a dimension."""
    number = aten.scalar_tensor.default(
        value, dtype=self.dtype, layout=self.layout, device=self.device, pin_memory=False
    )
    return index_fill_tensor_(self, dim, index, number)


@register_decomposition(aten.index_fill_.int_Tensor)
def index_fill_tensor_(self, dim, index, value):
    """One element at positions of a dimension."""
    if self.dim() == 0:
        index_fill_tensor_(self.unsqueeze(0), 0, index, value)
        return self
    shape = list(self.shape)
    shape[dim % self.dim()] = index.numel()
    index = index if index.dim() == 1 else index.reshape([index.numel()])
    value = value if value.dtype == self.dtype else value.to(self.dtype)
    return aten.index_put_.default(self, _places(self, dim, index), value.expand(shape))
