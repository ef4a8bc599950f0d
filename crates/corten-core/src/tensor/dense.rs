//! What most tensors are, told by a word or two: dense, in order, in host memory; and what is made
//! of words without asking further: results like them, and views.

use std::ptr;
use std::sync::atomic::Ordering;

use super::TensorBase;
use super::accessors::NOT_DENSE;
use super::base::{Info, TensorImpl, Words};
use super::shape::SizesAndStrides;
use super::version::VersionSlot;
use crate::geometry::ContiguityFlags;
use crate::keys::{ADINPLACEORVIEW, AUTOGRAD_KEYS, NEGATIVE_STRIDES};
use crate::{
    DType, Device, DeviceType, DispatchKey, KeySet, Result, Storage, fast_paths,
    inference_mode_enabled,
};

impl TensorImpl {
    /// Whether the elements lie in host memory without gaps, in the order of the indices, and the
    /// tensor is no number made into one. An undefined tensor is not dense, and none is where fast paths are
    /// switched off: the answer may only choose between a fast path and the general one.
    #[inline]
    pub fn is_dense_cpu(&self) -> bool {
        fast_paths() && self.info().is_dense_cpu() && !self.key_set().has_any(NOT_DENSE)
    }

    /// Whether this is a plain tensor of the dtype and the sizes of another one.
    #[inline]
    pub fn is_dense_cpu_like(&self, other: &Self) -> bool {
        self.is_dense_cpu()
            && self.dtype() == other.dtype()
            && (ptr::eq(self, other) || self.shape.has_sizes_of(&other.shape))
    }

    /// Makes `shape` this one with the strides of a fresh tensor. Returns the number of elements, the
    /// shape's flags, and the bytes. Nothing if there are many dimensions or no elements.
    #[inline(always)]
    fn contiguous_copy(
        &self,
        shape: &mut SizesAndStrides,
        dtype: DType,
    ) -> Option<(i64, u64, usize)> {
        let info = shape.copy_from(&self.shape, || self.info())?;
        let (numel, as_before) = shape.make_contiguous()?;
        let flags = match as_before && info.has(Info::CONTIGUOUS) {
            true => info.0 & Info::SHAPE_FLAGS,
            false => shape.flags_in_order(numel),
        };
        let nbytes = usize::try_from(numel).ok()?.checked_mul(dtype.itemsize())?;
        Some((numel, flags, nbytes))
    }
}

impl Info {
    /// One comparison tells all of it.
    #[inline]
    fn is_dense_cpu(self) -> bool {
        const LOOKED_AT: u64 =
            Info::DEVICE_TYPE | Info::CONTIGUOUS | Info::WRAPPED_NUMBER | Info::POLICY;
        const PLAIN: u64 = ((DeviceType::Cpu as u8 as u64) << 16) | Info::CONTIGUOUS;
        self.0 & LOOKED_AT == PLAIN
    }
}

/// The keys of a fresh dense tensor in host memory in the present mode.
#[inline]
pub(super) fn fresh_host_keys() -> KeySet {
    const KEYS: KeySet = KeySet::of(&[
        DispatchKey::CPU,
        DispatchKey::AutocastCPU,
        DispatchKey::AutogradFunctionality,
        DispatchKey::ADInplaceOrView,
    ]);
    if inference_mode_enabled() { KEYS - AUTOGRAD_KEYS.union(ADINPLACEORVIEW) } else { KEYS }
}

impl TensorBase {
    /// A fresh contiguous tensor of a dtype, with the sizes of a [plain](TensorImpl::is_dense_cpu) one
    /// and arbitrary contents; and where its memory starts, which nobody else knows yet.
    ///
    /// # Errors
    /// Those of the allocation.
    #[inline]
    pub fn empty_like_dense(&self, dtype: DType) -> Result<(Self, *mut u8)> {
        let mut memory = ptr::null_mut();
        let tensor = TensorImpl::place(|shape| {
            let (numel, flags, nbytes) = self.contiguous_copy(shape, dtype).ok_or(None)?;
            let storage = Storage::new(nbytes, Device::CPU).map_err(Some)?;
            memory = storage.data_ptr();
            let words = Words {
                storage: storage.0.into_raw().as_ptr(),
                keys: fresh_host_keys(),
                info: Info::new(dtype, Device::CPU).0 | flags,
                storage_offset: 0,
                numel,
            };
            Ok((words, VersionSlot::own()))
        });
        match tensor {
            Ok(tensor) => Ok((Self(tensor), memory)),
            Err(Some(error)) => Err(error),
            Err(None) => {
                let tensor = Self::empty(&self.sizes(), dtype)?;
                let memory = tensor.storage()?.data_ptr();
                Ok((tensor, memory))
            }
        }
    }
}

