//! Transforms over several dimensions.

use super::shapes::{check_out, half_space, normalization, promoted, resized, space};
use crate::derived::OutRule;
use crate::{Tensor, op};
use corten_core::{Result, bail, ensure};

/// The Fourier transform over several dimensions, or all.
///
/// # Errors
/// `Runtime` for repeated dimensions, lengths below one and unknown norms, `Index` for dimensions
/// out of range, `Type` or `NotImplemented` for numbers that cannot be transformed so; for the
/// functions below likewise.
pub fn fft_fftn(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    complex(self_, s, dim, norm, true)
}

/// The inverse of [`fft_fftn`].
pub fn fft_ifftn(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    complex(self_, s, dim, norm, false)
}

fn complex(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let space = space(self_, s, dim)?;
    let input = resized(&promoted(self_, true)?, &space.dims, &space.lengths)?;
    op::_fft_c2c(&input, &space.dims, normalization(norm, forward)?, forward)
}

/// The Fourier transform of real numbers over several dimensions, without the half of the last
/// one that follows by symmetry.
pub fn fft_rfftn(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    ensure!(
        !self_.dtype().is_complex(),
        Type,
        "rfftn expects a real-valued input tensor, but got {}",
        self_.dtype().type_name()
    );
    let input = promoted(self_, false)?;
    let space = space(&input, s, dim)?;
    ensure!(!space.dims.is_empty(), Runtime, "rfftn must transform at least one axis");
    let input = resized(&input, &space.dims, &space.lengths)?;
    op::_fft_r2c(&input, &space.dims, normalization(norm, true)?, true)
}

/// The inverse of [`fft_rfftn`].
pub fn fft_irfftn(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    let (space, whole) = half_space("irfftn", self_, s, dim)?;
    let input = resized(&promoted(self_, true)?, &space.dims, &space.lengths)?;
    op::_fft_c2r(&input, &space.dims, normalization(norm, false)?, whole)
}

/// The Fourier transform of signals symmetric in the last dimension, given by half of it; real.
pub fn fft_hfftn(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    let (space, whole) = half_space("hfftn", self_, s, dim)?;
    let mut input = resized(&promoted(self_, true)?, &space.dims, &space.lengths)?;
    let normalization = normalization(norm, true)?;
    let Some((&last, others)) = space.dims.split_last() else {
        bail!(Runtime, "hfftn must transform at least one axis");
    };
    if !others.is_empty() {
        input = op::_fft_c2c(&input, others, normalization, true)?;
    }
    op::_fft_c2r(&op::conj(&input)?, &[last], normalization, whole)
}

/// The inverse of [`fft_hfftn`].
pub fn fft_ihfftn(
    self_: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
    norm: Option<&str>,
) -> Result<Tensor> {
    let space = space(self_, s, dim)?;
    let Some((&last, others)) = space.dims.split_last() else {
        bail!(Runtime, "ihfftn must transform at least one axis");
    };
    let input = resized(&promoted(self_, false)?, &space.dims, &space.lengths)?;
    let normalization = normalization(norm, false)?;
    let half = op::conj(&op::_fft_r2c(&input, &[last], normalization, true)?)?;
    match others.is_empty() {
        true => Ok(half),
        false => op::_fft_c2c(&op::resolve_conj(&half)?, others, normalization, false),
    }
}

/// Declares the `out=` form of a transform.
macro_rules! into {
    ($($name:ident $out:ident $text:literal $complex:literal;)*) => {$(
        #[doc = concat!("The `out=` form of [`", stringify!($name), "`].")]
        ///
        /// # Errors
        /// As there; `Runtime` when `out` has another kind of numbers.
        pub fn $out(
            self_: &Tensor,
            s: Option<&[i64]>,
            dim: Option<&[i64]>,
            norm: Option<&str>,
            out: &Tensor,
        ) -> Result<Tensor> {
            let result = $name(self_, s, dim, norm)?;
            check_out($text, out, $complex)?;
            OutRule::of(stringify!($name)).write(out, &result)
        }
    )*};
}

into! {
    fft_fftn fft_fftn_out "fftn" true;
    fft_ifftn fft_ifftn_out "ifftn" true;
    fft_rfftn fft_rfftn_out "rfftn" true;
    fft_irfftn fft_irfftn_out "irfftn" false;
    fft_hfftn fft_hfftn_out "hfftn" false;
    fft_ihfftn fft_ihfftn_out "ihfftn" true;
}
