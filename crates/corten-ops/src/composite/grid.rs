//! Grids of points in images.

use super::support::{along, expect_dtype};
use crate::{Tensor, op};
use corten_core::{Result, Scalar, ensure};

/// # Errors
/// `Runtime` for an input and a grid that do not belong together.
pub fn check(input: &Tensor, grid: &Tensor) -> Result<()> {
    let (sizes, points) = (input.sizes(), grid.sizes());
    let shown = || (sizes.as_slice().to_vec(), points.as_slice().to_vec());
    ensure!(
        sizes.first() == points.first(),
        Runtime,
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes \
         {:?} and grid with sizes {:?}",
        shown().0,
        shown().1
    );
    let rank = sizes.len().saturating_sub(2) as i64;
    ensure!(
        points.last() == Some(&rank),
        Runtime,
        "grid_sampler(): expected grid to have size {rank} in last dimension, but got grid with \
         sizes {:?}",
        shown().1
    );
    ensure!(
        (rank == 2 || rank == 3) && points.len() == sizes.len(),
        Runtime,
        "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got \
         input with sizes {:?} and grid with sizes {:?}",
        shown().0,
        shown().1
    );
    for (dim, &size) in sizes.iter().enumerate().skip(2) {
        ensure!(
            size > 0,
            Runtime,
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has \
             sizes {:?} with dimension {dim} being empty",
            shown().0
        );
    }
    expect_dtype(grid, input.dtype())
}

/// Values of the input at the points of a grid.
///
/// # Errors
/// As for [`check`].
pub fn grid_sampler(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    check(input, grid)?;
    let call = if input.dim() == 4 { op::grid_sampler_2d } else { op::grid_sampler_3d };
    call(input, grid, interpolation_mode, padding_mode, align_corners)
}

/// The grids of affine maps.
///
/// # Errors
/// `Runtime` for maps and sizes that do not belong together.
pub fn affine_grid_generator(theta: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    let rank = size.len().saturating_sub(2);
    ensure!(
        rank == 2 || rank == 3,
        Runtime,
        "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs."
    );
    let spatial = &size[2..];
    let mut columns = Vec::new();
    for dim in (0..rank).rev() {
        let line = along(&line(spatial[dim], theta, align_corners)?, rank + 1, dim)?;
        columns.push(op::expand(&line, &[spatial, &[1]].concat(), false)?);
    }
    columns.push(op::ones_like(&columns[0], None, None, None, None, None)?);
    let base = op::cat(&columns, -1)?;
    let points: i64 = spatial.iter().product();
    let base = op::view(&base, &[1, points, rank as i64 + 1])?;
    let base = op::expand(&base, &[size[0], points, rank as i64 + 1], false)?;
    let grid = op::bmm(&base, &op::transpose_int(theta, 1, 2)?)?;
    op::view(&grid, &[&size[..1], spatial, &[rank as i64]].concat())
}

/// The centres or corners of `count` points between -1 and 1.
fn line(count: i64, like: &Tensor, align: bool) -> Result<Tensor> {
    let (dtype, device) = (Some(like.dtype()), Some(like.device()));
    if count <= 1 {
        return op::zeros(&[count], dtype, None, device, None);
    }
    let (low, high) = (Scalar::Int(-1), Scalar::Int(1));
    let line = op::linspace(low, high, count, dtype, None, device, None)?;
    match align {
        true => Ok(line),
        false => op::mul_scalar(&line, Scalar::Float((count - 1) as f64 / count as f64)),
    }
}
