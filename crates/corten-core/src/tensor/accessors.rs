//! What a tensor tells about itself, and the parts that can be set one by one.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, MutexGuard};

use super::autograd_meta::make_autograd_meta;
use super::base::{Info, TensorImpl, UNDEFINED};
use super::extra::ExtraCell;
use super::{AutogradMeta, ExtraMeta, Geometry, ShapePolicy};
use crate::access::with_published;
use crate::geometry::{check_in_bounds, wrap_dim_strict};
use crate::keys::{ADINPLACEORVIEW, AUTOGRAD_KEYS, NAMED};
use crate::{DType, Device, Dims, DispatchKey, KeySet, Layout, MemoryFormat, Result, Storage};
use crate::{StorageImpl, TensorOptions, ensure, err};

impl TensorImpl {
    /// Sizes.
    // Neither these nor the strides are inlined: many callers are compiled to be small.
    pub fn sizes(&self) -> Dims {
        let mut dims = Dims::new_const();
        self.copy_sizes_to(&mut dims);
        dims
    }

    /// Stores the sizes in a list where that will stay, which is faster than to return one.
    pub fn copy_sizes_to(&self, dims: &mut Dims) {
        if self.info().has(Info::POLICY)
            && let Some(sizes) = self.ask_policy(|policy| policy.sizes())
        {
            *dims = sizes;
        } else {
            self.shape.copy_sizes(dims);
        }
    }

    /// Stores the sizes of a tensor of at most five dimensions in a list of the caller's and returns
    /// how many they are; of others nothing. What lies behind them is of no meaning.
    #[inline]
    pub fn copy_few_sizes_to(&self, sizes: &mut [i64; 5]) -> Option<usize> {
        if self.info().has(Info::POLICY) { None } else { self.shape.copy_few_sizes(sizes) }
    }

    /// Strides, in elements.
    pub fn strides(&self) -> Dims {
        let mut dims = Dims::new_const();
        self.copy_strides_to(&mut dims);
        dims
    }

    /// Stores the strides in a list where that will stay.
    pub fn copy_strides_to(&self, dims: &mut Dims) {
        if self.info().has(Info::POLICY)
            && let Some(strides) = self.ask_policy(|policy| policy.strides())
        {
            *dims = strides;
        } else {
            self.shape.copy_strides(dims);
        }
    }

    #[cold]
    fn ask_policy<R>(&self, question: impl FnOnce(&dyn ShapePolicy) -> Option<R>) -> Option<R> {
        // The lock is given back first: the policy may run foreign code.
        let policy = self.extra_cell_opt()?.parts().policy.clone();
        question(&*policy?)
    }

    /// Installs or removes who answers for sizes, strides, device and layout. Only tensors without
    /// data can have one: kernels rely on the stored geometry of the others.
    pub fn set_shape_policy(&self, policy: Option<Arc<dyn ShapePolicy>>) -> Result<()> {
        let has_data = self
            .storage_opt()
            .is_some_and(|storage| storage.is_pending() || !storage.data_ptr().is_null());
        ensure!(!has_data, Runtime, "a tensor with data answers for its own sizes");
        let present = policy.is_some();
        let old = std::mem::replace(&mut self.extra_cell().parts().policy, policy);
        self.set_flag(Info::POLICY, present);
        drop(old);
        Ok(())
    }

    /// The stored sizes, strides, offset and element count of one moment.
    pub fn geometry(&self) -> Geometry {
        let mut geometry = Geometry::EMPTY;
        self.copy_geometry_to(&mut geometry);
        geometry
    }

    /// Stores [`geometry`](Self::geometry) where it will stay, which is faster than to return it.
    pub fn copy_geometry_to(&self, geometry: &mut Geometry) {
        self.shape.consistent(|| {
            self.shape.copy_both(&mut geometry.sizes, &mut geometry.strides);
            geometry.storage_offset = self.storage_offset.load(Ordering::Relaxed);
            geometry.numel = self.numel.load(Ordering::Relaxed);
        });
    }

