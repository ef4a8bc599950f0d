//! The numbers that weights and activations are quantised by.

use crate::composite::support::expect_dtype;
use crate::{Tensor, op};
use corten_core::{DType, Device, Result, Scalar, ensure, f16};

/// The greatest number of `float16`.
const HALF_MAX: f64 = 65504.0;

/// Limits elements in place to those of `float16`.
///
/// # Errors
/// `Runtime` for another dtype than `float32`, `Index` for less than two dimensions.
pub fn saturate_to_half(weight: &Tensor) -> Result<Tensor> {
    weight.size(1)?;
    expect_dtype(weight, DType::Float32)?;
    op::clamp_(weight, Some(Scalar::Float(-HALF_MAX)), Some(Scalar::Float(HALF_MAX)))
}

/// The greatest and the least value of a range that is narrowed, step by step at the end where less is
/// lost, as long as that helps.
///
/// # Errors
/// `Runtime` for another dtype than `float32` and numbers out of range.
pub fn choose_qparams_optimized(
    input: &Tensor,
    numel: i64,
    n_bins: i64,
    ratio: f64,
    bit_width: i64,
) -> Result<(Tensor, Tensor)> {
    ensure!(
        (0..=input.numel()).contains(&numel) && input.numel() > 0,
        Runtime,
        "numel is out of the bound of input tensor"
    );
    ensure!(
        n_bins >= 0,
        Runtime,
        "choose_qparams_optimized: n_bins must not be negative, got {n_bins}"
    );
    ensure!(
        (0..32).contains(&bit_width),
        Runtime,
        "choose_qparams_optimized: bit_width must be between 0 and 31, got {bit_width}"
    );
    expect_dtype(input, DType::Float32)?;
    let host = op::to_device(input, Device::CPU, DType::Float32, false, false, None)?;
    let elements = host.to_vec::<f32>()?;
    let elements = &elements[..numel as usize];
    let range = if numel == 0 { [host.to_vec::<f32>()?[0]; 2] } else { ends(elements) };
    let search = Search { elements, levels: ((1u64 << bit_width) - 1) as f32 };
    let [least, greatest] = search.narrowed(range, n_bins as f32, ratio as f32);
    let vector =
        |value: f32| op::to_other(&Tensor::from_vec(vec![value], &[1])?, input, false, false, None);
    Ok((vector(greatest)?, vector(least)?))
}

fn ends(elements: &[f32]) -> [f32; 2] {
    let first = elements[0];
    elements.iter().fold([first; 2], |[least, greatest], &x| {
        [if x < least { x } else { least }, if greatest < x { x } else { greatest }]
    })
}

struct Search<'a> {
    elements: &'a [f32],
    levels: f32,
}

impl Search<'_> {
    /// The norm of what quantisation in a range loses.
    fn loss(&self, [least, greatest]: [f32; 2]) -> f32 {
        let least = f16::from_f32(least).to_f32();
        let width = greatest - least;
        let scale = if width == 0.0 { 1.0 } else { f16::from_f32(width / self.levels).to_f32() };
        let inverse = if scale == 0.0 { 1.0 } else { 1.0 / scale };
        let mut norm = 0.0f32;
        for &x in self.elements {
            let step = ((x - least) * inverse).round_ties_even().min(self.levels).max(0.0);
            let error = x - (step * scale + least);
            norm += error * error;
        }
        norm.sqrt()
    }

    fn narrowed(&self, range: [f32; 2], bins: f32, ratio: f32) -> [f32; 2] {
        let step = (range[1] - range[0]) / bins;
        let width = (bins * (1.0 - ratio)) * step;
        let (mut found, mut least_loss) = (range, self.loss(range));
        let (mut current, mut loss) = (range, least_loss);
        // A range of one number, or steps that are lost in its ends, would not become narrower.
        let mut left = (bins * ratio.max(1.0)).min(1e6) as u32 + 2;
        while current[0] + width < current[1] && left > 0 {
            left -= 1;
            let narrower = [[current[0] + step, current[1]], [current[0], current[1] - step]];
            let losses = narrower.map(|range| self.loss(range));
            if loss < losses[0] && loss < losses[1] && loss < least_loss {
                (found, least_loss) = (current, loss);
            }
            let side = usize::from(losses[0] >= losses[1]);
            (current, loss) = (narrower[side], losses[side]);
        }
        found
    }
}
