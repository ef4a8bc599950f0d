//! Sparse tensors: sizes and a dtype over other tensors that hold the entries.
//!
//! Note [Sparse tensors]
//! A sparse tensor has no storage. Its entries lie in dense tensors, its parts: indices and values in
//! coordinate format, compressed indices, plain indices and values in the four compressed layouts. The
//! parts have no history of their own: autograd records operators on the whole, and what makes a
//! sparse tensor detaches what it is given. Dropping a sparse tensor therefore drops three tensors and
//! never walks a graph.
//!
//! Shallow copies share the parts, not the slot that holds them: writing to the values of one is seen
//! by the other, while other parts, put in place by [`TensorBase::set_sparse_parts`], are not.

use std::sync::Arc;

use super::TensorBase;
use super::base::{Info, TensorImpl};
use crate::geometry::checked_numel;
use crate::{Device, DispatchKey, KeySet, Layout, Result, bail, ensure};

/// The entries of a tensor in coordinate format.
///
/// ```
/// use corten_core::{CooParts, DType, TensorBase, TensorOptions};
///
/// let indices = TensorBase::empty(&[2, 5], TensorOptions::default().dtype(DType::Int64))?;
/// let values = TensorBase::empty(&[5], TensorOptions::default())?;
/// let parts = CooParts { indices, values, coalesced: false };
/// assert_eq!(parts.values.numel(), 5);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone)]
pub struct CooParts {
    /// One column for each entry, of `int64` and shape (sparse dimensions, entries).
    pub indices: TensorBase,
    /// One row for each entry: (entries, dense dimensions…).
    pub values: TensorBase,
    /// Whether the places are known to differ and to be in lexicographic order.
    pub coalesced: bool,
}

/// The entries of a tensor whose rows or columns are compressed.
///
/// ```
/// use corten_core::{CompressedParts, DType, Layout, TensorBase, TensorOptions};
///
/// let whole = TensorOptions::default().dtype(DType::Int64);
/// let parts = CompressedParts {
///     layout: Layout::SparseCsr,
///     compressed_indices: TensorBase::empty(&[4], whole)?,
///     plain_indices: TensorBase::empty(&[5], whole)?,
///     values: TensorBase::empty(&[5], TensorOptions::default())?,
/// };
/// assert_eq!(parts.layout, Layout::SparseCsr);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone)]
pub struct CompressedParts {
    /// Which of the four compressed layouts.
    pub layout: Layout,
    /// Where the entries of each row (CSR, BSR) or column (CSC, BSC) begin, and the end of the last:
    /// (batches…, rows + 1).
    pub compressed_indices: TensorBase,
    /// The column (CSR, BSR) or row (CSC, BSC) of each entry: (batches…, entries).
    pub plain_indices: TensorBase,
    /// (batches…, entries, dense dimensions…), or (batches…, entries, rows of a block, columns of a
    /// block, dense dimensions…).
    pub values: TensorBase,
}

/// What holds the entries of a sparse tensor.
///
/// ```
/// use corten_core::{CooParts, DType, Layout, SparseParts, TensorBase, TensorOptions};
///
/// let indices = TensorBase::empty(&[2, 0], TensorOptions::default().dtype(DType::Int64))?;
/// let values = TensorBase::empty(&[0], TensorOptions::default())?;
/// let parts = SparseParts::Coo(CooParts { indices, values, coalesced: true });
/// assert_eq!(parts.layout(), Layout::Sparse);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Clone)]
pub enum SparseParts {
    /// Coordinate format.
    Coo(CooParts),
    /// Compressed rows or columns, of numbers or blocks.
    Compressed(CompressedParts),
}

impl SparseParts {
    /// The layout of a tensor of these parts.
    pub fn layout(&self) -> Layout {
        match self {
            Self::Coo(_) => Layout::Sparse,
            Self::Compressed(parts) => parts.layout,
        }
    }

    /// The values.
    pub fn values(&self) -> &TensorBase {
        match self {
            Self::Coo(parts) => &parts.values,
            Self::Compressed(parts) => &parts.values,
        }
    }
}

impl From<CooParts> for SparseParts {
    fn from(parts: CooParts) -> Self {
        Self::Coo(parts)
    }
}