// Not inlined: what calls these is compiled to be small.
impl TensorBase {
    /// A view of all elements in another shape, with the strides of a fresh tensor; one size may be
    /// -1, for what remains. Nothing where that is not the shape's view at once: the strides must be those of a fresh tensor, the
    /// number of elements must be kept, and there may be neither many dimensions nor rare properties.
    pub fn view_in_order(&self, sizes: &[i64]) -> Option<Self> {
        self.view_by(|shape, Seen { storage_offset, .. }| {
            let (own_numel, usual) = shape.make_contiguous()?;
            shape.set_sizes(sizes)?;
            let (numel, _) = match shape.make_contiguous() {
                Some(counted) => counted,
                None if shape.infer_size(own_numel) => shape.make_contiguous()?,
                None => return None,
            };
            if own_numel != numel || !usual {
                return None;
            }
            let flags = shape.flags_in_order(numel);
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// The view of one position of a dimension, which goes. Nothing where there is no such position,
    /// and where there are many dimensions or rare properties.
    pub fn view_of_position(&self, dim: usize, index: i64) -> Option<Self> {
        self.view_by(|shape, Seen { storage_offset, info }| {
            let (size, stride) = shape.remove(dim)?;
            if !(0..size).contains(&index) {
                return None;
            }
            let storage_offset = storage_offset.checked_add(index.checked_mul(stride)?)?;
            let numel = shape.checked_numel()?;
            // What follows a position of the first dimension lies as densely as all of it did.
            let flags = shape.flags_if(dim == 0 && info.has(Info::CONTIGUOUS), numel);
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// The view of `length` positions of a dimension, every `step`-th from `start` on. Nothing where
    /// there are not these positions, and where there are many dimensions or rare properties.
    pub fn view_of_range(&self, dim: usize, start: i64, length: i64, step: i64) -> Option<Self> {
        if start < 0 || length < 0 || step < 1 {
            return None;
        }
        self.view_by(|shape, Seen { storage_offset, info }| {
            let (size, stride) = shape.narrow(dim, length, step)?;
            let last = start.checked_add(step.checked_mul((length - 1).max(0))?)?;
            if last > size - length.min(1) {
                return None;
            }
            let storage_offset = storage_offset.checked_add(start.checked_mul(stride)?)?;
            let numel = shape.checked_numel()?;
            // Neighbours in the first dimension lie as densely as all of it did.
            let in_order = dim == 0 && step == 1 && info.has(Info::CONTIGUOUS);
            let flags = shape.flags_if(in_order, numel);
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// The view with a dimension of size 1 before another one, or after all of them. Nothing where
    /// there is no such place, and where there are many dimensions or rare properties.
    pub fn view_unsqueezed(&self, dim: usize) -> Option<Self> {
        self.view_by(|shape, Seen { storage_offset, info }| {
            if !shape.insert_one(dim) {
                return None;
            }
            let numel = shape.checked_numel()?;
            let flags = shape.flags_if(info.has(Info::CONTIGUOUS), numel);
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// The view with two dimensions exchanged. Nothing where there are not both, and where there are
    /// many dimensions or rare properties.
    pub fn view_transposed(&self, dim0: usize, dim1: usize) -> Option<Self> {
        self.view_by(|shape, Seen { storage_offset, .. }| {
            if !shape.swap(dim0, dim1) {
                return None;
            }
            let numel = shape.checked_numel()?;
            let flags = shape.flags(numel);
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// The view with the dimensions in another order. Nothing where `order` does not have each of them
    /// once, and where there are many dimensions or rare properties.
    pub fn view_permuted(&self, order: &[usize]) -> Option<Self> {
        self.view_by(|shape, Seen { storage_offset, .. }| {
            if !shape.permute(order) {
                return None;
            }
            let numel = shape.checked_numel()?;
            let flags = shape.flags(numel);
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// The view with dimensions of size 1 repeated, -1 for a size that stays, and perhaps further
    /// dimensions, repeated, before the others. Nothing where that is not so, and where there are many
    /// dimensions, further ones of size 1 or rare properties.
    pub fn view_expanded(&self, sizes: &[i64]) -> Option<Self> {
        self.view_by(|shape, Seen { storage_offset, .. }| {
            if !shape.expand(sizes) {
                return None;
            }
            let numel = shape.checked_numel()?;
            let flags = shape.flags(numel);
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// [`as_view_of`](Self::as_view_of) for few dimensions and no rare properties.
    pub(super) fn view_by_words(
        &self,
        sizes: &[i64],
        strides: &[i64],
        storage_offset: i64,
    ) -> Option<Self> {
        // Negative strides are for the general path, which sets their key.
        if sizes.len() != strides.len() || strides.iter().any(|&stride| stride < 0) {
            return None;
        }
        self.view_by(|shape, _| {
            shape.set_sizes(sizes)?;
            shape.set_strides(strides);
            let numel = shape.checked_numel()?;
            let flags = Info::shape_flags(ContiguityFlags::compute(sizes, strides, numel));
            Some(Lies { storage_offset, numel, flags })
        })
    }

    /// A view with the shape that `change` makes of this tensor's. Nothing where it says so, and
    /// where there are many dimensions or rare properties.
    #[inline(always)]
    fn view_by(
        &self,
        change: impl FnOnce(&mut SizesAndStrides, Seen) -> Option<Lies>,
    ) -> Option<Self> {
        let tensor = &*self.0;
        if !fast_paths() {
            return None;
        }
        if !tensor.extra.load(Ordering::Relaxed).is_null() || tensor.info().has(Info::POLICY) {
            return None;
        }
        let words = |shape: &mut SizesAndStrides| {
            let seen = shape.copy_from(&tensor.shape, || Seen {
                storage_offset: tensor.storage_offset(),
                info: tensor.info(),
            })?;
            let info = seen.info.0 & (Info::DTYPE_MASK | Info::DEVICE_MASK);
            let Lies { storage_offset, numel, flags } = change(shape, seen)?;
            let keys = self.key_set();
            if keys.has_any(NEGATIVE_STRIDES) {
                return None;
            }
            let storage = self.storage_opt()?.0.into_raw().as_ptr();
            let words = Words { storage, keys, info: info | flags, storage_offset, numel };
            Some((words, VersionSlot::shared_with(&self.0)))
        };
        TensorImpl::place(|shape| words(shape).ok_or(())).ok().map(Self)
    }
}

/// What is read of a tensor together with its shape.
#[derive(Clone, Copy)]
struct Seen {
    storage_offset: i64,
    info: Info,
}

/// How the elements of a view lie.
struct Lies {
    storage_offset: i64,
    numel: i64,
    flags: u64,
}

impl SizesAndStrides {
    /// [`flags`](Self::flags) where the elements are known to lie in order without gaps.
    #[inline(always)]
    fn flags_in_order(&self, numel: i64) -> u64 {
        // Channels can lie last only where there are four dimensions or more.
        if self.rank() < 4 { Info::PLAIN } else { self.flags(numel) }
    }

    /// [`flags_in_order`](Self::flags_in_order) where that is known, else [`flags`](Self::flags).
    #[inline(always)]
    fn flags_if(&self, in_order: bool, numel: i64) -> u64 {
        if in_order { self.flags_in_order(numel) } else { self.flags(numel) }
    }

    fn flags(&self, numel: i64) -> u64 {
        if let Some((sizes, strides)) = self.of_matrix() {
            return Info::shape_flags(ContiguityFlags::of_matrix(sizes, strides, numel));
        }
        Info::shape_flags(ContiguityFlags::compute(&self.sizes(), &self.strides(), numel))
    }
}

#[cfg(test)]
mod tests {
    use super::super::base::extend_keys;
    use super::*;
    use crate::{Layout, tls::InferenceModeGuard};

    #[test]
    fn fresh_keys_are_those_of_a_factory() {
        let keys =
            || extend_keys(KeySet::for_tensor(DeviceType::Cpu, Layout::Strided, DType::Float32));
        assert_eq!(fresh_host_keys(), keys());
        let _inference = InferenceModeGuard::new(true);
        assert_eq!(fresh_host_keys(), keys());
    }

    #[test]
    fn a_tensor_as_another_one_is_what_empty_makes() -> Result<()> {
        for sizes in
            [&[][..], &[3], &[2, 3], &[1, 2, 1, 3], &[2, 1, 1, 1], &[1; 5], &[1, 2, 1, 1, 1, 3]]
        {
            let model = TensorBase::empty(sizes, DType::Float32)?;
            let wanted = TensorBase::empty(sizes, DType::Int16)?;
            let (made, memory) = model.empty_like_dense(DType::Int16)?;
            assert_eq!(made.storage()?.data_ptr(), memory);
            assert_eq!(made.geometry(), wanted.geometry());
            assert_eq!(made.info().0, wanted.info().0);
            assert_eq!(made.key_set(), wanted.key_set());
            assert_eq!(made.storage()?.nbytes(), wanted.storage()?.nbytes());
        }
        Ok(())
    }

    #[test]
    fn strides_of_dimensions_of_size_one_are_those_of_a_fresh_tensor() -> Result<()> {
        let model = TensorBase::empty_strided(&[2, 1, 1, 3], &[3, 7, 9, 1], DType::Float32)?;
        let (made, _) = model.empty_like_dense(DType::Float32)?;
        assert!(model.is_dense_cpu() && made.is_dense_cpu_like(&model));
        let wanted = TensorBase::empty(&[2, 1, 1, 3], DType::Float32)?;
        assert_eq!(made.geometry(), wanted.geometry());
        assert_eq!(made.info().0, wanted.info().0);
        Ok(())
    }

    #[test]
    fn a_view_in_order_is_the_view_by_strides() -> Result<()> {
        let base = TensorBase::empty(&[2, 3, 4], DType::Int16)?;
        for sizes in [&[24][..], &[4, 6], &[1, 24, 1], &[2, 2, 3, 2], &[3, 1, 2, 2, 2]] {
            let view = base.view_in_order(sizes).expect("the order is kept");
            let strides = crate::geometry::contiguous_strides(sizes)?;
            let wanted = base.as_view_of(sizes, &strides, 0)?;
            assert_eq!(view.geometry(), wanted.geometry());
            assert_eq!(view.info().0, wanted.info().0);
            assert_eq!(view.key_set(), wanted.key_set());
            assert!(view.is_alias_of(&base) && view.shares_version_with(&base));
        }
        Ok(())
    }

    #[test]
    fn a_view_in_order_needs_order_and_number() -> Result<()> {
        let base = TensorBase::empty(&[2, 3], DType::Float32)?;
        assert!(base.view_in_order(&[5]).is_none());
        assert!(base.view_in_order(&[-1, -6]).is_none());
        assert!(base.view_in_order(&[-1, -1]).is_none());
        assert!(base.view_in_order(&[-1, 0]).is_none());
        assert!(base.view_in_order(&[4, -1]).is_none());
        for (sizes, wanted) in [(&[-1][..], &[6][..]), (&[3, -1], &[3, 2]), (&[6, -1], &[6, 1])] {
            let view = base.view_in_order(sizes).expect("a size is inferred");
            assert_eq!(view.sizes().as_slice(), wanted);
            assert!(view.is_contiguous());
        }
        assert!(base.view_in_order(&[1; 6]).is_none());
        let turned = TensorBase::empty_strided(&[2, 3], &[1, 2], DType::Float32)?;
        assert!(turned.view_in_order(&[6]).is_none());
        let odd = TensorBase::empty_strided(&[6, 1], &[1, 9], DType::Float32)?;
        assert!(odd.view_in_order(&[6]).is_none());
        assert!(TensorBase::empty(&[0], DType::Float32)?.view_in_order(&[0]).is_none());
        assert!(TensorBase::undefined().view_in_order(&[]).is_none());
        Ok(())
    }

    #[test]
    fn views_of_words_are_the_views_by_strides() -> Result<()> {
        let sizes = [2, 3, 1, 4, 2];
        let dense = TensorBase::empty(&sizes, DType::Int16)?;
        let turned = TensorBase::empty_strided(&sizes, &[1, 2, 6, 6, 24], DType::Int16)?;
        for (base, dim) in
            [&dense, &turned].into_iter().flat_map(|base| (0..5).map(move |d| (base, d)))
        {
            let index = sizes[dim] - 1;
            let view = base.view_of_position(dim, index).expect("there is such a position");
            let (mut rest, mut strides) = (base.sizes(), base.strides());
            let offset = index * strides[dim];
            rest.remove(dim);
            strides.remove(dim);
            let wanted = base.as_view_of(&rest, &strides, offset)?;
            assert_eq!(view.geometry(), wanted.geometry());
            assert_eq!(view.info().0, wanted.info().0);
            assert!(view.is_alias_of(base) && view.shares_version_with(base));
            assert!(base.view_of_position(dim, sizes[dim]).is_none());
            assert!(base.view_of_position(dim, -1).is_none());
        }
        for (base, (a, b)) in [(&dense, (0, 4)), (&turned, (3, 1)), (&dense, (2, 2))] {
            let view = base.view_transposed(a, b).expect("there are both");
            let (mut sizes, mut strides) = (base.sizes(), base.strides());
            sizes.swap(a, b);
            strides.swap(a, b);
            let wanted = base.as_view_of(&sizes, &strides, 0)?;
            assert_eq!((view.geometry(), view.info().0), (wanted.geometry(), wanted.info().0));
            assert!(view.is_alias_of(base) && view.shares_version_with(base));
            assert!(base.view_transposed(a, 5).is_none());
        }
        for (base, order) in [(&dense, [4, 3, 2, 1, 0]), (&turned, [1, 0, 4, 2, 3])] {
            let view = base.view_permuted(&order).expect("each is there once");
            let (sizes, strides) = (base.sizes(), base.strides());
            let (sizes, strides) = (order.map(|d| sizes[d]), order.map(|d| strides[d]));
            let wanted = base.as_view_of(&sizes, &strides, 0)?;
            assert_eq!((view.geometry(), view.info().0), (wanted.geometry(), wanted.info().0));
        }
        for order in [&[0, 1, 2, 3][..], &[0, 1, 2, 3, 3], &[0, 1, 2, 3, 5], &[0; 6]] {
            assert!(dense.view_permuted(order).is_none());
        }
        let narrow = TensorBase::empty_strided(&[3, 1], &[1, 7], DType::Int16)?;
        for (sizes, wanted, strides) in [
            (&[3, 4][..], &[3, 4][..], &[1, 0][..]),
            (&[-1, 1], &[3, 1], &[1, 7]),
            (&[2, 3, -1], &[2, 3, 1], &[0, 1, 7]),
            (&[0, 3, 0], &[0, 3, 0], &[0, 1, 0]),
        ] {
            let view = narrow.view_expanded(sizes).expect("it can be repeated");
            let wanted = narrow.as_view_of(wanted, strides, 0)?;
            assert_eq!((view.geometry(), view.info().0), (wanted.geometry(), wanted.info().0));
        }
        for sizes in [&[3][..], &[2, 1], &[3, -2], &[-1, 3, 1], &[1, 3, 1], &[2, 2, 2, 2, 3, 1]] {
            assert!(narrow.view_expanded(sizes).is_none());
        }
        let empty = TensorBase::empty(&[2, 0], DType::Int16)?;
        assert_eq!(empty.view_of_position(0, 1).expect("a row").numel(), 0);
        assert!(empty.view_of_position(1, 0).is_none());
        assert!(dense.view_of_position(5, 0).is_none());
        Ok(())
    }

    #[test]
    fn unsqueezed_views_are_the_views_by_strides() -> Result<()> {
        let dense = TensorBase::empty(&[2, 3, 4, 2], DType::Int16)?;
        let turned = TensorBase::empty_strided(&[2, 3, 4, 2], &[1, 2, 6, 24], DType::Int16)?;
        let none = TensorBase::empty(&[2, 0], DType::Int16)?;
        let one = TensorBase::empty(&[], DType::Int16)?;
        for base in [&dense, &turned, &none, &one] {
            let rank = base.dim();
            for dim in 0..=rank {
                let view = base.view_unsqueezed(dim).expect("there is such a place");
                let (mut sizes, mut strides) = (base.sizes(), base.strides());
                let stride = if dim < rank { sizes[dim] * strides[dim] } else { 1 };
                sizes.insert(dim, 1);
                strides.insert(dim, stride);
                let wanted = base.as_view_of(&sizes, &strides, 0)?;
                assert_eq!((view.geometry(), view.info().0), (wanted.geometry(), wanted.info().0));
                assert!(view.is_alias_of(base) && view.shares_version_with(base));
            }
            assert!(base.view_unsqueezed(rank + 1).is_none());
        }
        assert!(TensorBase::empty(&[1; 5], DType::Int16)?.view_unsqueezed(0).is_none());
        Ok(())
    }

    #[test]
    fn views_of_ranges_are_the_views_by_strides() -> Result<()> {
        let dense = TensorBase::empty(&[5, 3, 4], DType::Int16)?;
        let turned = TensorBase::empty_strided(&[5, 3, 4], &[1, 5, 15], DType::Int16)?;
        let one = TensorBase::empty_strided(&[1, 3], &[9, 1], DType::Int16)?;
        let wide = TensorBase::empty(&[6, 2, 2, 3], DType::Int16)?;
        let ranges = [(0, 0, 1), (0, 1, 1), (1, 2, 1), (0, 2, 2), (1, 2, 3), (5, 0, 1), (0, 5, 1)];
        for base in [&dense, &turned, &one, &wide] {
            for (dim, (start, length, step)) in (0..2).flat_map(|d| ranges.map(|r| (d, r))) {
                let (mut sizes, mut strides) = (base.sizes(), base.strides());
                let outside = match length {
                    0 => start > sizes[dim],
                    _ => start + (length - 1) * step >= sizes[dim],
                };
                let view = base.view_of_range(dim, start, length, step);
                assert_eq!(view.is_none(), outside, "{base:?} {dim} {start} {length} {step}");
                let Some(view) = view else { continue };
                let offset = start * strides[dim];
                (sizes[dim], strides[dim]) = (length, strides[dim] * step);
                let wanted = base.as_view_of(&sizes, &strides, offset)?;
                assert_eq!((view.geometry(), view.info().0), (wanted.geometry(), wanted.info().0));
                assert!(view.is_alias_of(base) && view.shares_version_with(base));
            }
        }
        let (most, least) = (i64::MAX, i64::MIN);
        for (start, length, step) in [
            (-1, 2, 1),
            (0, -1, 1),
            (0, 1, 0),
            (0, 2, -1),
            (most, 1, 1),
            (1, 2, most),
            (0, most, 2),
            (0, least, 1),
            (least, 1, 1),
        ] {
            assert!(dense.view_of_range(0, start, length, step).is_none());
        }
        assert!(dense.view_of_range(3, 0, 1, 1).is_none());
        Ok(())
    }

    #[test]
    fn what_is_not_dense() -> Result<()> {
        let plain = TensorBase::empty(&[2, 3], DType::Float32)?;
        assert!(plain.is_dense_cpu());
        assert!(!TensorBase::undefined().is_dense_cpu());
        assert!(!TensorBase::empty_strided(&[2, 3], &[1, 2], DType::Float32)?.is_dense_cpu());
        assert!(!TensorBase::empty(&[3, 2], DType::Float32)?.is_dense_cpu_like(&plain));
        assert!(!TensorBase::empty(&[2, 3], DType::Float64)?.is_dense_cpu_like(&plain));
        assert!(!TensorBase::empty(&[6], DType::Float32)?.is_dense_cpu_like(&plain));
        let number = TensorBase::of_value(1.0_f64)?;
        number.set_wrapped_number(true);
        assert!(!number.is_dense_cpu());
        Ok(())
    }
}
