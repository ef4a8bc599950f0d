//! Pooling of signals by way of images, and the operators without indices.

use super::support::requires_grad;
use crate::{Tensor, batched, op};
use corten_core::{MemoryFormat, Result, ensure, fast_paths};

/// Largest element of every window of signals.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn max_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    check_max_pool1d(self_, kernel_size, stride, padding, dilation, ceil_mode)?;
    if self_.is_quantized() {
        return op::quantized_max_pool1d(self_, kernel_size, stride, padding, dilation, ceil_mode);
    }
    let (kernel, step) = (kernel_size[0], stride.first().copied().unwrap_or(kernel_size[0]));
    let whole = padding[0] == 0 && !ceil_mode;
    if whole && kernel <= MOST_SHIFTS && is_dense_cpu(self_) {
        return largest_of_shifts(self_, kernel, step, dilation[0]);
    }
    let recorded = requires_grad(self_) && corten_core::grad_mode_enabled();
    // Without a gradient PyTorch's kernel gives a contiguous output, which is no view.
    let signal = match recorded {
        true => self_,
        false => &op::contiguous(self_, MemoryFormat::Contiguous)?,
    };
    let (out, _) =
        max_pool1d_with_indices(signal, kernel_size, stride, padding, dilation, ceil_mode)?;
    if recorded || batched::is_batched(self_) {
        return Ok(out);
    }
    op::_unsafe_view(&out, &out.sizes())
}

/// Windows up to this size are compared as shifted copies of the signal.
const MOST_SHIFTS: i64 = 8;

/// Whether a tensor holds numbers that nothing is derived from.
fn is_dense_cpu(tensor: &Tensor) -> bool {
    fast_paths()
        && tensor.autograd_meta().is_none()
        && !batched::is_batched(tensor)
        && tensor.dtype().is_floating_point()
}

/// The largest elements of windows without padding, whose positions nobody asks for.
fn largest_of_shifts(self_: &Tensor, kernel: i64, stride: i64, dilation: i64) -> Result<Tensor> {
    let windows = (self_.size(-1)? - dilation * (kernel - 1) - 1) / stride + 1;
    let signal = op::contiguous(self_, MemoryFormat::Contiguous)?;
    let shifted = |place: i64| {
        let start = place * dilation;
        let end = start + (windows - 1) * stride + 1;
        op::slice_tensor(&signal, -1, Some(start), Some(end), stride)
    };
    if kernel == 1 {
        return op::clone(&shifted(0)?, Some(MemoryFormat::Contiguous));
    }
    let largest = op::maximum(&shifted(0)?, &shifted(1)?)?;
    for place in 2..kernel {
        op::maximum_out(&largest, &shifted(place)?, &largest)?;
    }
    Ok(largest)
}

/// [`max_pool1d`] and the position of every maximum.
///
/// # Errors
/// As for `max_pool1d`.
pub fn max_pool1d_with_indices(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    check_signal(self_, "max_pool1d")?;
    let kernel = one(kernel_size, "max_pool1d", "kernel_size")?;
    let stride = if stride.is_empty() { kernel } else { one(stride, "max_pool1d", "stride")? };
    let padding = one(padding, "max_pool1d", "padding")?;
    let dilation = one(dilation, "max_pool1d", "dilation")?;
    let (out, indices) = op::max_pool2d_with_indices(
        &op::unsqueeze(self_, -2)?,
        &[1, kernel],
        &[1, stride],
        &[0, padding],
        &[1, dilation],
        ceil_mode,
    )?;
    Ok((op::squeeze_dim(&out, -2)?, op::squeeze_dim(&indices, -2)?))
}

fn check_max_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<()> {
    let sizes = self_.sizes();
    // Only the batch may be empty.
    let filled = sizes.iter().skip(sizes.len().saturating_sub(2)).all(|&size| size > 0);
    ensure!(
        (sizes.len() == 2 || sizes.len() == 3) && filled,
        Runtime,
        "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for \
         input, but got:{:?}",
        sizes.as_slice()
    );
    for (list, name, types) in [
        (kernel_size, "kernel_size", "an int, list of ints or tuple of ints"),
        (stride, "stride", "None, an int, list of ints, or tuple of ints"),
        (padding, "padding", "an int, list of ints, or tuple of ints"),
        (dilation, "dilation", "an int, list of ints or tuple of ints"),
    ] {
        ensure!(
            list.len() == 1 || (name == "stride" && list.is_empty()),
            Runtime,
            "max_pool1d() {name} must be {types} of size 1 but got size {}",
            list.len()
        );
    }
    let (kernel, padding, dilation) = (kernel_size[0], padding[0], dilation[0]);
    let stride = stride.first().copied().unwrap_or(kernel);
    let positive = |value: i64, name: &str| {
        ensure!(
            value > 0,
            Runtime,
            "max_pool1d() {name} must be greater than zero, but got {value}"
        );
        Ok(())
    };
    positive(kernel, "kernel_size")?;
    positive(stride, "stride")?;
    ensure!(padding >= 0, Runtime, "max_pool1d() padding must be non-negative, but got {padding}");
    ensure!(
        padding <= kernel / 2,
        Runtime,
        "max_pool1d() padding should be at most half of kernel size, but got padding={padding} and \
         kernel_size={kernel}"
    );
    positive(dilation, "dilation")?;
    let extra = if ceil_mode { stride - 1 } else { 0 };
    let size = self_.size(-1)?;
    let reach = dilation.checked_mul(kernel - 1);
    ensure!(
        reach.is_some(),
        Runtime,
        "effective kernel size overflows, but got kernel_size={kernel} and dilation={dilation}"
    );
    let room = size.saturating_add(2 * padding) - reach.unwrap_or(0) - 1;
    let output = room.saturating_add(extra).div_euclid(stride) + 1;
    ensure!(output > 0, Runtime, "max_pool1d() Invalid computed output size: {output}");
    Ok(())
}