impl From<CompressedParts> for SparseParts {
    fn from(parts: CompressedParts) -> Self {
        Self::Compressed(parts)
    }
}

impl TensorImpl {
    /// What holds the entries of a sparse tensor; `None` for other tensors.
    pub fn sparse_parts(&self) -> Option<Arc<SparseParts>> {
        self.extra_parts()?.sparse.clone()
    }

    /// The entries of a tensor in coordinate format; `None` for other tensors.
    pub fn coo_parts(&self) -> Option<CooParts> {
        match &*self.sparse_parts()? {
            SparseParts::Coo(parts) => Some(parts.clone()),
            SparseParts::Compressed(_) => None,
        }
    }

    /// The entries of a tensor in a compressed layout; `None` for other tensors.
    pub fn compressed_parts(&self) -> Option<CompressedParts> {
        match &*self.sparse_parts()? {
            SparseParts::Coo(_) => None,
            SparseParts::Compressed(parts) => Some(parts.clone()),
        }
    }

    /// Whether this is a tensor in coordinate format.
    #[inline]
    pub fn is_sparse(&self) -> bool {
        self.key_set().has_any(SPARSE)
    }

    /// Whether this is a tensor in one of the compressed layouts.
    #[inline]
    pub fn is_sparse_compressed(&self) -> bool {
        self.key_set().has_any(SPARSE_COMPRESSED)
    }
}

impl TensorBase {
    /// A sparse tensor of parts that fit together and have no history, which is the caller's to check.
    /// Its dtype and device are those of the values.
    ///
    /// # Errors
    /// `Runtime` for a negative size, or where there are more elements than can be counted.
    pub fn new_sparse(parts: impl Into<SparseParts>, sizes: &[i64]) -> Result<Self> {
        let parts = parts.into();
        let (dtype, device) = (parts.values().dtype(), parts.values().device());
        let keys = sparse_keys(parts.layout(), device);
        let tensor = Self::new_without_storage(dtype, device, keys, sizes)?;
        let kind = match parts.layout() {
            Layout::Sparse => "SparseTensorImpl",
            _ => "SparseCsrTensorImpl",
        };
        tensor.update_extra_meta(|extra| {
            extra.storage_error = Some(format!("Cannot access storage of {kind}"));
            extra.data_ptr_error =
                Some("Cannot access data pointer of Tensor that doesn't have storage".to_owned());
        });
        tensor.set_sparse_parts(parts, sizes)?;
        Ok(tensor)
    }

    /// Puts other parts, of the same layout and dtype, in the place of a sparse tensor's.
    ///
    /// # Errors
    /// `Runtime` where the tensor is not of this layout.
    pub fn set_sparse_parts(&self, parts: impl Into<SparseParts>, sizes: &[i64]) -> Result<()> {
        let parts = parts.into();
        let is_coo = matches!(parts, SparseParts::Coo(_));
        ensure!(
            if is_coo { self.is_sparse() } else { self.is_sparse_compressed() },
            Runtime,
            "a tensor of layout {} cannot take the parts of one of layout {}",
            self.layout(),
            parts.layout()
        );
        if parts.values().dtype() != self.dtype() {
            bail!(
                Runtime,
                "a sparse tensor of {} cannot take values of {}",
                self.dtype().name(),
                parts.values().dtype().name()
            );
        }
        let numel = checked_numel(sizes)?;
        self.store_geometry(sizes, &vec![0; sizes.len()], 0, numel);
        self.update_extra_meta(|extra| extra.sparse = Some(Arc::new(parts)));
        Ok(())
    }
}

impl TensorImpl {
    /// A sparse tensor is neither contiguous nor dense, whatever its sizes.
    pub(super) fn forget_contiguity(&self) {
        self.set_flag(Info::SHAPE_FLAGS, false);
    }
}

fn sparse_keys(layout: Layout, device: Device) -> KeySet {
    KeySet::for_tensor(device.device_type, layout, crate::DType::Float32)
}

const SPARSE: KeySet = KeySet::of(&[DispatchKey::Sparse]);
const SPARSE_COMPRESSED: KeySet = KeySet::of(&[DispatchKey::SparseCsr]);
