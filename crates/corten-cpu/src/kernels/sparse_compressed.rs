//! Products of CSR matrices and dense ones, row by row.

use super::support::{contiguous, empty, empty_as};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, DType, Layout, Result, ensure, match_dtype};
use corten_ops::sparse::{Compressed, compressed};
use corten_ops::{Tensor, op};
use std::ops::Range;

/// How many columns are added up in registers and the first-level cache at once.
const TILE: usize = 64;

/// The product of two matrices of which at least one is compressed.
///
/// # Errors
/// `Runtime` where shapes, dtypes or layouts do not fit.
pub fn mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    compressed::check_product(self_, mat2)?;
    let by_rows = self_.layout() == Layout::SparseCsr && mat2.layout() == Layout::Strided;
    let kind = self_.dtype();
    let floats = kind.is_floating_point() && kind.itemsize() > 1;
    let Some(parts) = Compressed::of(self_).filter(|_| by_rows && floats) else {
        return compressed::mm(self_, mat2);
    };
    let rows = Rows::of(&parts, mat2.size(0)?)?;
    let (values, dense) = (contiguous(&parts.values)?, contiguous(mat2)?);
    let columns = dense.size(1)?;
    let out = empty(&[self_.size(0)?, columns], &dense)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    match_dtype!(kind, "addmm_sparse_dense", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write),
            (&values, Access::Read),
            (&dense, Access::Read),
        ])?;
        let given = (access.read::<T>(1)?, access.read::<T>(2)?);
        product(&rows, access.write::<T>(0)?, given, columns as usize)
    })?;
    Ok(out)
}

/// The entries of a CSR matrix by rows, checked to lie within it.
struct Rows {
    ends: Vec<i64>,
    columns: Vec<i64>,
}

impl Rows {
    fn of(parts: &Compressed, width: i64) -> Result<Self> {
        let long =
            |part: &Tensor| op::to_dtype(part, DType::Int64, false, false, None)?.to_vec::<i64>();
        let (ends, columns) = (long(&parts.compressed_indices)?, long(&parts.plain_indices)?);
        ensure!(
            ends.windows(2).all(|pair| 0 <= pair[0] && pair[0] <= pair[1])
                && ends.last().is_none_or(|&last| last as usize <= columns.len()),
            Runtime,
            "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied."
        );
        ensure!(
            columns.iter().all(|column| (0..width).contains(column)),
            Runtime,
            "`0 <= col_indices < ncols` is not satisfied."
        );
        Ok(Self { ends, columns })
    }

    /// The numbers of the entries of a row.
    fn row(&self, row: usize) -> Range<usize> {
        self.ends[row] as usize..self.ends[row + 1] as usize
    }

    /// The mean number of entries of a row.
    fn mean(&self) -> usize {
        self.columns.len() / (self.ends.len() - 1).max(1) + 1
    }
}

fn product<T: Float>(
    rows: &Rows,
    out: &mut [T],
    (values, dense): (&[T], &[T]),
    columns: usize,
) -> Result<()> {
    for_each_chunk(out, columns, grain_of(columns * rows.mean()), |row, out| {
        for (tile, out) in out.chunks_mut(TILE).enumerate() {
            let mut sums = [<T as Float>::Wide::ZERO; TILE];
            for entry in rows.row(row) {
                let start = rows.columns[entry] as usize * columns + tile * TILE;
                let (value, other) = (values[entry].widen(), &dense[start..start + out.len()]);
                for (sum, other) in sums.iter_mut().zip(other) {
                    *sum += value * other.widen();
                }
            }
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = T::narrow(sum);
            }
        }
        Ok(())
    })
}

/// What products of a row are reduced to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduce {
    Sum,
    Mean,
    Max,
    Min,
}

/// For each row of a CSR matrix and each column of a dense one, the sum, mean, greatest or least of the
/// products, 0 without entries; and for the last two, where a gradient is required, which entry it
/// came from: the number of entries where there is none.
///
/// # Errors
/// `Runtime` where layouts, shapes or dtypes do not fit.
pub fn mm_reduce(self_: &Tensor, other: &Tensor, reduce: &str) -> Result<(Tensor, Tensor)> {
    compressed::check_reduced(self_, other, reduce)?;
    let reduce = match reduce {
        "sum" => Reduce::Sum,
        "mean" => Reduce::Mean,
        "amax" => Reduce::Max,
        _ => Reduce::Min,
    };
    let Some(parts) = Compressed::of(self_) else {
        corten_core::bug!("a CSR tensor without parts");
    };
    let rows = Rows::of(&parts, other.size(0)?)?;
    let (values, dense) = (contiguous(&parts.values)?, contiguous(other)?);
    let sizes = [self_.size(0)?, dense.size(1)?];
    let out = empty(&sizes, &dense)?;
    let recorded = [self_, other]
        .iter()
        .any(|tensor| tensor.autograd_meta().is_some_and(|meta| meta.requires_grad()));
    let chosen = recorded && matches!(reduce, Reduce::Max | Reduce::Min);
    let entries = empty_as(&sizes, &dense, DType::Int64)?;
    match_dtype!(dense.dtype(), "spmm_reduce", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write),
            (&entries, Access::Write),
            (&values, Access::Read),
            (&dense, Access::Read),
        ])?;
        let found = (access.write::<T>(0)?, access.write::<i64>(1)?);
        let given = (access.read::<T>(2)?, access.read::<T>(3)?);
        reduced(&rows, found, given, sizes[1] as usize, reduce)
    })?;
    let entries = if chosen { entries } else { empty_as(&[0], &dense, DType::Int64)? };
    Ok((out, entries))
}

fn reduced<T: Float>(
    rows: &Rows,
    (out, entries): (&mut [T], &mut [i64]),
    (values, dense): (&[T], &[T]),
    columns: usize,
    reduce: Reduce,
) -> Result<()> {
    let grain = grain_of(columns * rows.mean());
    if columns == 0 {
        return Ok(());
    }
    for_each_chunk2((out, columns), (entries, columns), grain, |row, out, entries| {
        let range = rows.row(row);
        for (column, (out, chosen)) in out.iter_mut().zip(entries).enumerate() {
            let products = range.clone().map(|entry| {
                let place = rows.columns[entry] as usize * columns + column;
                (entry, values[entry].widen() * dense[place].widen())
            });
            let (value, entry) = one(products, range.len(), reduce);
            *out = T::narrow(value);
            *chosen = entry.unwrap_or(rows.columns.len()) as i64;
        }
        Ok(())
    })
}

/// What the products of one row and column are reduced to, and the entry it came from.
fn one<W: Wide>(
    products: impl Iterator<Item = (usize, W)>,
    count: usize,
    reduce: Reduce,
) -> (W, Option<usize>) {
    if matches!(reduce, Reduce::Sum | Reduce::Mean) {
        let mut sum = W::ZERO;
        products.for_each(|(_, product)| sum += product);
        let mean = reduce == Reduce::Mean && count > 0;
        return (if mean { sum / W::of(count as f64) } else { sum }, None);
    }
    let mut best: Option<(usize, W)> = None;
    for (entry, product) in products {
        let better = best.is_none_or(|(_, held)| {
            let beyond = if reduce == Reduce::Max { product > held } else { product < held };
            beyond || product.is_nan() && !held.is_nan()
        });
        if better {
            best = Some((entry, product));
        }
    }
    best.map_or((W::ZERO, None), |(entry, product)| (product, Some(entry)))
}
