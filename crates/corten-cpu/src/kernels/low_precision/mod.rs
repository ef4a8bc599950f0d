//! Products with weights of 4 and 8 bits and of floats of 8 bits.

pub mod dynamic;
pub mod int4;
pub mod int8;
pub mod scaled;

use super::support::{contiguous, empty};
use corten_core::{DType, Result, ensure};
use corten_ops::{Tensor, op};

/// So many rows of weights are expanded at once for a product of several rows.
const TILE: i64 = 64;
/// Up to so many rows are multiplied without expanding weights.
const SKINNY_ROWS: usize = 3;
/// Products that are worth a thread.
const GRAIN: usize = 1 << 16;

/// The elements in single precision, contiguous.
fn single(tensor: &Tensor) -> Result<Tensor> {
    contiguous(&op::to_dtype(tensor, DType::Float32, false, false, None)?)
}

/// The product of `x` and the transpose of a matrix of `n` rows, of which `tile` gives some at a time in
/// single precision.
fn product_of_tiles(
    x: &Tensor,
    n: i64,
    tile: impl Fn(i64, i64) -> Result<Tensor>,
) -> Result<Tensor> {
    let out = empty(&[x.size(0)?, n], x)?;
    for start in (0..n).step_by(TILE as usize) {
        let rows = TILE.min(n - start);
        let part = op::narrow(&out, 1, start, rows)?;
        op::mm_out(x, &op::t(&tile(start, rows)?)?, &part)?;
    }
    Ok(out)
}

/// Checks that elements are floats of 16 or 32 bits.
fn check_float(name: &str, tensor: &Tensor) -> Result<()> {
    ensure!(
        matches!(tensor.dtype(), DType::Float32 | DType::BFloat16 | DType::Float16),
        Runtime,
        "{name} : expect A to be either 32-bit or 16-bit float tensor."
    );
    Ok(())
}
