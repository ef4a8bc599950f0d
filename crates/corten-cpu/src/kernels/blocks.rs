//! Linear maps by block-quantised weights, and look-ups of their rows.

use super::support::{contiguous, empty};
use crate::parallel::chunks::for_each_chunk;
use corten_blocks::Activations;
use corten_core::{Access, AccessSet, DType, Result, Scalar, ensure, err, try_vec};
use corten_ops::blocks::{self, BlockRows};
use corten_ops::{Tensor, op, opaque};

/// Rows of weights that one call of a kernel takes.
const ROWS: usize = 64;
/// Products that are worth a thread.
const GRAIN: usize = 1 << 16;

/// The products of the rows of `input` with the rows of a weight.
///
/// # Errors
/// `Runtime` when shapes do not fit.
pub(super) fn linear(input: &Tensor, weight: &Tensor, rows: &BlockRows) -> Result<Tensor> {
    let (sizes, columns) = (input.sizes(), rows.columns() as i64);
    ensure!(
        weight.dim() == 2 && sizes.last() == Some(&columns),
        Runtime,
        "mat1 and mat2 shapes cannot be multiplied ({:?} and {:?}, block-quantised)",
        sizes.as_slice(),
        weight.sizes().as_slice()
    );
    let features = weight.size(0)?;
    let mut shape = sizes;
    shape.pop();
    let count = shape.iter().product::<i64>() as usize;
    shape.push(features);
    let dense = op::to_dtype(input, DType::Float32, false, false, None)?;
    let dense = contiguous(&dense)?;
    let out = empty(&shape, &dense)?;
    if out.numel() > 0 {
        let set = AccessSet::acquire(&[
            (&out, Access::Write),
            (&dense, Access::Read),
            (rows.bytes(), Access::Read),
        ])?;
        let x = activations(set.read(1)?, count, rows.columns())?;
        multiply(rows, set.read(2)?, &x, set.write(0)?)?;
    }
    op::to_dtype(&out, input.dtype(), false, false, None)
}

/// The rows of the input in 8 bits.
fn activations(input: &[f32], count: usize, columns: usize) -> Result<Vec<Activations>> {
    let mut x = try_vec(Activations::default(), count)?;
    for_each_chunk(&mut x, 1, GRAIN.div_ceil(columns.max(1)), |i, x| {
        x[0].set(&input[i * columns..(i + 1) * columns]);
        Ok(())
    })?;
    Ok(x)
}

/// The products of all rows of weights: a thread computes those of some rows with all activations.
fn multiply(rows: &BlockRows, bytes: &[u8], x: &[Activations], out: &mut [f32]) -> Result<()> {
    let (count, each) = (x.len(), rows.row_bytes());
    let product = |start: usize, out: &mut [f32]| {
        let width = out.len() / count;
        let bytes = &bytes[start * each..(start + width) * each];
        let done = rows.format().gemm(bytes, width, x, out, width);
        done.map_err(|error| err!(Internal, "{error}"))
    };
    let grain = GRAIN.div_ceil(ROWS * rows.columns().max(1) * count);
    if count == 1 {
        return in_chunks(out, ROWS, grain, |i, out| product(i * ROWS, out));
    }
    // By rows of weights first: their order is changed below.
    let mut products = try_vec(0.0f32, out.len())?;
    in_chunks(&mut products, ROWS * count, grain, |i, out| product(i * ROWS, out))?;
    let features = out.len() / count;
    for_each_chunk(out, features, GRAIN.div_ceil(features), |row, out| {
        for (number, out) in out.chunks_mut(ROWS).enumerate() {
            let start = number * ROWS * count + row * out.len();
            out.copy_from_slice(&products[start..start + out.len()]);
        }
        Ok(())
    })
}

/// [`for_each_chunk`] with what is left over as a last, shorter chunk.
fn in_chunks(
    out: &mut [f32],
    len: usize,
    grain: usize,
    body: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
) -> Result<()> {
    let whole = out.len() / len;
    let (chunks, rest) = out.split_at_mut(whole * len);
    for_each_chunk(chunks, len, grain, &body)?;
    if rest.is_empty() { Ok(()) } else { body(whole, rest) }
}

/// A product of matrices: with the transpose of a block-quantised one it is a linear map.
///
/// # Errors
/// Those of `mm`.
pub fn mm(self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let left = opaque::value(self_)?.unwrap_or_else(|| self_.clone());
    if let Some(rows) = blocks::of_transpose(mat2).filter(|_| left.dim() == 2) {
        return linear(&left, &op::t(mat2)?, &rows);
    }
    let right = opaque::value(mat2)?.unwrap_or_else(|| mat2.clone());
    in_layout(self_, op::mm(&left, &right)?)
}

/// `beta * self + alpha * mat1 @ mat2`, the product as by [`mm`].
///
/// # Errors
/// Those of `addmm`.
pub fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let base = opaque::value(self_)?.unwrap_or_else(|| self_.clone());
    let left = opaque::value(mat1)?.unwrap_or_else(|| mat1.clone());
    if blocks::of_transpose(mat2).is_none() || left.dim() != 2 {
        let right = opaque::value(mat2)?.unwrap_or_else(|| mat2.clone());
        return in_layout(self_, op::addmm(&base, &left, &right, beta, alpha)?);
    }
    let mut product = mm(&left, mat2)?;
    if alpha.to_f64() != 1.0 {
        product = op::mul_scalar(&product, alpha)?;
    }
    if beta.to_f64() == 0.0 { Ok(product) } else { op::add_tensor(&product, &base, beta) }
}

/// A result in the layout of the first argument.
fn in_layout(first: &Tensor, result: Tensor) -> Result<Tensor> {
    if opaque::stays_opaque(first) { opaque::wrap(result) } else { Ok(result) }
}

/// The rows of an opaque table that `indices` name.
///
/// # Errors
/// `Index` for an index that is no row, `Runtime` for a wrong rank or dtype.
pub fn embedding(
    weight: &Tensor,
    indices: &Tensor,
    padding_idx: i64,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    let Some(rows) = blocks::of(weight).filter(|_| weight.dim() == 2) else {
        let weight = opaque::value(weight)?.unwrap_or_else(|| weight.clone());
        return op::embedding(&weight, indices, padding_idx, scale_grad_by_freq, sparse);
    };
    // The blocks of a row are a row of bytes.
    let found = op::embedding(rows.bytes(), indices, padding_idx, scale_grad_by_freq, sparse)?;
    dequantized(&rows, &found)
}

/// The slices along a dimension of an opaque tensor that a vector of indices selects.
///
/// # Errors
/// Those of `index_select`.
pub fn index_select(self_: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let is_first = dim == 0 || dim == -2;
    let Some(rows) = blocks::of(self_).filter(|_| self_.dim() == 2 && is_first) else {
        let value = opaque::value(self_)?;
        return op::index_select(value.as_ref().unwrap_or(self_), dim, index);
    };
    dequantized(&rows, &op::index_select(rows.bytes(), 0, index)?)
}

/// The weights of rows of bytes: the last dimension becomes that of the elements.
fn dequantized(rows: &BlockRows, bytes: &Tensor) -> Result<Tensor> {
    let mut sizes = bytes.sizes();
    if let Some(last) = sizes.last_mut() {
        *last = rows.columns() as i64;
    }
    op::to_dense(&blocks::from_bytes(rows.format(), bytes, &sizes)?, None, None)
}
