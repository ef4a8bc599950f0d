//! Products with weights of 4 bits of rows that are quantised to 8 bits one by one.

use super::{GRAIN, single};
use crate::kernels::support::{contiguous, defined, empty_as, is_shape_only};
use crate::parallel::chunks::for_each_chunk;
use corten_core::{Access, AccessSet, DType, Result, ensure, try_vec};
use corten_ops::{Tensor, op};

const PACK: &str = "_dyn_quant_pack_4bit_weight_cpu";
const PRODUCT: &str = "_dyn_quant_matmul_4bit_cpu";

fn check_group(name: &str, group: i64, columns: i64) -> Result<()> {
    ensure!(
        group == columns || group > 0 && group % 32 == 0 && columns % group == 0,
        Runtime,
        "{name}: Group size should be multiple of 32, in_features [{columns}]. Provided {group}"
    );
    Ok(())
}

/// Weights, scales and bias one after the other, as floats.
///
/// # Errors
/// `Runtime` for dtypes and sizes that do not fit.
pub fn pack_4bit(
    weights: &Tensor,
    scales: &Tensor,
    bias: Option<&Tensor>,
    block_size: i64,
    in_features: i64,
    out_features: i64,
) -> Result<Tensor> {
    ensure!(weights.dtype() == DType::UInt8, Runtime, "{PACK} : expect weight to be kByte.");
    check_group(PACK, block_size, in_features)?;
    let parts = match defined(bias) {
        Some(bias) => vec![weights, scales, bias],
        None => vec![weights, scales],
    };
    let expected = [
        out_features * in_features / 2,
        out_features * (in_features / block_size.max(1)),
        out_features,
    ];
    for (part, expected) in parts.iter().zip(expected) {
        ensure!(
            part.numel() == expected,
            Runtime,
            "{PACK}: expected {expected} weights, scales or biases, got {}",
            part.numel()
        );
    }
    let flat: Result<Vec<_>> = parts
        .into_iter()
        .map(|part| {
            let part = op::to_dtype(part, DType::Float32, false, false, None)?;
            op::reshape(&part, &[-1])
        })
        .collect();
    op::cat(&flat?, 0)
}

/// A row in 8 bits, the zero point subtracted.
struct Row {
    steps: Vec<i32>,
    scale: f32,
}

impl Row {
    fn of(x: &[f32]) -> Result<Self> {
        let least = x.iter().fold(0.0f32, |least, &x| least.min(x));
        let greatest = x.iter().fold(0.0f32, |greatest, &x| greatest.max(x));
        let factor = if least == greatest { 1.0 } else { 255.0 / (greatest - least) };
        let (low, high) = (-128.0 + least * factor, 127.0 + greatest * factor);
        let zero =
            if low + high > 0.0 { -128.0 - least * factor } else { 127.0 - greatest * factor };
        let zero = zero.clamp(-128.0, 127.0).round_ties_even() as i32;
        let mut steps = try_vec(0, x.len())?;
        for (step, x) in steps.iter_mut().zip(x) {
            *step = ((x * factor).round() as i32).saturating_add(zero).clamp(-128, 127) - zero;
        }
        Ok(Self { steps, scale: 1.0 / factor })
    }
}

/// `inp @ w.T + bias`, each row of `inp` quantised by its own range.
///
/// # Errors
/// `Runtime` for dtypes and sizes that do not fit.
pub fn matmul_4bit(
    inp: &Tensor,
    packed: &Tensor,
    block_size: i64,
    in_features: i64,
    out_features: i64,
) -> Result<Tensor> {
    let is_whole = block_size == in_features;
    ensure!(
        inp.dtype() == DType::Float32 || is_whole && inp.dtype() == DType::BFloat16,
        Runtime,
        "{PRODUCT} : expect input to be float32 or bfloat16 tensor."
    );
    check_group(PRODUCT, block_size, in_features)?;
    ensure!(
        inp.dim() == 2 && inp.size(1)? == in_features,
        Runtime,
        "{PRODUCT} : expect input to be a matrix of {in_features} columns, got {:?}",
        inp.sizes().as_slice()
    );
    let bytes = out_features * in_features / 2;
    let scales = out_features * (in_features / block_size.max(1));
    let has_bias = packed.numel() == bytes + scales + out_features;
    ensure!(
        packed.dtype() == DType::Float32 && (has_bias || packed.numel() == bytes + scales),
        Runtime,
        "Invalid packed weight tensor size"
    );
    let sizes = [inp.size(0)?, out_features];
    let out = empty_as(&sizes, inp, DType::Float32)?;
    if !is_shape_only(inp) && out.numel() > 0 {
        let (x, packed) = (single(inp)?, contiguous(packed)?);
        let set = AccessSet::acquire(&[
            (&out, Access::Write),
            (&x, Access::Read),
            (&packed, Access::Read),
        ])?;
        let packed = set.read::<f32>(2)?;
        let (weights, rest) = packed.split_at(bytes as usize);
        let (scales, bias) = rest.split_at(scales as usize);
        let mut bytes = try_vec(0u8, weights.len())?;
        bytes.iter_mut().zip(weights).for_each(|(byte, &weight)| *byte = weight as u8);
        let numbers = Numbers { weights: &bytes, scales, bias, group: block_size as usize };
        numbers.multiply(set.read::<f32>(1)?, in_features as usize, set.write::<f32>(0)?)?;
    }
    op::to_dtype(&out, inp.dtype(), false, false, None)
}

/// What packed weights hold.
struct Numbers<'a> {
    weights: &'a [u8],
    scales: &'a [f32],
    /// Empty where there is none.
    bias: &'a [f32],
    group: usize,
}

impl Numbers<'_> {
    fn multiply(&self, x: &[f32], columns: usize, out: &mut [f32]) -> Result<()> {
        let features = self.weights.len() * 2 / columns;
        let groups = columns / self.group;
        for_each_chunk(out, features, GRAIN.div_ceil(columns * features), |row, out| {
            let x = Row::of(&x[row * columns..][..columns])?;
            for (feature, out) in out.iter_mut().enumerate() {
                let bytes = &self.weights[feature * columns / 2..][..columns / 2];
                let scales = &self.scales[feature * groups..][..groups];
                let parts = x.steps.chunks(self.group).zip(bytes.chunks(self.group / 2));
                let sum: f32 =
                    parts.zip(scales).map(|((x, bytes), scale)| dot(x, bytes) as f32 * scale).sum();
                *out = sum * x.scale + self.bias.get(feature).copied().unwrap_or(0.0);
            }
            Ok(())
        })
    }
}

/// The exact product of steps: the low bits of a byte hold the first of two.
fn dot(x: &[i32], bytes: &[u8]) -> i32 {
    x.chunks_exact(2)
        .zip(bytes)
        .map(|(x, &byte)| x[0] * (i32::from(byte & 15) - 8) + x[1] * (i32::from(byte >> 4) - 8))
        .sum()
}
