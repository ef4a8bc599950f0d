//! Rows of a table by index, and their gradient.

use super::support::{Summed, contiguous, empty, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{
    Access, AccessSet, DType, Result, ensure, match_dtype, try_collect, try_to_vec, try_vec,
};
use corten_ops::{Tensor, op};

/// The rows of `weight` that `indices` name.
///
/// # Errors
/// `Index` for an index that is no row, `Runtime` for a wrong rank or dtype.
pub fn embedding(
    weight: &Tensor,
    indices: &Tensor,
    _padding_idx: i64,
    _scale_grad_by_freq: bool,
    _sparse: bool,
) -> Result<Tensor> {
    ensure!(weight.dim() == 2, Runtime, "'weight' must be 2-D");
    check_indices(indices, "embedding", 1)?;
    let (count, len) = (weight.sizes()[0], weight.sizes()[1] as usize);
    let mut sizes = indices.sizes();
    sizes.push(len as i64);
    let (weight, out) = (contiguous(weight)?, empty(&sizes, weight)?);
    if is_shape_only(&out) {
        return Ok(out);
    }
    let rows = rows_of(indices)?;
    ensure!(rows.iter().all(|row| (0..count).contains(row)), Index, "index out of range in self");
    match_dtype!(weight.dtype(), "embedding", All, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (&weight, Access::Read)])?;
        let (out, table) = (access.write::<T>(0)?, access.read::<T>(1)?);
        for_each_chunk(out, len, grain_of(len), |i, out| {
            out.copy_from_slice(&table[rows[i] as usize * len..][..len]);
            Ok(())
        })
    })?;
    Ok(out)
}

/// Adds every row of the gradient to the row of the table that it was read from.
///
/// # Errors
/// `Runtime` when shapes do not fit.
pub fn embedding_dense_backward(
    grad_output: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    check_indices(indices, "embedding_backward", 2)?;
    let (count, len) = (indices.numel(), grad_output.size(-1)?);
    ensure!(
        grad_output.numel() == len * count,
        Runtime,
        "shape '[{count}, {len}]' is invalid for input of size {}",
        grad_output.numel()
    );
    let out = empty(&[num_weights, len], grad_output)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let rows = rows_of(indices)?;
    let grad = contiguous(grad_output)?;
    let places = RowIndex::of(&rows, num_weights as usize, padding_idx)?;
    match_dtype!(grad.dtype(), "embedding_backward", Summable, T => {
        let access = AccessSet::acquire(&[(&out, Access::Write), (&grad, Access::Read)])?;
        let (out, grad) = (access.write::<T>(0)?, access.read::<T>(1)?);
        scatter(out, grad, &places, len as usize, scale_grad_by_freq)
    })?;
    Ok(out)
}

fn scatter<T: Summed>(
    out: &mut [T],
    grad: &[T],
    places: &RowIndex,
    len: usize,
    by_frequency: bool,
) -> Result<()> {
    for_each_chunk(out, len, grain_of(len), |row, out| {
        let places = places.of_row(row);
        let mut sums = try_vec(T::Sum::default(), len)?;
        for &place in places {
            let grad = &grad[place * len..][..len];
            sums.iter_mut().zip(grad).for_each(|(sum, &value)| T::add(sum, value));
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = if by_frequency && !places.is_empty() {
                T::share(sum, places.len())
            } else {
                T::of(sum)
            };
        }
        Ok(())
    })
}

/// For every row of a table the places that name it, in order.
pub(super) struct RowIndex {
    /// Where the places of each row start, and one past the last.
    starts: Vec<usize>,
    places: Vec<usize>,
}