    /// The sizes and strides of a matrix; nothing for another rank, nor where somebody else answers
    /// for them.
    #[inline]
    pub fn matrix_geometry(&self) -> Option<([i64; 2], [i64; 2])> {
        if self.info().has(Info::POLICY) { None } else { self.shape.of_matrix() }
    }

    /// The stored number of elements and offset of one moment, where the elements lie side by side in
    /// their order.
    pub(crate) fn contiguous_extent(&self) -> Option<(i64, i64)> {
        let vector = self.shape.consistent(|| {
            let (size, stride) = self.shape.of_vector()?;
            Some((size, stride, self.storage_offset.load(Ordering::Relaxed)))
        });
        if let Some((size, stride, offset)) = vector {
            return (stride == 1 || size <= 1).then_some((size, offset));
        }
        let mut geometry = Geometry::EMPTY;
        self.copy_geometry_to(&mut geometry);
        geometry.is_contiguous().then_some((geometry.numel, geometry.storage_offset))
    }

    /// The size of one dimension, which may count from the end.
    pub fn size(&self, dim: i64) -> Result<i64> {
        if !self.info().has(Info::POLICY)
            && let Ok(dim) = usize::try_from(dim)
            && let Some(size) = self.shape.size_at(dim)
        {
            return Ok(size);
        }
        let sizes = self.sizes();
        Ok(sizes[wrap_dim_strict(dim, sizes.len())?])
    }

    /// The stride of one dimension, which may count from the end.
    ///
    /// # Errors
    /// `Index` for a dimension out of range; `Runtime` where the rows or columns are compressed.
    pub fn stride(&self, dim: i64) -> Result<i64> {
        ensure!(!self.is_sparse_compressed(), Runtime, "Sparse CSR tensors do not have strides");
        let strides = self.strides();
        Ok(strides[wrap_dim_strict(dim, strides.len())?])
    }

    /// The number of dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        if self.info().has(Info::POLICY) { self.sizes().len() } else { self.shape.rank() }
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> i64 {
        if self.info().has(Info::POLICY) {
            return self.sizes().iter().product();
        }
        self.numel.load(Ordering::Relaxed)
    }

    /// Where the element with all indices zero lies in the storage, in elements.
    #[inline]
    pub fn storage_offset(&self) -> i64 {
        self.storage_offset.load(Ordering::Relaxed)
    }

