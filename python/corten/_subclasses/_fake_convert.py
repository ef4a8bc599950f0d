"""How tensors with data become tensors without."""

from __future__ import annotations

import weakref

import corten

from corten.utils._python_dispatch import _disable_current_modes
from corten.utils._python_dispatch import is_traceable_wrapper_subclass as _is_wrapper

from .fake_tensor import FakeTensor, UnsupportedFakeTensorException


class FakeTensorConverter:
    """Makes tensors without data, of a tensor always the same one, and remembers which values are known."""

    def __init__(self, *, copy_data=False, export=False):
        self.export = export
        self._memo = {}
        #: The meta tensor of a real storage, and the tensors whose constant lies in one, by its address.
        self._storages, self._constants = {}, {}

    def _get_memo(self, t):
        found = self._memo.get(id(t))
        return found[1] if found is not None and found[0]() is t else None

    def set_tensor_memo(self, t, v):
        """Remembers what stands for a tensor, as long as the tensor lives."""
        key, memo = id(t), self._memo
        self._memo[key] = (weakref.ref(t, lambda _: memo.pop(key, None)), v)

    def add_constant_storage_mapping(self, fake_tensor):
        """Remembers in which storage the constant of a tensor lies."""
        key = fake_tensor.constant.untyped_storage()._cdata
        self._constants.setdefault(key, []).append(weakref.ref(fake_tensor))

    def invalidate_constant_aliases(self, tensor):
        """Forgets the constants of all tensors that share the storage of a real one."""
        for found in self._constants.pop(tensor.untyped_storage()._cdata, ()):
            fake = found()
            if fake is not None:
                fake.constant = None

    def from_real_tensor(self, fake_mode, t, make_constant=False, shape_env=None, *, source=None,
                         symbolic_context=None, trace=True):
        """What stands for a tensor in a mode.

        Raises:
            UnsupportedFakeTensorException: Nothing can stand for it.
        """
        memo = self._get_memo(t)
        if memo is not None and not make_constant:
            return memo
        if t.is_quantized:
            raise UnsupportedFakeTensorException("quantized nyi in meta tensors")
        if t.is_nested or t.layout != corten.strided and not getattr(t, "_of_parts", False):
            raise UnsupportedFakeTensorException(f"{t.layout} nyi in fake tensors")
        with _disable_current_modes():
            if t.layout != corten.strided:
                made = _from_sparse(fake_mode, t)
            elif _is_wrapper(t):
                made = self._from_wrapper(fake_mode, t, shape_env, source, symbolic_context)
            else:
                made = self._from_plain(fake_mode, t, make_constant, shape_env, source, symbolic_context)
        if make_constant:
            made.constant = t
            self.add_constant_storage_mapping(made)
        else:
            self.set_tensor_memo(t, made)
        return made

    def _from_wrapper(self, fake_mode, t, shape_env, source, symbolic_context):
        names, context = t.__tensor_flatten__()
        inner = {
            name: self.from_real_tensor(fake_mode, getattr(t, name), shape_env=shape_env, source=source)
            for name in names
        }
        outer = corten.Size(t.size())
        made = type(t).__tensor_unflatten__(inner, context, outer, t.stride())
        if t.requires_grad and made.is_leaf:
            made.requires_grad_(True)
        return made

    def _from_plain(self, fake_mode, t, make_constant, shape_env, source, symbolic_context):
        if t._is_view() and not make_constant:
            base = self.from_real_tensor(
                fake_mode, t._base, shape_env=shape_env, source=_of(source, "_base"),
                symbolic_context=getattr(symbolic_context, "view_base_context", None),
            )
            if shape_env is None and not isinstance(t, FakeTensor):
                return self._view(fake_mode, base, t)
            shared = base
        else:
            shared = None
        made = self._stand_in(fake_mode, t, shape_env, source, symbolic_context, shared)
        if t.grad is not None and t.is_leaf:
            made.grad = self.from_real_tensor(fake_mode, t.grad, shape_env=shape_env, source=_of(source, "grad"))
        return made

    def _stand_in(self, fake_mode, t, shape_env, source, symbolic_context, shared):
        leaf = t.is_leaf
        geometry = _Geometry.of(fake_mode, t, shape_env, source, symbolic_context)
        made = FakeTensor(
            fake_mode, geometry.meta(t.dtype), t.device, requires_grad=t.requires_grad and leaf, pytype=type(t),
            _is_param=isinstance(t, corten.nn.Parameter), _source=shared,
        )
        geometry.mark(made)
        if isinstance(t, corten.nn.Buffer):
            made._is_buffer, made.persistent = True, getattr(t, "persistent", True)
        if t.requires_grad and not leaf:
            made.requires_grad_(True)
            with fake_mode, corten.enable_grad():
                made = made.view_as(made) if t._is_view() else made.clone()
        return _with_bits(made, t)

    def _view(self, fake_mode, base, t):
        """A view of a stand-in, with or without history as the view that it stands for."""
        with fake_mode:
            if t.dtype != base.dtype:
                base = base.conj() if base.is_conj() else base
                base = corten.view_as_real(base) if base.is_complex() and not t.is_complex() else base.view(t.dtype)
            with corten.set_grad_enabled(t.requires_grad and not t.is_leaf):
                made = _with_bits(base.as_strided(t.size(), t.stride(), t.storage_offset()), t)
        if t.requires_grad and t.is_leaf:
            made.requires_grad_(True)
        return made

    def from_meta_and_device(self, fake_mode, t, device, pytype=None, dispatch_keys=None):
        """What stands for a tensor of a device, with the sizes and strides of a meta tensor."""
        return FakeTensor(fake_mode, t, device, pytype=pytype, dispatch_keys=dispatch_keys)


