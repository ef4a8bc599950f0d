//! Layers of quantised networks: products of unsigned bytes, the activations, with signed bytes, the weights.
//!
//! Note [Weights of quantised layers]
//! A weight is an opaque tensor of `int8`. The first product packs it in the order of the micro-kernels; its
//! elements stay beside that, for whoever asks for them. Depth is padded with zeros to groups of four bytes.
//! Where a weight has zero points, these are multiplied by the sum of the inputs of a row.

mod conv;
mod linear;
mod patches;
mod sums;
mod weight;

pub use conv::convolution;
pub use linear::{linear, linear_dynamic};
pub use sums::sum;

use super::support::contiguous;
use crate::parallel::chunks::for_each_run;
use crate::parallel::scratch::with_buffer;
use corten_core::{Access, AccessSet, DType, Result, ensure, try_collect, try_to_vec, try_vec};
use corten_gemm::{ByteRows, Output, PrepackedInt8, Requantize, Rounding, gemm_prepacked_int8};
use corten_ops::{Tensor, op};
use std::ops::Range;
use weight::PackedWeight;

/// Sums of a block of rows and outputs: they stay in the second-level cache.
const BLOCK_SUMS: usize = 1 << 15;
/// Outputs of a block.
const BLOCK_OUTPUTS: usize = 512;
/// Products that are worth a thread.
const GRAIN: usize = 1 << 19;

/// The elements of a vector of scales, zero points or biases as an element type; one stands for all.
pub(super) fn vector<T: corten_core::Element>(
    tensor: &Tensor,
    dtype: DType,
    count: usize,
    what: &str,
) -> Result<Vec<T>> {
    let found = tensor.numel();
    ensure!(
        found == count as i64 || found == 1,
        Runtime,
        "expected {count} {what} or one, but got {found}"
    );
    let dense = contiguous(&op::to_dtype(tensor, dtype, false, false, None)?)?;
    let access = AccessSet::acquire(&[(&dense, Access::Read)])?;
    let values = access.read::<T>(0)?;
    if found == 1 { try_vec(values[0], count) } else { try_to_vec(values) }
}

/// How sums become results, with what belongs to it.
pub(super) struct Scaling {
    input_scale: f32,
    weight_scales: Vec<f32>,
    weight_zero_points: Option<Vec<i32>>,
    offsets: Vec<i32>,
    bias: Option<Vec<f32>>,
}

impl Scaling {
    /// That of a weight, given the scale and zero point of the input.
    fn of(
        weight: &PackedWeight,
        scales: &Tensor,
        bias: Option<&Tensor>,
        (input_scale, input_zero_point): (f64, i64),
        rounding: Option<Rounding>,
    ) -> Result<Self> {
        let count = weight.outputs();
        let zero = input_zero_point as i32;
        let steps = weight.steps() as i32;
        let mut offsets = try_collect(weight.totals().iter().map(|sum| sum.wrapping_mul(-zero)))?;
        if let Some(zero_points) = weight.zero_points() {
            for (offset, zero_point) in offsets.iter_mut().zip(zero_points) {
                *offset = offset.wrapping_add(steps.wrapping_mul(zero).wrapping_mul(*zero_point));
            }
        }
        let bias = bias.map(|bias| vector(bias, DType::Float32, count, "biases")).transpose()?;
        // oneDNN is given the inverse of the scale of the input.
        let input_scale = match rounding {
            Some(Rounding::OneDnn) => 1.0 / ((1.0 / input_scale) as f32),
            _ => input_scale as f32,
        };
        Ok(Self {
            input_scale,
            weight_scales: vector(scales, DType::Float32, count, "scales of the weight")?,
            weight_zero_points: weight.zero_points().map(try_to_vec).transpose()?,
            offsets,
            bias,
        })
    }

    pub(super) fn part(&self, outputs: Range<usize>) -> Requantize<'_> {
        Requantize {
            offsets: &self.offsets[outputs.clone()],
            weight_zero_points: self.weight_zero_points.as_ref().map(|x| &x[outputs.clone()]),
            input_scale: self.input_scale,
            weight_scales: &self.weight_scales[outputs.clone()],
            bias: self.bias.as_ref().map(|x| &x[outputs]),
        }
    }
}

/// What is computed from the sums of some outputs of a row.
pub(super) trait Finish: Sync {
    /// The element type of the result.
    type Out: Send;
    /// Writes the results, which begin at `at` of the result of the whole row; the sums are changed.
    fn finish(&self, scale: &Requantize<'_>, sums: &mut [i32], at: usize, out: &mut [Self::Out]);
}

/// Numbers, not less than zero if `relu`.
pub(super) struct ToFloats {
    pub(super) relu: bool,
}

impl Finish for ToFloats {
    type Out = f32;

