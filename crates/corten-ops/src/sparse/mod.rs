//! Sparse tensors: kernels over the dense operators on their parts, the same on every device.
//!
//! The registry names them with `sparse = "coordinate::function"` (tensors in coordinate format) and
//! `sparse_csr = "compressed::function"` (tensors in the four compressed layouts).
//! Their layout in memory is that of the note on sparse tensors in `corten-core`.

use crate::{Tensor, op};
use corten_core::{
    CompressedParts, CooParts, DType, Layout, MemoryFormat, Result, TensorBase, VersionCounter,
    bail, can_cast, ensure,
};

use std::sync::atomic::{AtomicBool, Ordering};

pub mod compressed;
pub mod coordinate;
pub mod values;

/// The entries of a tensor in coordinate format.
///
/// ```
/// use corten::ops::sparse::Coo;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![[0.0, 2.0], [0.0, 0.0]]?.to_sparse()?;
/// let parts = Coo::of(&x);
/// assert_eq!(parts.map(|parts| parts.values.to_vec::<f32>()).transpose()?, Some(vec![2.0]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Coo {
    /// One column for each entry, of `int64` and shape (sparse dimensions, entries).
    pub indices: Tensor,
    /// One row for each entry: (entries, dense dimensions…).
    pub values: Tensor,
    /// Whether the places are known to differ and to be in lexicographic order.
    pub coalesced: bool,
}

impl Coo {
    /// The entries of a tensor in coordinate format; `None` for other tensors.
    pub fn of(tensor: &TensorBase) -> Option<Self> {
        let CooParts { indices, values, coalesced } = tensor.coo_parts()?;
        Some(Self { indices: indices.into(), values: values.into(), coalesced })
    }

    /// The entries of an argument that an operator wants in coordinate format.
    ///
    /// # Errors
    /// `Runtime` for a tensor in another layout.
    pub fn expect(tensor: &Tensor, operator: &str) -> Result<Self> {
        match Self::of(tensor) {
            Some(parts) => Ok(parts),
            None => bail!(
                Runtime,
                "{operator} expected sparse coordinate tensor layout but got {}",
                tensor.layout()
            ),
        }
    }

    /// How many entries there are.
    pub fn nnz(&self) -> i64 {
        self.indices.sizes().get(1).copied().unwrap_or(0)
    }

    /// How many dimensions the indices count.
    pub fn sparse_dim(&self) -> i64 {
        self.indices.sizes().first().copied().unwrap_or(0)
    }

    /// How many dimensions each value has.
    pub fn dense_dim(&self) -> i64 {
        self.values.dim() as i64 - 1
    }

    /// A tensor of these entries, which fit together: nothing is checked. Of parts that have a history
    /// the data is taken alone.
    ///
    /// # Errors
    /// Those of making a tensor.
    pub fn tensor(&self, sizes: &[i64]) -> Result<Tensor> {
        Ok(TensorBase::new_sparse(self.parts()?, sizes)?.into())
    }

    /// Puts these entries in the place of a tensor's.
    ///
    /// # Errors
    /// `Runtime` for a tensor in another layout or of another dtype.
    pub fn put(&self, tensor: &Tensor, sizes: &[i64]) -> Result<()> {
        tensor.set_sparse_parts(self.parts()?, sizes)
    }

    fn parts(&self) -> Result<CooParts> {
        let (indices, values) = (without_history(&self.indices)?, without_history(&self.values)?);
        Ok(CooParts { indices, values, coalesced: self.coalesced })
    }
}

/// The entries of a tensor whose rows or columns are compressed.
///
/// ```
/// use corten::ops::sparse::Compressed;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![[0.0, 2.0], [0.0, 0.0]]?.to_sparse_csr()?;
/// let parts = Compressed::of(&x);
/// let ends = parts.map(|parts| parts.compressed_indices.to_vec::<i64>()).transpose()?;
/// assert_eq!(ends, Some(vec![0, 1, 1]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Compressed {
    /// Which of the four compressed layouts.
    pub layout: Layout,
    /// Where the entries of each row or column begin: (batches…, rows + 1).
    pub compressed_indices: Tensor,
    /// The column or row of each entry: (batches…, entries).
    pub plain_indices: Tensor,
    /// (batches…, entries, block…, dense dimensions…).
    pub values: Tensor,
}