/// Largest element of every window of images.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn max_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    if self_.is_quantized() {
        return op::quantized_max_pool2d(self_, kernel_size, stride, padding, dilation, ceil_mode);
    }
    Ok(op::max_pool2d_with_indices(self_, kernel_size, stride, padding, dilation, ceil_mode)?.0)
}

/// Largest element of every window of volumes.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn max_pool3d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    if self_.is_quantized() {
        return op::quantized_max_pool3d(self_, kernel_size, stride, padding, dilation, ceil_mode);
    }
    Ok(op::max_pool3d_with_indices(self_, kernel_size, stride, padding, dilation, ceil_mode)?.0)
}

/// Mean of every window of signals.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn avg_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<Tensor> {
    check_signal(self_, "avg_pool1d")?;
    let kernel = one(kernel_size, "avg_pool1d", "kernel_size")?;
    let stride = if stride.is_empty() { kernel } else { one(stride, "avg_pool1d", "stride")? };
    let padding = one(padding, "avg_pool1d", "padding")?;
    let out = op::avg_pool2d(
        &op::unsqueeze(self_, -2)?,
        &[1, kernel],
        &[1, stride],
        &[0, padding],
        ceil_mode,
        count_include_pad,
        None,
    )?;
    op::squeeze_dim(&out, -2)
}

/// Means of signals to a given size.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_avg_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    check_signal(self_, "adaptive_avg_pool1d")?;
    let size = one(output_size, "adaptive_avg_pool1d", "output_size")?;
    op::squeeze_dim(&op::adaptive_avg_pool2d(&op::unsqueeze(self_, -2)?, &[1, size])?, -2)
}

/// Maxima of signals to a given size, and their positions.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_max_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    check_signal(self_, "adaptive_max_pool1d")?;
    for (dim, &size) in self_.sizes().iter().enumerate().skip(1) {
        ensure!(
            size > 0,
            Runtime,
            "adaptive_max_pool1d(): Expected input to have non-zero size for non-batch dimensions, \
             but input has sizes {:?} with dimension {dim} being empty",
            self_.sizes().as_slice()
        );
    }
    let size = one(output_size, "adaptive_max_pool1d", "output_size")?;
    let (out, indices) = op::adaptive_max_pool2d(&op::unsqueeze(self_, -2)?, &[1, size])?;
    Ok((op::squeeze_dim(&out, -2)?, op::squeeze_dim(&indices, -2)?))
}

/// Means of images to a given size; a size of one is a mean over the image.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_avg_pool2d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    if output_size != [1, 1] {
        return op::_adaptive_avg_pool2d(self_, output_size);
    }
    let out = op::mean_dim(self_, Some(&[-1, -2]), true, None)?;
    if self_.suggest_memory_format() == MemoryFormat::ChannelsLast {
        let (n, c) = (self_.sizes()[0], self_.sizes()[1]);
        return op::as_strided_(&out, &[n, c, 1, 1], &[c, 1, c, c], None);
    }
    Ok(out)
}

/// Means of volumes to a given size; a size of one is a mean over the volume.
///
/// # Errors
/// `Runtime` for geometry that does not fit.
pub fn adaptive_avg_pool3d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    if output_size != [1, 1, 1] {
        return op::_adaptive_avg_pool3d(self_, output_size);
    }
    let out = op::mean_dim(self_, Some(&[-1, -2, -3]), true, None)?;
    if self_.suggest_memory_format() == MemoryFormat::ChannelsLast3d {
        let (n, c) = (self_.sizes()[0], self_.sizes()[1]);
        return op::as_strided_(&out, &[n, c, 1, 1, 1], &[c, 1, c, c, c], None);
    }
    Ok(out)
}

fn check_signal(self_: &Tensor, name: &str) -> Result<()> {
    let rank = self_.dim();
    ensure!(
        rank == 2 || rank == 3,
        Runtime,
        "Expected 2 to 3 dimensions, but got {rank}-dimensional tensor for argument #1 'self' \
         (while checking arguments for {name})"
    );
    Ok(())
}

/// The only number of a list.
fn one(list: &[i64], operator: &str, argument: &str) -> Result<i64> {
    ensure!(
        list.len() == 1,
        Runtime,
        "{operator}() argument '{argument}' should contain one int (got {})",
        list.len()
    );
    Ok(list[0])
}