    fn finish(&self, scale: &Requantize<'_>, sums: &mut [i32], _at: usize, out: &mut [f32]) {
        scale.to_floats(sums, self.relu, out);
    }
}

/// Bytes of another scale; the addend has the layout of the result.
pub(super) struct ToBytes<'a> {
    pub(super) output: Output<'a>,
}

impl Finish for ToBytes<'_> {
    type Out = u8;

    fn finish(&self, scale: &Requantize<'_>, sums: &mut [i32], at: usize, out: &mut [u8]) {
        let addend = self.output.addend.map(|(bytes, scale, zero)| (&bytes[at..], scale, zero));
        scale.to_bytes(sums, &Output { addend, ..self.output }, out);
    }
}

/// A product of rows of bytes with some of the outputs of a layer.
pub(super) struct Product<'a> {
    pub(super) rows: &'a dyn ByteRows,
    pub(super) weight: &'a PrepackedInt8,
    /// The place of the first output in the results of a row.
    pub(super) first: usize,
    /// The number of its outputs.
    pub(super) outputs: usize,
}

/// All products of `count` rows, of which each has `width` results.
pub(super) fn multiply<F: Finish>(
    products: &[Product<'_>],
    (count, width): (usize, usize),
    scaling: &Scaling,
    finish: &F,
    out: &mut [F::Out],
) -> Result<()> {
    let steps: usize =
        products.iter().map(|product| product.weight.shape()[1] * product.outputs).sum();
    if count == 1
        && let [product] = products
    {
        let step = product.weight.panel_outputs();
        let step = step * BLOCK_OUTPUTS.div_ceil(step);
        let grain = GRAIN.div_ceil((product.weight.shape()[1] * step).max(1));
        return for_each_part(out, step, grain, |start, out| {
            block(product, (0..1, start..start + out.len()), width, scaling, finish, (out, 0));
            Ok(())
        });
    }
    for_each_run(out, width, GRAIN.div_ceil(steps.max(1)), |rows, out| {
        let first = rows.start;
        for product in products {
            let panel = product.weight.panel_outputs();
            let wide = (BLOCK_OUTPUTS.div_ceil(panel) * panel).min(product.outputs.max(1));
            let tall = (BLOCK_SUMS / wide).max(8);
            for start in rows.clone().step_by(tall) {
                let block_rows = start..(start + tall).min(rows.end);
                for col in (0..product.outputs).step_by(wide) {
                    let outputs = col..(col + wide).min(product.outputs);
                    let out = (&mut *out, first);
                    block(product, (block_rows.clone(), outputs), width, scaling, finish, out);
                }
            }
        }
        Ok(())
    })
}

/// Calls `body(start, part)` for parts of `len` elements, of which the last may be shorter.
fn for_each_part<A: Send>(
    out: &mut [A],
    len: usize,
    grain: usize,
    body: impl Fn(usize, &mut [A]) -> Result<()> + Sync,
) -> Result<()> {
    let whole = out.len() / len * len;
    let (parts, rest) = out.split_at_mut(whole);
    crate::parallel::chunks::for_each_chunk(parts, len, grain, |i, part| body(i * len, part))?;
    if rest.is_empty() { Ok(()) } else { body(whole, rest) }
}

/// The results of a block of rows and outputs, in `out` that begins with a row.
fn block<F: Finish>(
    product: &Product<'_>,
    (rows, outputs): (Range<usize>, Range<usize>),
    width: usize,
    scaling: &Scaling,
    finish: &F,
    (out, first_row): (&mut [F::Out], usize),
) {
    // The sum of the inputs stands behind the sums of the outputs.
    let has_total = scaling.weight_zero_points.is_some();
    let (count, all) = (outputs.len(), outputs.len() + usize::from(has_total));
    let whole = product.first + outputs.start..product.first + outputs.end;
    let scale = scaling.part(whole.clone());
    let single_part = out.len() < width;
    with_buffer::<i32, ()>(rows.len() * all, |sums| {
        let to = (&mut *sums, all);
        gemm_prepacked_int8(to, (product.rows, rows.clone()), (product.weight, outputs.clone()));
        if has_total {
            totals(product, rows.clone(), all, sums);
        }
        for (row, sums) in rows.clone().zip(sums.chunks_mut(all)) {
            let at = row * width + whole.start;
            let start = if single_part { 0 } else { (row - first_row) * width + whole.start };
            finish.finish(&scale, sums, at, &mut out[start..start + count]);
        }
    });
}

/// The sums of the inputs, behind the last of each row of sums.
fn totals(product: &Product<'_>, rows: Range<usize>, width: usize, sums: &mut [i32]) {
    let depth = product.weight.shape()[1];
    with_buffer::<u8, ()>(depth, |bytes| {
        for (row, sums) in rows.zip(sums.chunks_mut(width)) {
            product.rows.copy(row, 0..depth, bytes);
            sums[width - 1] = bytes.iter().map(|&byte| i32::from(byte)).sum();
        }
    });
}