impl Compressed {
    /// The entries of a tensor in a compressed layout; `None` for other tensors.
    pub fn of(tensor: &TensorBase) -> Option<Self> {
        let parts = tensor.compressed_parts()?;
        Some(Self {
            layout: parts.layout,
            compressed_indices: parts.compressed_indices.into(),
            plain_indices: parts.plain_indices.into(),
            values: parts.values.into(),
        })
    }

    /// A tensor of these entries, which fit together: nothing is checked. Of parts that have a history
    /// the data is taken alone.
    ///
    /// # Errors
    /// Those of making a tensor.
    pub fn tensor(&self, sizes: &[i64]) -> Result<Tensor> {
        Ok(TensorBase::new_sparse(self.parts()?, sizes)?.into())
    }

    /// Puts these entries in the place of a tensor's.
    ///
    /// # Errors
    /// `Runtime` for a tensor in another layout or of another dtype.
    pub fn put(&self, tensor: &Tensor, sizes: &[i64]) -> Result<()> {
        tensor.set_sparse_parts(self.parts()?, sizes)
    }

    fn parts(&self) -> Result<CompressedParts> {
        Ok(CompressedParts {
            layout: self.layout,
            compressed_indices: without_history(&self.compressed_indices)?,
            plain_indices: without_history(&self.plain_indices)?,
            values: without_history(&self.values)?,
        })
    }
}

/// The tensor itself, or an alias of its data where it has a history.
fn without_history(tensor: &Tensor) -> Result<TensorBase> {
    if tensor.autograd_meta().is_none_or(|meta| meta.is_leaf() && !meta.requires_grad()) {
        return Ok(tensor.base().clone());
    }
    tensor.base().shallow_copy_and_detach(VersionCounter::Shared, true)
}

/// Values in another dtype; the tensor itself where that is its dtype.
pub(crate) fn cast(values: &Tensor, dtype: DType) -> Result<Tensor> {
    if values.dtype() == dtype {
        return Ok(values.clone());
    }
    let format = Some(MemoryFormat::Preserve);
    op::_to_copy(values, Some(dtype), None, None, None, false, format)
}

/// Writes the result of an operator into the tensor that its in-place or out form is given. The other
/// entries of a sparse tensor are put in the place of its own.
///
/// # Errors
/// `Runtime` where the layouts differ or the dtype cannot hold the result.
pub fn store(target: &Tensor, result: &Tensor) -> Result<Tensor> {
    if target.is_same(result) {
        return Ok(target.clone());
    }
    ensure!(
        can_cast(result.dtype(), target.dtype()),
        Runtime,
        "result type {} can't be cast to the desired output type {}",
        result.dtype().type_name(),
        target.dtype().type_name()
    );
    ensure!(
        target.layout() == result.layout(),
        Runtime,
        "a result of layout {} cannot be written to a tensor of layout {}",
        result.layout(),
        target.layout()
    );
    let dtype = target.dtype();
    if let Some(parts) = Coo::of(result) {
        Coo { values: cast(&parts.values, dtype)?, ..parts }.put(target, &result.sizes())?;
    } else if let Some(parts) = Compressed::of(result) {
        Compressed { values: cast(&parts.values, dtype)?, ..parts }.put(target, &result.sizes())?;
    } else {
        if target.sizes() != result.sizes() {
            op::resize_(target, &result.sizes(), None)?;
        }
        op::copy_(target, result, false)?;
    }
    Ok(target.clone())
}

/// Whether functions that make sparse tensors of parts check that these fit together.
static CHECKS_INVARIANTS: AtomicBool = AtomicBool::new(false);

/// Says whether functions that make sparse tensors of parts check that these fit together: off at first,
/// as the checks read all indices.
pub fn set_checks_invariants(checks: bool) {
    CHECKS_INVARIANTS.store(checks, Ordering::Relaxed);
}

/// Whether functions that make sparse tensors of parts check that these fit together.
pub fn checks_invariants() -> bool {
    CHECKS_INVARIANTS.load(Ordering::Relaxed)
}
