//! Linear layers.

use super::weight::{Layout, with_packed};
use super::{Product, Scaling, ToBytes, ToFloats, contiguous, multiply};
use crate::kernels::support::{defined, empty_as};
use crate::parallel::scratch::with_buffer;
use corten_core::{Access, AccessSet, DType, Result, TensorBase, ensure};
use corten_gemm::{ByteRows, Output, Rounding, quantize, range};
use corten_ops::Tensor;
use corten_ops::affine::AffineParams;
use std::ops::Range;

/// Contiguous rows of bytes.
struct DenseRows<'a> {
    bytes: &'a [u8],
    depth: usize,
}

impl ByteRows for DenseRows<'_> {
    fn copy(&self, row: usize, bytes: Range<usize>, to: &mut [u8]) {
        let end = bytes.end.min(self.depth);
        let len = end.saturating_sub(bytes.start);
        to[..len].copy_from_slice(&self.bytes[row * self.depth..][bytes.start..end]);
        to[len..].fill(0);
    }

    fn in_place(&self) -> Option<(&[u8], usize)> {
        let whole = self.depth.is_multiple_of(4);
        whole.then_some((self.bytes, self.depth))
    }
}

/// The shape of the result, and the number of rows.
fn shape(input: &Tensor, weight: &Tensor) -> Result<(Vec<i64>, usize)> {
    let mut sizes = input.sizes().to_vec();
    ensure!(
        weight.dim() == 2 && sizes.last() == Some(&weight.size(1)?),
        Runtime,
        "The number of columns in the weight should be equal to the number of columns in the input: \
         mat1 and mat2 shapes cannot be multiplied ({:?} and {:?})",
        sizes,
        weight.sizes().as_slice()
    );
    sizes.pop();
    let rows = sizes.iter().product::<i64>() as usize;
    sizes.push(weight.size(0)?);
    Ok((sizes, rows))
}

fn layout(weight: &Tensor) -> Result<Layout> {
    let [outputs, depth] = [weight.size(0)? as usize, weight.size(1)? as usize];
    Ok(Layout::of([outputs, depth, 1], 1, [1, 1], false))
}

/// A linear layer of bytes: bytes of another scale, or numbers where none is given.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn linear(
    input: &Tensor,
    weight: &Tensor,
    weight_scales: &Tensor,
    weight_zero_points: &Tensor,
    bias: Option<&Tensor>,
    input_scale: f64,
    input_zero_point: i64,
    scale: Option<f64>,
    zero_point: i64,
    relu: bool,
    onednn: bool,
) -> Result<Tensor> {
    let (sizes, rows) = shape(input, weight)?;
    ensure!(
        input.dtype() == DType::UInt8,
        Runtime,
        "expected an input of uint8, but got {}",
        input.dtype().name()
    );
    let dtype = if scale.is_some() { DType::UInt8 } else { DType::Float32 };
    let (input, out) = (contiguous(input)?, empty_as(&sizes, input, dtype)?);
    if out.numel() == 0 {
        return Ok(out);
    }
    let layout = layout(weight)?;
    let rounding = if onednn { Rounding::OneDnn } else { Rounding::Fbgemm };
    with_packed(
        weight,
        weight_zero_points,
        |_| layout,
        |packed| {
            let quantised = (input_scale, input_zero_point);
            let order = scale.map(|_| rounding);
            let scaling = Scaling::of(packed, weight_scales, defined(bias), quantised, order)?;
            let set = AccessSet::acquire(&[(&out, Access::Write), (&input, Access::Read)])?;
            let source = DenseRows { bytes: set.read(1)?, depth: packed.steps() };
            let outputs = packed.outputs();
            let weight = &packed.products()[0];
            let product = [Product { rows: &source, weight, first: 0, outputs }];
            match scale {
                None => {
                    multiply(&product, (rows, outputs), &scaling, &ToFloats { relu }, set.write(0)?)
                }
                Some(scale) => {
                    let (scale, zero_point) = (scale as f32, zero_point as i32);
                    let output = Output { scale, zero_point, relu, rounding, addend: None };
                    multiply(
                        &product,
                        (rows, outputs),
                        &scaling,
                        &ToBytes { output },
                        set.write(0)?,
                    )
                }
            }
        },
    )?;
    Ok(out)
}

/// A linear layer of numbers that are quantised by their range, whose results are numbers.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn linear_dynamic(
    input: &Tensor,
    weight: &Tensor,
    weight_scales: &Tensor,
    weight_zero_points: &Tensor,
    bias: Option<&Tensor>,
    reduce_range: bool,
    relu: bool,
) -> Result<Tensor> {
    let (sizes, rows) = shape(input, weight)?;
    ensure!(
        input.dtype() == DType::Float32,
        Runtime,
        "expected scalar type Float but found {}",
        input.dtype().name()
    );
    let (input, out) = (contiguous(input)?, empty_as(&sizes, input, DType::Float32)?);
    if out.numel() == 0 {
        return Ok(out);
    }
    let layout = layout(weight)?;
    with_packed(
        weight,
        weight_zero_points,
        |_| layout,
        |packed| {
            let mut operands: Vec<(&TensorBase, Access)> = vec![(&out, Access::Write)];
            operands.push((&input, Access::Read));
            let set = AccessSet::acquire(&operands)?;
            let numbers = set.read::<f32>(1)?;
            let (least, most) = range(numbers);
            ensure!(
                least.is_finite() && most.is_finite(),
                Runtime,
                "the input of a dynamically quantized layer must be finite, but its range is [{least}, {most}]"
            );
            let most_level = if reduce_range { 127 } else { 255 };
            let AffineParams { scale, zero_point } =
                AffineParams::of_range(least, most, 0, most_level, false)?;
            let scaling =
                Scaling::of(packed, weight_scales, defined(bias), (scale, zero_point), None)?;
            with_buffer::<u8, _>(numbers.len(), |bytes| {
                quantize(numbers, (scale as f32, zero_point as i32), bytes);
                let source = DenseRows { bytes, depth: packed.steps() };
                let outputs = packed.outputs();
                let weight = &packed.products()[0];
                let product = [Product { rows: &source, weight, first: 0, outputs }];
                multiply(&product, (rows, outputs), &scaling, &ToFloats { relu }, set.write(0)?)
            })
        },
    )?;
    Ok(out)
}
