//! Transforms along one dimension, over the last two, and their `out=` forms.

use super::shapes::{check_out, check_points, normalization, promoted, resized};
use super::spaces::*;
use crate::derived::OutRule;
use crate::{Tensor, op};
use corten_core::{Result, ensure, geometry};

/// The kinds of transform, with their direction.
#[derive(Clone, Copy)]
enum Transform {
    Complex { forward: bool },
    ToReal { forward: bool },
    FromReal { forward: bool },
}

fn line(
    name: &str,
    kind: Transform,
    self_: &Tensor,
    n: Option<i64>,
    dim: i64,
    norm: Option<&str>,
) -> Result<Tensor> {
    match kind {
        Transform::Complex { forward } if self_.dtype().is_complex() => {
            let (input, dim, _) = sized(self_, n, dim)?;
            op::_fft_c2c(&input, &[dim], normalization(norm, forward)?, forward)
        }
        Transform::Complex { forward } => from_real(name, self_, n, dim, norm, forward, false),
        Transform::FromReal { forward } => from_real(name, self_, n, dim, norm, forward, true),
        Transform::ToReal { forward } => to_real(self_, n, dim, norm, forward),
    }
}

/// The input with `n` points along a dimension.
fn sized(input: &Tensor, n: Option<i64>, dim: i64) -> Result<(Tensor, i64, i64)> {
    let dim = geometry::wrap_dim_strict(dim, input.dim())? as i64;
    let length = match n {
        Some(n) => n,
        None => input.size(dim)?,
    };
    check_points(length)?;
    match n {
        Some(n) => Ok((resized(input, &[dim], &[n])?, dim, n)),
        None => Ok((input.clone(), dim, length)),
    }
}

fn from_real(
    name: &str,
    self_: &Tensor,
    n: Option<i64>,
    dim: i64,
    norm: Option<&str>,
    forward: bool,
    onesided: bool,
) -> Result<Tensor> {
    ensure!(
        !self_.dtype().is_complex(),
        Type,
        "{name} expects a real input tensor, but got {}",
        self_.dtype().type_name()
    );
    let (input, dim, _) = sized(&promoted(self_, false)?, n, dim)?;
    let spectrum = op::_fft_r2c(&input, &[dim], normalization(norm, forward)?, onesided)?;
    if forward { Ok(spectrum) } else { op::conj(&spectrum) }
}

fn to_real(
    self_: &Tensor,
    n: Option<i64>,
    dim: i64,
    norm: Option<&str>,
    forward: bool,
) -> Result<Tensor> {
    let mut input = promoted(self_, true)?;
    let dim = geometry::wrap_dim_strict(dim, input.dim())? as i64;
    let length = match n {
        Some(n) => n,
        None => 2 * (input.size(dim)? - 1),
    };
    check_points(length)?;
    if n.is_some() {
        input = resized(&input, &[dim], &[length / 2 + 1])?;
    }
    let normalization = normalization(norm, forward)?;
    if forward {
        input = op::conj(&input)?;
    }
    op::_fft_c2r(&input, &[dim], normalization, length)
}

/// Declares a transform along one dimension with its `out=` form.
macro_rules! along_a_line {
    ($($name:ident $out:ident $text:literal $complex:literal $kind:expr, $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        /// `Runtime` for an unknown norm or fewer than one point, `Index` for a dimension out of
        /// range, `Type` or `NotImplemented` for numbers that cannot be transformed so.
        pub fn $name(
            self_: &Tensor,
            n: Option<i64>,
            dim: i64,
            norm: Option<&str>,
        ) -> Result<Tensor> {
            line($text, $kind, self_, n, dim, norm)
        }

        #[doc = concat!("The `out=` form of [`", stringify!($name), "`].")]
        ///
        /// # Errors
        /// As there; `Runtime` when `out` has another kind of numbers.
        pub fn $out(
            self_: &Tensor,
            n: Option<i64>,
            dim: i64,
            norm: Option<&str>,
            out: &Tensor,
        ) -> Result<Tensor> {
            if !$complex || !self_.dtype().is_complex() || matches!($kind, Transform::Complex { .. }) {
                check_out($text, out, $complex)?;
            }
            OutRule::of(stringify!($name)).write(out, &$name(self_, n, dim, norm)?)
        }
    )*};
}

along_a_line! {
    fft_fft fft_fft_out "fft" true Transform::Complex { forward: true }, "The Fourier transform.";
    fft_ifft fft_ifft_out "ifft" true Transform::Complex { forward: false }, "Its inverse.";
    fft_rfft fft_rfft_out "rfft" true Transform::FromReal { forward: true }, "Of a real signal.";
    fft_irfft fft_irfft_out "irfft" false Transform::ToReal { forward: false }, "To a real signal.";
    fft_hfft fft_hfft_out "hfft" false Transform::ToReal { forward: true }, "Of a symmetric signal.";
    fft_ihfft fft_ihfft_out "ihfft" true Transform::FromReal { forward: false }, "Its inverse.";
}

/// Declares the transform over two dimensions, which is the one over several.
macro_rules! over_a_plane {
    ($($name:ident $out:ident $several:ident $several_out:ident;)*) => {$(
        #[doc = concat!("[`", stringify!($several), "`] over two dimensions.")]
        ///
        /// # Errors
        /// As there.
        pub fn $name(
            self_: &Tensor,
            s: Option<&[i64]>,
            dim: &[i64],
            norm: Option<&str>,
        ) -> Result<Tensor> {
            $several(self_, s, Some(dim), norm)
        }

        #[doc = concat!("The `out=` form of [`", stringify!($name), "`].")]
        ///
        /// # Errors
        /// As there.
        pub fn $out(
            self_: &Tensor,
            s: Option<&[i64]>,
            dim: &[i64],
            norm: Option<&str>,
            out: &Tensor,
        ) -> Result<Tensor> {
            $several_out(self_, s, Some(dim), norm, out)
        }
    )*};
}

over_a_plane! {
    fft_fft2 fft_fft2_out fft_fftn fft_fftn_out;
    fft_ifft2 fft_ifft2_out fft_ifftn fft_ifftn_out;
    fft_rfft2 fft_rfft2_out fft_rfftn fft_rfftn_out;
    fft_irfft2 fft_irfft2_out fft_irfftn fft_irfftn_out;
    fft_hfft2 fft_hfft2_out fft_hfftn fft_hfftn_out;
    fft_ihfft2 fft_ihfft2_out fft_ihfftn fft_ihfftn_out;
}
