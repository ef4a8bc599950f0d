//! What the transforms share: norms, lengths, dtypes and the dimensions of several.

use crate::{Tensor, op};
use corten_core::{DType, Dims, Result, Scalar, bail, default_dtype, ensure, geometry};

/// The factor of a transform: 1, one over the root of the number of points, one over the number.
const UNCHANGED: i64 = 0;
const BY_ROOT: i64 = 1;
const BY_NUMBER: i64 = 2;

pub(super) fn normalization(norm: Option<&str>, forward: bool) -> Result<i64> {
    Ok(match (norm, forward) {
        (None | Some("backward"), true) | (Some("forward"), false) => UNCHANGED,
        (None | Some("backward"), false) | (Some("forward"), true) => BY_NUMBER,
        (Some("ortho"), _) => BY_ROOT,
        (Some(other), _) => bail!(Runtime, "Invalid normalization mode: \"{other}\""),
    })
}

/// The input in a dtype that can be transformed.
pub(super) fn promoted(input: &Tensor, complex: bool) -> Result<Tensor> {
    let found = input.dtype();
    if found.is_complex() {
        return Ok(input.clone());
    }
    let real = if found.is_floating_point() { found } else { default_dtype() };
    let supported = matches!(real, DType::Float32 | DType::Float64)
        || (real == DType::Float16 && (input.device().is_meta() || input.device().is_cuda()));
    ensure!(supported, NotImplemented, "Unsupported dtype {}", real.type_name());
    let dtype = if complex { real.to_complex() } else { real };
    op::to_dtype(input, dtype, false, false, None)
}

pub(super) fn check_points(n: i64) -> Result<()> {
    ensure!(n >= 1, Runtime, "Invalid number of data points ({n}) specified");
    Ok(())
}

pub(super) fn check_out(name: &str, out: &Tensor, complex: bool) -> Result<()> {
    let (fits, wanted) = match complex {
        true => (out.dtype().is_complex(), "complex"),
        false => (out.dtype().is_floating_point(), "floating point"),
    };
    ensure!(
        fits,
        Runtime,
        "{name} expects a {wanted} output tensor, but got {}",
        out.dtype().type_name()
    );
    Ok(())
}

/// The input cut or filled with zeros to a length along each of the dimensions.
pub(super) fn resized(input: &Tensor, dims: &[i64], lengths: &[i64]) -> Result<Tensor> {
    let mut input = input.clone();
    let mut pad = vec![0; 2 * input.dim()];
    for (&dim, &length) in dims.iter().zip(lengths) {
        let found = input.size(dim)?;
        if found < length {
            let place = pad.len() - 2 * dim as usize - 1;
            pad[place] = length - found;
        } else if found > length {
            input = op::slice_tensor(&input, dim, Some(0), Some(length), 1)?;
        }
    }
    match pad.iter().all(|&amount| amount == 0) {
        true => Ok(input),
        false => op::constant_pad_nd(&input, &pad, Scalar::Int(0)),
    }
}

/// The dimensions of a transform and the lengths along them.
pub(super) struct Space {
    pub(super) dims: Dims,
    pub(super) lengths: Dims,
}

pub(super) fn space(input: &Tensor, s: Option<&[i64]>, dim: Option<&[i64]>) -> Result<Space> {
    let rank = input.dim();
    let dims: Dims = match (dim, s) {
        (Some(dim), _) => {
            let wrap = |&dim: &i64| Ok(geometry::wrap_dim_strict(dim, rank)? as i64);
            dim.iter().map(wrap).collect::<Result<_>>()?
        }
        (None, Some(s)) => {
            ensure!(
                s.len() <= rank,
                Runtime,
                "Got shape with {} values but input tensor only has {rank} dimensions.",
                s.len()
            );
            ((rank - s.len()) as i64..rank as i64).collect()
        }
        (None, None) => (0..rank as i64).collect(),
    };
    let unique = (0..dims.len()).all(|i| !dims[..i].contains(&dims[i]));
    ensure!(unique, Runtime, "FFT dims must be unique");
    if let (Some(dim), Some(s)) = (dim, s) {
        ensure!(
            dim.len() == s.len(),
            Runtime,
            "When given, dim and shape arguments must have the same length"
        );
    }
    let sizes = input.sizes();
    let lengths: Dims = dims
        .iter()
        .enumerate()
        .map(|(i, &dim)| match s.map(|s| s[i]) {
            None | Some(-1) => sizes[dim as usize],
            Some(length) => length,
        })
        .collect();
    lengths.iter().try_for_each(|&n| check_points(n))?;
    Ok(Space { dims, lengths })
}

/// [`space`] of a spectrum without the half of its last dimension that follows by symmetry, and
/// the length of the whole.
pub(super) fn half_space(
    name: &str,
    input: &Tensor,
    s: Option<&[i64]>,
    dim: Option<&[i64]>,
) -> Result<(Space, i64)> {
    let mut space = space(input, s, dim)?;
    let (Some(&last), Some(length)) = (space.dims.last(), space.lengths.last_mut()) else {
        bail!(Runtime, "{name} must transform at least one axis");
    };
    let whole = match s.and_then(<[i64]>::last) {
        None | Some(-1) => 2 * (input.size(last)? - 1),
        Some(_) => *length,
    };
    check_points(whole)?;
    *length = whole / 2 + 1;
    Ok((space, whole))
}
