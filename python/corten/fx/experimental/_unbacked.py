"""Results whose sizes or values depend on data: symbols that data tells."""

from __future__ import annotations

import corten

from . import _symexpr as ex
from ._symbolic_tensor import SymbolicGeometry, attach, geometry_of, meta_of


def item(mode, fake):
    """The value of a tensor, as a symbol: the same one each time."""
    env = mode.shape_env
    kept = fake.__dict__.get("_item_memo")
    if kept is not None and kept[0] == fake._version:
        return kept[1]
    if fake.dtype.is_floating_point:
        made = env.create_unbacked_symfloat()
    elif fake.dtype == corten.bool:
        made = env.create_unbacked_symint()
        env.var_to_range[made.node._expr] = (0, 1)
    elif not fake.dtype.is_complex:
        made = env.create_unbacked_symint()
        low, high = corten.iinfo(fake.dtype).min, corten.iinfo(fake.dtype).max
        if fake.dtype not in (corten.int64, corten.uint64):
            env._constrain_range(made.node._expr, low, high)
    else:
        raise NotImplementedError(f"local_scalar_dense/item NYI for {fake.dtype}")
    fake._item_memo = fake._version, made
    return made


def _size(env, most):
    """A size that depends on data, of at most so many elements."""
    made = env.create_unbacked_symint()
    _, high = env.bounds(most)
    symbol = made.node._expr
    env._constrain_range_for_size(symbol, 0, high)
    return symbol


def _result(mode, like, sizes, dtype, strides=None):
    """A tensor of symbolic sizes on the device of another."""
    from corten._subclasses.fake_tensor import FakeTensor
    from corten.utils._python_dispatch import _disable_current_modes

    env = mode.shape_env
    if strides is None:
        strides, behind = [], 1
        for size in reversed(sizes):
            strides.insert(0, behind)
            behind = ex.mul(behind, size if not ex.is_number(size) or size else 1)
    geometry = SymbolicGeometry(env, sizes, strides)
    with _disable_current_modes():
        elem = meta_of(dtype, *geometry.samples())
    made = FakeTensor(mode, elem, like.device)
    attach(env, made, geometry)
    return made


def has_rule(name):
    """Whether there is a rule for an operator."""
    return name.partition("::")[2].partition(".")[0] in _RULES


def run(mode, func, args, kwargs):
    """The result of an operator whose sizes depend on data."""
    packet = func.name().partition("::")[2].partition(".")[0]
    return _RULES[packet](mode, func, *args, **kwargs)


def _numel(mode, fake):
    return geometry_of(mode.shape_env, fake).numel()


def _nonzero(mode, func, self):
    env = mode.shape_env
    kept = self.__dict__.get("_nonzero_memo")
    if kept is not None and kept[0] == self._version:
        symbol = kept[1]
    else:
        symbol = _size(env, _numel(mode, self))
        self._nonzero_memo = self._version, symbol
    return _result(mode, self, [symbol, self.dim()], corten.int64, [1, symbol])


def _masked_select(mode, func, self, mask):
    with mode:
        both = corten.broadcast_tensors(self, mask)[0]
    return _result(mode, self, [_size(mode.shape_env, _numel(mode, both))], self.dtype)


def _unique2(mode, func, self, sorted=True, return_inverse=False, return_counts=False):
    symbol = _size(mode.shape_env, _numel(mode, self))
    sizes = list(geometry_of(mode.shape_env, self).sizes)
    found = [
        _result(mode, self, [symbol], self.dtype),
        _result(mode, self, sizes if return_inverse else [0], corten.int64),
        _result(mode, self, [symbol] if return_counts else [0], corten.int64),
    ]
    return tuple(found[:2] if func.name() == "aten::_unique" else found)


def _unique_consecutive(mode, func, self, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        return _unique_dim(mode, func, self, dim, True, return_inverse, return_counts)
    return _unique2(mode, func, self, True, return_inverse, return_counts)


def _unique_dim(mode, func, self, dim, sorted=True, return_inverse=False, return_counts=False):
    env = mode.shape_env
    sizes = list(geometry_of(env, self).sizes)
    along, symbol = sizes[dim], _size(env, sizes[dim])
    sizes[dim] = symbol
    return (
        _result(mode, self, sizes, self.dtype),
        _result(mode, self, [along] if return_inverse or func.name() == "aten::unique_dim" else [0], corten.int64),
        _result(mode, self, [symbol] if return_counts or func.name() == "aten::unique_dim" else [0], corten.int64),
    )


def _repeat_interleave(mode, func, repeats, output_size=None):
    symbol = mode.shape_env.create_unbacked_symint().node._expr
    mode.shape_env._constrain_range_for_size(symbol)
    return _result(mode, repeats, [symbol], repeats.dtype)


def _bincount(mode, func, self, weights=None, minlength=0):
    symbol = mode.shape_env.create_unbacked_symint().node._expr
    mode.shape_env._constrain_range_for_size(symbol, minlength)
    dtype = corten.int64
    if weights is not None:
        dtype = corten.float32 if weights.dtype == corten.float32 else corten.float64
    return _result(mode, self, [symbol], dtype)


_RULES = {
    "nonzero": _nonzero, "nonzero_numpy": _nonzero, "unique_dim_consecutive": _unique_dim, "argwhere": _nonzero, "masked_select": _masked_select, "_unique2": _unique2, "_unique": _unique2,
    "unique_consecutive": _unique_consecutive, "unique_dim": _unique_dim, "repeat_interleave": _repeat_interleave,
    "bincount": _bincount,
}
