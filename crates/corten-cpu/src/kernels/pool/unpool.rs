//! Maxima put back at their places.

use crate::kernels::support::{contiguous, empty, is_shape_only};
use corten_core::{DType, Element, Reader, Result, Writer, cast, ensure, match_dtype};
use corten_ops::{Tensor, op};

/// Zeros with the maxima of images at their places.
///
/// # Errors
/// `Runtime` for shapes and indices that do not fit.
pub fn max_unpool2d(self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    check_indices(indices)?;
    ensure!(
        output_size.len() == 2,
        Runtime,
        "There should be exactly two elements (height, width) in output_size, but got {} elements.",
        output_size.len()
    );
    let rank = self_.dim();
    ensure!(
        rank == 3 || rank == 4,
        Runtime,
        "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with {rank} \
         dimensions."
    );
    check_shapes(self_, indices)?;
    check_sizes(self_, "max_unpooling2d_forward_out_cpu()")?;
    let result = spread(self_, indices, output_size)?;
    // Images keep the memory format of the input.
    op::contiguous(&result, self_.suggest_memory_format())
}

/// Zeros with the maxima of volumes at their places.
///
/// # Errors
/// `Runtime` for shapes and indices that do not fit.
pub fn max_unpool3d(
    self_: &Tensor,
    indices: &Tensor,
    output_size: &[i64],
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    check_indices(indices)?;
    let rank = self_.dim();
    ensure!(
        rank == 4 || rank == 5,
        Runtime,
        "Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with {rank} \
         dimensions."
    );
    for (name, list) in [("output_size", output_size), ("stride", stride), ("padding", padding)] {
        ensure!(
            list.len() == 3,
            Runtime,
            "There should be exactly three elements (depth, height, width) in {name}, but got: {} \
             elements.",
            list.len()
        );
    }
    check_shapes(self_, indices)?;
    check_sizes(self_, "max_unpooling3d_forward_out_cpu()")?;
    ensure!(
        stride.iter().all(|&stride| stride > 0),
        Runtime,
        "strides should be greater than zero, but got stride: {stride:?}"
    );
    spread(self_, indices, output_size)
}

fn check_indices(indices: &Tensor) -> Result<()> {
    ensure!(
        indices.dtype() == DType::Int64,
        Runtime,
        "elements in indices should be type int64 but got: {}",
        indices.dtype().type_name()
    );
    Ok(())
}

fn check_shapes(self_: &Tensor, indices: &Tensor) -> Result<()> {
    ensure!(
        self_.sizes() == indices.sizes(),
        Runtime,
        "Expected shape of indices to be same as that of the input tensor ({:?}) but got indices \
         tensor with shape: {:?}",
        self_.sizes().as_slice(),
        indices.sizes().as_slice()
    );
    Ok(())
}

fn check_sizes(self_: &Tensor, name: &str) -> Result<()> {
    for (dim, &size) in self_.sizes().iter().enumerate().skip(1) {
        ensure!(
            size > 0,
            Runtime,
            "{name}: Expected input to have non-zero size for non-batch dimensions, but input has \
             sizes {:?} with dimension {dim} being empty",
            self_.sizes().as_slice()
        );
    }
    Ok(())
}

fn spread(self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let sizes = self_.sizes();
    let lead = sizes.len() - output_size.len();
    let out = empty(&[&sizes[..lead], output_size].concat(), self_)?;
    if is_shape_only(&out) || out.numel() == 0 {
        return Ok(out);
    }
    let (dense, places) = (contiguous(self_)?, contiguous(indices)?);
    let inner = sizes[lead..].iter().product::<i64>() as usize;
    let volume = output_size.iter().product::<i64>();
    match_dtype!(self_.dtype(), "max_unpool", Real, T => {
        let (values, places) = (Reader::<T>::new(&dense)?, Reader::<i64>::new(&places)?);
        let mut out = Writer::<T>::new(&out)?;
        out.fill(cast::<f64, T>(0.0));
        put::<T>(&values, &places, &mut out, (inner, volume), output_size)
    })?;
    Ok(out)
}

fn put<T: Element>(
    values: &[T],
    places: &[i64],
    out: &mut [T],
    (inner, volume): (usize, i64),
    output_size: &[i64],
) -> Result<()> {
    for (i, (&value, &place)) in values.iter().zip(places).enumerate() {
        if !(0..volume).contains(&place) {
            let listed: Vec<String> = output_size.iter().map(i64::to_string).collect();
            corten_core::bail!(
                Runtime,
                "Found an invalid max index: {place} (output volumes are of size {})",
                listed.join("x")
            );
        }
        out[i / inner.max(1) * volume as usize + place as usize] = value;
    }
    Ok(())
}