    /// The dtype.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.info().dtype()
    }

    /// Bytes per element.
    #[inline]
    pub fn itemsize(&self) -> usize {
        self.dtype().itemsize()
    }

    /// Bytes of all elements, each counted once; the largest number if there are more, as elements that
    /// share their memory can be.
    pub fn nbytes(&self) -> usize {
        (self.numel() as usize).saturating_mul(self.itemsize())
    }

    /// The device; of the undefined tensor, the host.
    #[inline]
    pub fn device(&self) -> Device {
        self.device_opt().unwrap_or(Device::CPU)
    }

    /// The device, which only the undefined tensor lacks.
    #[inline]
    pub fn device_opt(&self) -> Option<Device> {
        let info = self.info();
        if info.has(Info::POLICY) {
            return self.ask_policy(|policy| policy.device()).or(info.device());
        }
        info.device()
    }

    /// The dispatch keys.
    #[inline]
    pub fn key_set(&self) -> KeySet {
        KeySet(self.keys.load(Ordering::Relaxed))
    }

    /// Replaces the dispatch keys.
    pub fn set_key_set(&self, keys: KeySet) {
        self.keys.store(keys.0, Ordering::Relaxed);
    }

    /// Adds or removes keys: the conjugate and negative bits, Python keys.
    pub fn set_keys(&self, keys: KeySet, present: bool) {
        if present {
            self.keys.fetch_or(keys.0, Ordering::Relaxed);
        } else {
            self.keys.fetch_and(!(keys.0 & !0xFFFF), Ordering::Relaxed);
        }
    }

    /// The layout, which follows from the keys.
    #[inline]
    pub fn layout(&self) -> Layout {
        if self.info().has(Info::POLICY)
            && let Some(layout) = self.ask_policy(|policy| policy.layout())
        {
            return layout;
        }
        let keys = self.key_set();
        if !keys.has_any(NOT_STRIDED) {
            Layout::Strided
        } else if keys.has(DispatchKey::Sparse) {
            Layout::Sparse
        } else if keys.has(DispatchKey::SparseCsr) {
            self.sparse_parts().map_or(Layout::SparseCsr, |parts| parts.layout())
        } else if keys.has(DispatchKey::MkldnnCPU) {
            Layout::Mkldnn
        } else {
            Layout::Jagged
        }
    }

    /// Whether this is not the undefined tensor.
    #[inline]
    pub fn defined(&self) -> bool {
        !ptr::eq(self, &UNDEFINED)
    }

    /// Whether the elements lie densely in the order of the last dimension first.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.info().has(Info::CONTIGUOUS)
    }

    /// Whether the elements lie densely in the order of a memory format.
    pub fn is_contiguous_for(&self, format: MemoryFormat) -> bool {
        self.info().has(match format {
            MemoryFormat::Contiguous | MemoryFormat::Preserve => Info::CONTIGUOUS,
            MemoryFormat::ChannelsLast => Info::CHANNELS_LAST_CONTIGUOUS,
            MemoryFormat::ChannelsLast3d => Info::CHANNELS_LAST_3D_CONTIGUOUS,
        })
    }

    /// Whether the strides order the dimensions as a channels-last format does, gaps allowed.
    pub fn is_strides_like(&self, format: MemoryFormat) -> bool {
        match format {
            MemoryFormat::ChannelsLast => self.info().has(Info::CHANNELS_LAST),
            MemoryFormat::ChannelsLast3d => self.info().has(Info::CHANNELS_LAST_3D),
            _ => false,
        }
    }

    /// Whether the elements fill a block of memory without gaps and without sharing, in any order.
    #[inline]
    pub fn is_non_overlapping_and_dense(&self) -> bool {
        self.info().has(Info::DENSE)
    }

    /// The memory format that results of this tensor should have.
    pub fn suggest_memory_format(&self) -> MemoryFormat {
        let info = self.info();
        if info.has(Info::CHANNELS_LAST) {
            MemoryFormat::ChannelsLast
        } else if info.has(Info::CHANNELS_LAST_3D) {
            MemoryFormat::ChannelsLast3d
        } else {
            MemoryFormat::Contiguous
        }
    }

    /// Whether the tensor was made from a language number and yields to others in promotion.
    #[inline]
    pub fn is_wrapped_number(&self) -> bool {
        self.info().has(Info::WRAPPED_NUMBER)
    }

    /// Marks a tensor of rank 0 as made from a language number.
    pub fn set_wrapped_number(&self, wrapped: bool) {
        debug_assert!(!wrapped || self.dim() == 0);
        self.set_flag(Info::WRAPPED_NUMBER, wrapped);
    }

    /// Whether the elements are to be read as their conjugates.
    #[inline]
    pub fn is_conj(&self) -> bool {
        self.key_set().has(DispatchKey::Conjugate)
    }

    /// Whether the elements are to be read negated.
    #[inline]
    pub fn is_neg(&self) -> bool {
        self.key_set().has(DispatchKey::Negative)
    }

    /// Whether the tensor was made in inference mode: no recording, no version.
    #[inline]
    pub fn is_inference(&self) -> bool {
        !self.key_set().has_any(AUTOGRAD_KEYS.union(ADINPLACEORVIEW))
    }

    /// What a factory must be asked for to make a tensor like this.
    pub fn options(&self) -> TensorOptions {
        TensorOptions::new().dtype(self.dtype()).device(self.device()).layout(self.layout())
    }

    /// How often the contents were changed in place.
    pub fn version(&self) -> Result<u32> {
        let version = self.counted_version();
        version.ok_or_else(|| err!(Runtime, "Inference tensors do not track version counter."))
    }

    /// [`version`](Self::version), or nothing where none is counted: inference tensors.
    #[inline]
    pub fn counted_version(&self) -> Option<u32> {
        (!self.is_inference()).then(|| self.version.current())
    }

    /// Counts one change in place.
    #[inline]
    pub fn bump_version(&self) {
        if !self.is_inference() {
            self.version.bump();
        }
    }

    /// Whether writes to one tensor count as changes of the other.
    pub fn shares_version_with(&self, other: &TensorImpl) -> bool {
        self.version.shares_with(&other.version)
    }

    /// The autograd state, if there is one.
    #[inline]
    pub fn autograd_meta(&self) -> Option<&dyn AutogradMeta> {
        match self.installed_autograd_meta() {
            None if self.info().has(Info::BRIEF_VIEW) => self.full_view_state(),
            installed => installed,
        }
    }

    #[inline]
    pub(super) fn installed_autograd_meta(&self) -> Option<&dyn AutogradMeta> {
        if self.info.load(Ordering::Acquire) & Info::HAS_AUTOGRAD == 0 {
            return None;
        }
        // SAFETY: the flag is set after the state, which then stays until the tensor dies.
        Some(unsafe { (*self.autograd_meta.get()).assume_init_ref() }.as_ref())
    }

    /// The autograd state, made now if there is none.
    pub fn autograd_meta_or_init(&self) -> &dyn AutogradMeta {
        loop {
            if let Some(meta) = self.autograd_meta() {
                return meta;
            }
            self.set_autograd_meta(make_autograd_meta());
        }
    }

    /// Installs an autograd state unless there is one. Returns whether it was installed.
    pub fn set_autograd_meta(&self, meta: Box<dyn AutogradMeta>) -> bool {
        // A compact view has one, though not here yet.
        if !self.defined() || self.info().has(Info::BRIEF_VIEW) {
            return false;
        }
        self.install_autograd_meta(meta)
    }

    pub(super) fn install_autograd_meta(&self, meta: Box<dyn AutogradMeta>) -> bool {
        let _guard = self.shape.lock();
        if self.info.load(Ordering::Acquire) & Info::HAS_AUTOGRAD != 0 {
            return false;
        }
        // SAFETY: the lock makes this the only writer, and without the flag nobody reads.
        unsafe { (*self.autograd_meta.get()).write(meta) };
        self.set_flag(Info::HAS_AUTOGRAD, true);
        true
    }

    pub(super) fn extra_cell(&self) -> &ExtraCell {
        loop {
            if let Some(cell) = self.extra_cell_opt() {
                return cell;
            }
            let fresh = Box::into_raw(Box::<ExtraCell>::default());
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.extra.compare_exchange(ptr::null_mut(), fresh, success, failure).is_err() {
                // SAFETY: another thread was faster, so `fresh` was not published.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    fn extra_cell_opt(&self) -> Option<&ExtraCell> {
        // SAFETY: set once, freed with the tensor.
        unsafe { self.extra.load(Ordering::Acquire).as_ref() }
    }

    pub(super) fn extra_parts(&self) -> Option<MutexGuard<'_, ExtraMeta>> {
        self.extra_cell_opt().map(ExtraCell::parts)
    }

    /// A copy of the rare properties, if there are any.
    pub fn extra_meta(&self) -> Option<ExtraMeta> {
        self.extra_cell_opt().map(|cell| cell.parts().clone())
    }

    /// Changes the rare properties. The closure must not use the tensor.
    pub fn update_extra_meta(&self, change: impl FnOnce(&mut ExtraMeta)) {
        let old = {
            let mut parts = self.extra_cell().parts();
            let old = parts.clone();
            change(&mut parts);
            let throws = parts.data_ptr_error.is_some() || parts.storage_error.is_some();
            self.set_flag(Info::STORAGE_THROWS, throws);
            self.set_flag(Info::SYMBOLIC, parts.symbolic_shape.is_some());
            self.set_keys(NAMED, parts.names.is_some());
            old
        };
        // Dropped without the lock: a part may run foreign code.
        drop(old);
    }

    /// Whether there is a storage.
    #[inline]
    pub fn has_storage(&self) -> bool {
        !self.storage.load(Ordering::Relaxed).is_null()
    }

    /// The storage, if there is one.
    #[inline]
    pub fn storage_opt(&self) -> Option<Storage> {
        with_published(&self.storage, Storage::from_ref)
    }

    /// The handle, for who enters the storage.
    #[inline(always)]
    pub(crate) fn storage_source(&self) -> &AtomicPtr<StorageImpl> {
        &self.storage
    }

    /// The storage.
    pub fn storage(&self) -> Result<Storage> {
        if self.info().has(Info::STORAGE_THROWS) {
            self.check_storage_allowed()?;
        }
        self.storage_opt().ok_or_else(|| self.no_storage())
    }

    /// The address of the first element, for who may ask for it.
    ///
    /// # Errors
    /// `Runtime` where the tensor gives no address; those of [`storage`](Self::storage).
    pub fn checked_data_ptr(&self) -> Result<*mut u8> {
        if self.info().has(Info::STORAGE_THROWS)
            && let Some(message) = self.extra_meta().and_then(|extra| extra.data_ptr_error)
        {
            return Err(err!(Runtime, "{message}"));
        }
        self.storage()?.flush()?;
        Ok(self.data_ptr())
    }

    #[cold]
    fn check_storage_allowed(&self) -> Result<()> {
        match self.extra_meta().and_then(|extra| extra.storage_error) {
            Some(message) => Err(err!(NotImplemented, "{message}")),
            None => Ok(()),
        }
    }

    #[cold]
    fn no_storage(&self) -> crate::Error {
        let kind = if self.defined() { self.layout().name() } else { "an undefined" };
        err!(NotImplemented, "Cannot access storage of {kind} tensor")
    }

    /// The address of the element with all indices zero; null if there is no data.
    ///
    /// Reading or writing through it is sound only while the storage's access is held; see
    /// [`crate::access`].
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        if self.numel() == 0 {
            return ptr::null_mut();
        }
        let base = with_published(&self.storage, StorageImpl::data_ptr).unwrap_or(ptr::null_mut());
        if base.is_null() {
            return base;
        }
        base.wrapping_offset(self.storage_offset() as isize * self.itemsize() as isize)
    }

    /// Refuses a tensor whose elements do not all lie in a storage of `nbytes` bytes: storages
    /// shrink and geometries change without each other, and only here both are looked at.
    #[inline(always)]
    pub(crate) fn check_within(&self, nbytes: usize) -> Result<()> {
        let numel = self.numel.load(Ordering::Relaxed).cast_unsigned();
        let end = self.storage_offset().cast_unsigned().saturating_add(numel);
        let bytes = end.saturating_mul(self.itemsize() as u64);
        // Where there are no gaps, in whatever order, the elements are all that is between the ends.
        if self.info().has(Info::DENSE) && bytes <= nbytes as u64 {
            return Ok(());
        }
        self.check_extent(nbytes)
    }

    #[inline(never)]
    fn check_extent(&self, nbytes: usize) -> Result<()> {
        let mut found = Geometry::EMPTY;
        self.copy_geometry_to(&mut found);
        if found.numel == 0 {
            return Ok(());
        }
        let (sizes, strides, offset) = (&found.sizes, &found.strides, found.storage_offset);
        check_in_bounds(sizes, strides, offset, self.itemsize(), nbytes)
    }

    /// A number that identifies the storage while it lives; 0 if there is none.
    #[inline]
    pub fn storage_key(&self) -> usize {
        self.storage.load(Ordering::Relaxed).addr()
    }

    /// Whether sizes, strides and storage may be changed in place.
    pub fn allows_metadata_change(&self) -> bool {
        !self.info().has(Info::METADATA_FIXED)
    }

    /// Allows or forbids changing sizes, strides and storage in place.
    pub fn set_allow_metadata_change(&self, allowed: bool) {
        self.set_flag(Info::METADATA_FIXED, !allowed);
    }
}

/// The keys of tensors whose elements are not numbers that lie in the order of the strides.
pub(super) const NOT_DENSE: KeySet = NOT_STRIDED.union(KeySet::of(&[
    DispatchKey::Quantized,
    DispatchKey::ZeroTensor,
    DispatchKey::Functionalize,
]));

pub(super) const NOT_STRIDED: KeySet = KeySet::of(&[
    DispatchKey::Sparse,
    DispatchKey::SparseCsr,
    DispatchKey::MkldnnCPU,
    DispatchKey::NestedTensor,
]);
