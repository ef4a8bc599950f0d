//! Views of the same bits: another dtype, complex numbers as pairs, lazy conjugation and negation.

use super::geometry_of;
use crate::Tensor;
use corten_core::{DType, Dims, DispatchKey, KeySet, Result, TensorBase, bail, ensure};

/// The bits as another dtype; the last dimension grows or shrinks where item sizes differ.
///
/// # Errors
/// `Runtime` when the geometry does not allow it.
pub fn view_dtype(self_: &Tensor, dtype: DType) -> Result<Tensor> {
    let own = self_.dtype();
    if own == dtype {
        return super::alias(self_);
    }
    ensure!(
        !self_.is_conj(),
        Runtime,
        "torch.Tensor.view is not supported for conjugate view tensors when converting to a \
         different dtype."
    );
    ensure!(
        !self_.is_neg(),
        Runtime,
        "torch.Tensor.view is not supported for tensors with negative bit set when converting to \
         a different dtype."
    );
    let (from, to) = (own.itemsize() as i64, dtype.itemsize() as i64);
    let (sizes, strides, offset) = match from.cmp(&to) {
        std::cmp::Ordering::Equal => (self_.sizes(), self_.strides(), self_.storage_offset()),
        std::cmp::Ordering::Greater => finer(self_, dtype, from / to)?,
        std::cmp::Ordering::Less => coarser(self_, dtype, to / from)?,
    };
    reinterpreted(self_, dtype, &sizes, &strides, offset)
}

/// A view of the same storage as another dtype, sharing the version.
fn reinterpreted(
    self_: &Tensor,
    dtype: DType,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<Tensor> {
    Ok(self_.as_view_with(dtype, self_.key_set(), sizes, strides, offset)?.into())
}

fn check_last_dim(self_: &Tensor, dtype: DType) -> Result<usize> {
    let (from, to) = (self_.dtype().type_name(), dtype.type_name());
    let Some(last) = self_.dim().checked_sub(1) else {
        bail!(Runtime, "self.dim() cannot be 0 to view {from} as {to} (different element sizes)")
    };
    let stride = self_.strides()[last];
    ensure!(
        stride == 1,
        Runtime,
        "self.stride(-1) must be 1 to view {from} as {to} (different element sizes), but got \
         {stride}"
    );
    Ok(last)
}

/// Elements of `1 / ratio` of the size.
fn finer(self_: &Tensor, dtype: DType, ratio: i64) -> Result<(Dims, Dims, i64)> {
    let last = check_last_dim(self_, dtype)?;
    let (mut sizes, mut strides) = geometry_of(self_);
    sizes[last] *= ratio;
    for stride in &mut strides[..last] {
        *stride *= ratio;
    }
    Ok((sizes, strides, self_.storage_offset() * ratio))
}

/// Elements of `ratio` times the size.
fn coarser(self_: &Tensor, dtype: DType, ratio: i64) -> Result<(Dims, Dims, i64)> {
    let (from, to) = (self_.dtype().type_name(), dtype.type_name());
    let check = |what: &str, value: i64| -> Result<i64> {
        ensure!(
            value % ratio == 0,
            Runtime,
            "self.{what} must be divisible by {ratio} to view {from} as {to} (different element \
             sizes), but got {value}"
        );
        Ok(value / ratio)
    };
    let (mut sizes, mut strides) = geometry_of(self_);
    match sizes.last() {
        Some(&size) => check("size(-1)", size)?,
        None => check_last_dim(self_, dtype)? as i64,
    };
    let offset = check("storage_offset()", self_.storage_offset())?;
    let last = check_last_dim(self_, dtype)?;
    sizes[last] /= ratio;
    for (dim, stride) in strides[..last].iter_mut().enumerate() {
        *stride = check(&format!("stride({dim})"), *stride)?;
    }
    Ok((sizes, strides, offset))
}

/// Complex numbers as pairs: an additional last dimension of size 2.
///
/// # Errors
/// `Type` for tensors that are not complex, `Runtime` for lazily conjugated ones.
pub fn view_as_real(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        !self_.is_conj(),
        Runtime,
        "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate \
         tensor so you can view it as real, use self.resolve_conj(); however, be warned that the \
         resulting tensor will NOT alias the original."
    );
    view_as_real_physical(self_)
}

