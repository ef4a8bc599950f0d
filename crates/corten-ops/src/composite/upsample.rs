//! Resampling to sizes that follow from scales.

use crate::{Tensor, op};
use corten_core::{Result, bail, ensure};

/// The output's size: the given one, or the input's times the scales.
fn sizes(input: &Tensor, size: Option<&[i64]>, scales: Option<&[f64]>) -> Result<Vec<i64>> {
    let spatial = input.sizes().len().saturating_sub(2);
    match (size, scales) {
        (Some(size), None) => {
            ensure!(
                size.len() == spatial,
                Runtime,
                "Input and output_size must have the same number of spatial dimensions"
            );
            Ok(size.to_vec())
        }
        (None, Some(scales)) => {
            ensure!(
                scales.len() == spatial,
                Runtime,
                "Input and scale_factors must have the same number of spatial dimensions"
            );
            let sizes = input.sizes();
            Ok(sizes[2..]
                .iter()
                .zip(scales)
                .map(|(&size, scale)| (size as f64 * scale) as i64)
                .collect())
        }
        _ => bail!(Runtime, "Must specify exactly one of output_size and scale_factors"),
    }
}

fn nth(scales: Option<&[f64]>, i: usize) -> Option<f64> {
    scales.and_then(|scales| scales.get(i).copied())
}

macro_rules! by_scales {
    ($($name:ident $call:ident ($($align:ident)?) [$($i:literal),+];)+) => {$(
        /// As the operator without scales, to a size or by scales.
        ///
        /// # Errors
        /// `Runtime` unless one of both is given, and those of the operator.
        pub fn $name(
            input: &Tensor,
            output_size: Option<&[i64]>,
            $($align: bool,)?
            scale_factors: Option<&[f64]>,
        ) -> Result<Tensor> {
            let size = sizes(input, output_size, scale_factors)?;
            op::$call(input, &size, $($align,)? $(nth(scale_factors, $i)),+)
        }
    )+};
}

by_scales! {
    upsample_nearest1d upsample_nearest1d () [0];
    upsample_nearest_exact1d _upsample_nearest_exact1d () [0];
    upsample_nearest2d upsample_nearest2d () [0, 1];
    upsample_nearest_exact2d _upsample_nearest_exact2d () [0, 1];
    upsample_nearest3d upsample_nearest3d () [0, 1, 2];
    upsample_nearest_exact3d _upsample_nearest_exact3d () [0, 1, 2];
    upsample_linear1d upsample_linear1d (align_corners) [0];
    upsample_bilinear2d upsample_bilinear2d (align_corners) [0, 1];
    upsample_trilinear3d upsample_trilinear3d (align_corners) [0, 1, 2];
    upsample_bicubic2d upsample_bicubic2d (align_corners) [0, 1];
    upsample_bilinear2d_aa _upsample_bilinear2d_aa (align_corners) [0, 1];
    upsample_bicubic2d_aa _upsample_bicubic2d_aa (align_corners) [0, 1];
    upsample_lanczos2d_aa _upsample_lanczos2d_aa (align_corners) [0, 1];
}