impl RowIndex {
    pub(super) fn of(rows: &[i64], count: usize, skipped: i64) -> Result<Self> {
        let named = |row: i64| {
            let inside = row != skipped && row >= 0 && (row as usize) < count;
            inside.then_some(row as usize)
        };
        let mut starts = try_vec(0, count.saturating_add(1))?;
        rows.iter().filter_map(|&row| named(row)).for_each(|row| starts[row + 1] += 1);
        for row in 0..count {
            starts[row + 1] += starts[row];
        }
        let mut next = try_to_vec(&starts)?;
        let mut places = try_vec(0, starts[count])?;
        for (place, &row) in rows.iter().enumerate() {
            if let Some(row) = named(row) {
                places[next[row]] = place;
                next[row] += 1;
            }
        }
        Ok(Self { starts, places })
    }

    pub(super) fn of_row(&self, row: usize) -> &[usize] {
        &self.places[self.starts[row]..self.starts[row + 1]]
    }
}

/// Scales the rows named by `indices` down to a norm of at most `max_norm`, in place.
///
/// # Errors
/// `Index` for an index that is no row, `Runtime` for a wrong rank or dtype.
pub fn embedding_renorm_(
    self_: &Tensor,
    indices: &Tensor,
    max_norm: f64,
    norm_type: f64,
) -> Result<Tensor> {
    ensure!(
        self_.dim() == 2,
        Runtime,
        "Expected 2-dimensional tensor, but got {}-dimensional tensor for argument #1 'self' \
         (while checking arguments for embedding_renorm_)",
        self_.dim()
    );
    check_indices(indices, "embedding_renorm_", 2)?;
    if is_shape_only(self_) {
        return Ok(self_.clone());
    }
    let mut rows = rows_of(indices)?;
    rows.sort_unstable();
    rows.dedup();
    let (count, len) = (self_.sizes()[0], self_.sizes()[1] as usize);
    let outside = rows.iter().find(|&&row| !(0..count).contains(&row));
    if let Some(row) = outside {
        corten_core::bail!(
            Index,
            "select(): index {row} out of range for tensor of size {:?} at dimension 0",
            self_.sizes().as_slice()
        );
    }
    let table = contiguous(self_)?;
    match_dtype!(table.dtype(), "embedding_renorm_", Float, T => {
        let access = AccessSet::acquire(&[(&table, Access::Write)])?;
        let values = access.write::<T>(0)?;
        for row in rows {
            renorm(&mut values[row as usize * len..][..len], max_norm, norm_type);
        }
        Ok(())
    })?;
    if !table.is_same(self_) {
        op::copy_(self_, &table, false)?;
    }
    Ok(self_.clone())
}

fn renorm<T: Float>(row: &mut [T], max_norm: f64, p: f64) {
    let sizes = row.iter().map(|value| value.widen().as_f64().abs());
    let norm = match p {
        f64::INFINITY => sizes.fold(0.0, f64::max),
        1.0 => sizes.sum(),
        2.0 => sizes.map(|size| size * size).sum::<f64>().sqrt(),
        _ => sizes.map(|size| size.powf(p)).sum::<f64>().powf(1.0 / p),
    };
    if norm > max_norm {
        let factor = T::Wide::of(max_norm / (norm + 1e-7));
        row.iter_mut().for_each(|value| *value = T::narrow(value.widen() * factor));
    }
}

fn check_indices(indices: &Tensor, name: &str, place: usize) -> Result<()> {
    ensure!(
        matches!(indices.dtype(), DType::Int64 | DType::Int32),
        Runtime,
        "Expected tensor for argument #{place} 'indices' to have one of the following scalar types: \
         Long, Int; but got torch.{}Tensor instead (while checking arguments for {name})",
        indices.dtype().type_name()
    );
    Ok(())
}

/// The indices as numbers.
fn rows_of(indices: &Tensor) -> Result<Vec<i64>> {
    let indices = contiguous(indices)?;
    let access = AccessSet::acquire(&[(&indices, Access::Read)])?;
    Ok(match indices.dtype() {
        DType::Int32 => try_collect(access.read::<i32>(0)?.iter().map(|&row| row.into()))?,
        _ => try_to_vec(access.read::<i64>(0)?)?,
    })
}