/// As [`view_as_real`], of what is stored: without regard to lazy conjugation.
///
/// # Errors
/// `Type` for tensors that are not complex.
pub(crate) fn view_as_real_physical(self_: &Tensor) -> Result<Tensor> {
    let dtype = self_.dtype();
    ensure!(dtype.is_complex(), Type, "view_as_real is only supported for complex tensors");
    let (mut sizes, mut strides) = geometry_of(self_);
    sizes.push(2);
    for stride in &mut strides {
        *stride *= 2;
    }
    strides.push(1);
    let keys = self_.key_set() - KeySet::from(DispatchKey::Conjugate);
    let offset = self_.storage_offset() * 2;
    Ok(self_.as_view_with(dtype.to_real(), keys, &sizes, &strides, offset)?.into())
}

/// Pairs, the last dimension, as complex numbers.
///
/// # Errors
/// `Runtime` when the geometry does not allow it, `NotImplemented` for other dtypes.
pub fn view_as_complex(self_: &Tensor) -> Result<Tensor> {
    let dtype = self_.dtype();
    ensure!(!dtype.is_complex(), Type, "view_as_complex is not supported for complex tensors");
    ensure!(
        matches!(dtype, DType::Float16 | DType::Float32 | DType::Float64 | DType::BFloat16),
        NotImplemented,
        "view_as_complex is only supported for half, float and double tensors, but got a tensor \
         of scalar type: {}",
        dtype.type_name()
    );
    let (mut sizes, mut strides) = geometry_of(self_);
    let (Some(size), Some(last)) = (sizes.pop(), strides.pop()) else {
        bail!(Runtime, "Input tensor must have one or more dimensions")
    };
    ensure!(size == 2, Runtime, "Tensor must have a last dimension of size 2");
    ensure!(last == 1, Runtime, "Tensor must have a last dimension with stride 1");
    for stride in &mut strides {
        ensure!(
            *stride % 2 == 0,
            Runtime,
            "Tensor must have a stride divisible by 2 for all but last dimension"
        );
        *stride /= 2;
    }
    let offset = self_.storage_offset();
    ensure!(offset % 2 == 0, Runtime, "Tensor must have a storage_offset divisible by 2");
    reinterpreted(self_, dtype.to_complex(), &sizes, &strides, offset / 2)
}

/// The conjugate, without computing it: a bit on the view says so.
///
/// # Errors
/// `Runtime` for tensors that are not complex.
pub fn conj_view(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dtype().is_complex(), Runtime, "_conj is only supported for complex tensors");
    toggled(self_, DispatchKey::Conjugate)
}

/// The negation, without computing it: a bit on the view says so.
///
/// # Errors
/// `OutOfMemory`.
pub fn neg_view(self_: &Tensor) -> Result<Tensor> {
    toggled(self_, DispatchKey::Negative)
}

/// What is stored, without regard to lazy conjugation and negation.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn stored(self_: &Tensor) -> Result<Tensor> {
    let lazy = KeySet::from(DispatchKey::Conjugate) | KeySet::from(DispatchKey::Negative);
    let (sizes, strides) = geometry_of(self_);
    let (base, offset) = (self_.base(), self_.storage_offset());
    Ok(base.as_view_with(base.dtype(), base.key_set() - lazy, &sizes, &strides, offset)?.into())
}

fn toggled(self_: &Tensor, key: DispatchKey) -> Result<Tensor> {
    let (base, bit): (&TensorBase, KeySet) = (self_.base(), KeySet::from(key));
    let keys = if base.key_set().has(key) { base.key_set() - bit } else { base.key_set() | bit };
    let (sizes, strides) = geometry_of(self_);
    let offset = base.storage_offset();
    Ok(base.as_view_with(base.dtype(), keys, &sizes, &strides, offset)?.into())
}