def _with_bits(made, t):
    """A stand-in whose elements are conjugated and negated where those of the tensor are."""
    made = made if made.is_conj() == t.is_conj() else made.conj()
    return made if made.is_neg() == t.is_neg() else corten._neg_view(made)


def _from_sparse(fake_mode, t):
    """A sparse tensor whose parts have no data: no entries, as nobody knows how many there are."""
    def part(shape, dtype):
        return FakeTensor(fake_mode, corten.empty(shape, dtype=dtype, device="meta"), t.device)

    with corten.no_grad():
        if t.layout == corten.sparse_coo:
            from corten.sparse._entries import _shell

            count = t.sparse_dim()
            made = _shell(
                part((count, 0), corten.int64), part((0, *t.shape[count:]), t.dtype), t.shape, t.is_coalesced()
            )
        else:
            from corten.sparse._compressed import shell

            compressed, plain, values = t._parts
            lead = plain.dim() - 1
            made = shell(
                part(compressed.shape, compressed.dtype), part((*plain.shape[:-1], 0), plain.dtype),
                part((*values.shape[:lead], 0, *values.shape[lead + 1:]), t.dtype), t.shape, t.layout,
            )
    return made.requires_grad_() if t.requires_grad else made


class _Geometry:
    """Sizes and strides of a stand-in: numbers, or symbols with samples."""

    def __init__(self, sizes, strides, offset, symbolic=None):
        self.sizes, self.strides, self.offset, self.symbolic = sizes, strides, offset, symbolic

    @classmethod
    def of(cls, fake_mode, t, shape_env, source, symbolic_context):
        if isinstance(t, FakeTensor) and t.__dict__.get("_symbolic") is not None:
            found = t.__dict__["_symbolic"]
            return cls(*found.samples(), found)
        if shape_env is None:
            return cls(tuple(t.shape), t.stride(), t.storage_offset())
        from corten.fx.experimental._symbolic_tensor import symbolic_geometry

        found = symbolic_geometry(shape_env, t, source, symbolic_context)
        return cls(*found.samples(), found if found.has_symbols() else None)

    def meta(self, dtype):
        """A meta tensor."""
        needed = self.offset
        if 0 not in self.sizes:
            needed += 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides))
        store = corten.empty(needed, dtype=dtype, device="meta")
        return store.as_strided(self.sizes, self.strides, self.offset).detach()

    def mark(self, made):
        if self.symbolic is not None:
            from corten.fx.experimental._symbolic_tensor import attach

            attach(self.symbolic.env, made, self.symbolic)


def _of(source, name):
    """The name of an attribute of where a tensor comes from."""
    if source is None:
        return None
    from corten.fx.experimental._shape_env import _name

    return f"{_name(source)}.{name}"


__all__ = ["FakeTensorConverter"]
