//! RMS normalisation without statistics: rows divided by the root of their mean square, for inference.

use super::super::support::{contiguous, contiguous_opt, defined, empty, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::rows::loops::{map, row_functions};
use crate::rows::{Float, Wide};
use corten_core::{Access, AccessSet, Result, ensure, match_dtype, not_implemented_for};
use corten_ops::{Tensor, op};

/// Rows divided by the root of their mean square, times a weight per element, plus a residual.
///
/// # Errors
/// `Runtime` when shapes do not fit, `NotImplemented` for dtypes that are no floating-point numbers.
pub fn fused_rms_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    eps: f64,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let (sizes, dtype) = (input.sizes(), input.dtype());
    let Some(&len) = sizes.last() else {
        corten_core::bail!(Runtime, "fused_rms_norm: expected an input of at least 1 dimension")
    };
    if !dtype.is_floating_point() {
        return Err(not_implemented_for("fused_rms_norm", dtype));
    }
    let (weight, residual) = (defined(weight), defined(residual));
    if let Some(weight) = weight {
        ensure!(
            weight.sizes().as_slice() == [len],
            Runtime,
            "fused_rms_norm: expected a weight of size [{len}], but got {:?}",
            weight.sizes().as_slice()
        );
    }
    if let Some(residual) = residual {
        ensure!(
            residual.sizes() == sizes && residual.dtype() == dtype,
            Runtime,
            "fused_rms_norm: expected a residual of size {:?} and dtype {dtype}, but got {:?} and {}",
            sizes.as_slice(),
            residual.sizes().as_slice(),
            residual.dtype()
        );
    }
    let out = empty(&sizes, input)?;
    if is_shape_only(&out) || out.numel() == 0 {
        return Ok(out);
    }
    let (input, residual) = (contiguous(input)?, contiguous_opt(residual)?);
    match_dtype!(dtype, "fused_rms_norm", Float, T => {
        let wide = <<T as Float>::Wide as corten_core::Element>::DTYPE;
        let weight = match weight {
            Some(weight) => Some(contiguous(&op::to_dtype(weight, wide, false, false, None)?)?),
            None => None,
        };
        let absent = Tensor::undefined();
        let set = AccessSet::acquire(&[
            (&out, Access::Write),
            (&input, Access::Read),
            (weight.as_ref().unwrap_or(&absent), Access::Read),
            (residual.as_ref().unwrap_or(&absent), Access::Read),
        ])?;
        let operands = Operands::<T> {
            input: set.read(1)?,
            weight: weight.is_some().then(|| set.read(2)).transpose()?,
            residual: residual.is_some().then(|| set.read(3)).transpose()?,
            eps,
        };
        let len = len as usize;
        for_each_chunk(set.write::<T>(0)?, len, grain_of(len), |row, out| {
            operands.normalise(row, out);
            Ok(())
        })
    })?;
    Ok(out)
}

struct Operands<'a, T: Float> {
    input: &'a [T],
    weight: Option<&'a [T::Wide]>,
    residual: Option<&'a [T]>,
    eps: f64,
}

impl<T: Float> Operands<'_, T> {
    fn normalise(&self, row: usize, out: &mut [T]) {
        let (len, mut buffers) = (out.len(), (Vec::new(), Vec::new()));
        let part = row * len..(row + 1) * len;
        let x = T::wide_row(&self.input[part.clone()], &mut buffers.0);
        let mean = T::Wide::dot(x, x).as_f64() / len as f64;
        let factor = T::Wide::of(1.0 / (mean + self.eps).sqrt());
        let residual = self.residual.map(|all| T::wide_row(&all[part], &mut buffers.1));
        T::fill(out, &mut Vec::new(), |out| match (self.weight, residual) {
            (Some(weight), Some(rest)) => map(out, [x, weight, rest], ScaledSum { factor }),
            (Some(weight), None) => map(out, [x, weight], Scaled { factor }),
            (None, Some(rest)) => map(out, [x, rest], TimesPlus { factor }),
            (None, None) => T::Wide::affine(out, x, factor, T::Wide::ZERO),
        });
    }
}

row_functions! {
    Scaled { factor }: 2 |x, weight| x * factor * weight;
    ScaledSum { factor }: 3 |x, weight, rest| (x * factor).mul_add(weight, rest);
    TimesPlus { factor }: 2 |x, rest| x.mul_add(factor, rest);
}
