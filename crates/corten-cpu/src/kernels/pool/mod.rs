//! Maximum and average pooling over windows and to a given size.
//!
//! Two and three spatial axes share one engine: images are volumes of depth 1. A pooling is a list
//! of windows per axis ([`window`]) and what is done with their elements ([`max`], [`average`]).

mod adaptive;
mod average;
mod fractional;
mod max;
mod pairs;
mod unpool;
mod window;

pub use fractional::*;
pub use unpool::*;

pub use adaptive::{
    adaptive_avg_pool2d, adaptive_avg_pool2d_backward, adaptive_avg_pool3d,
    adaptive_avg_pool3d_backward, adaptive_max_pool2d, adaptive_max_pool2d_backward,
    adaptive_max_pool3d, adaptive_max_pool3d_backward,
};

use super::support::{empty_in, expect_dtype};
use average::Divisor;
use corten_core::{DType, MemoryFormat, Result, ensure};
use corten_ops::{Tensor, op};
use window::{Axis, Sliding};

/// Maxima of windows of images and their positions.
///
/// # Errors
/// `Runtime` for geometry that does not fit, `NotImplemented` for a dtype without order.
pub fn max_pool2d_with_indices(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation, ceil_mode };
    let shape = max_shape(self_, sliding, "max_pool2d", 2)?;
    max::forward(self_, &shape, "max_pool2d")
}

/// Maxima of windows of volumes and their positions.
///
/// # Errors
/// As for [`max_pool2d_with_indices`].
pub fn max_pool3d_with_indices(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation, ceil_mode };
    let shape = max_shape(self_, sliding, "max_pool3d", 3)?;
    if self_.dim() == 5 {
        return max::forward(self_, &shape, "max_pool3d");
    }
    // As a batch, so that channels may come last.
    let batch = as_batch(self_)?;
    let shape = max_shape(&batch, sliding, "max_pool3d", 3)?;
    let (out, indices) = max::forward(&batch, &shape, "max_pool3d")?;
    Ok((op::squeeze_dim(&out, 0)?, op::squeeze_dim(&indices, 0)?))
}

/// Gradient of [`max_pool2d_with_indices`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn max_pool2d_with_indices_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    indices: &Tensor,
) -> Result<Tensor> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation, ceil_mode };
    let shape = max_shape(self_, sliding, "max_pool2d", 2)?;
    shape.check_grad(grad_output, self_)?;
    max::backward(grad_output, self_, indices, &shape, "max_pool2d_backward")
}

/// Gradient of [`max_pool3d_with_indices`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn max_pool3d_with_indices_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    indices: &Tensor,
) -> Result<Tensor> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation, ceil_mode };
    let shape = max_shape(self_, sliding, "max_pool3d", 3)?;
    shape.check_grad(grad_output, self_)?;
    let name = "max_pool3d_backward";
    if self_.dim() == 5 {
        return max::backward(grad_output, self_, indices, &shape, name);
    }
    let (batch, grad, indices) = (as_batch(self_)?, as_batch(grad_output)?, as_batch(indices)?);
    let shape = max_shape(&batch, sliding, "max_pool3d", 3)?;
    op::squeeze_dim(&max::backward(&grad, &batch, &indices, &shape, name)?, 0)
}

/// Means of windows of images.
///
/// # Errors
/// `Runtime` for geometry that does not fit, `NotImplemented` for other dtypes than floats and i64.
pub fn avg_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation: &[1], ceil_mode };
    let divisor = Divisor::of(count_include_pad, divisor_override);
    let shape = avg_shape(self_, sliding, divisor_override, "avg_pool2d", 2)?;
    let name = if shape.channels_last() { "avg_pool2d_channels_last" } else { "avg_pool2d" };
    average::forward(self_, &shape, divisor, name)
}

/// Means of windows of volumes.
///
/// # Errors
/// As for [`avg_pool2d`].
pub fn avg_pool3d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation: &[1], ceil_mode };
    let shape = avg_shape(self_, sliding, divisor_override, "avg_pool3d", 3)?;
    let divisor = Divisor::of(count_include_pad, divisor_override);
    average::forward(self_, &shape, divisor, "avg_pool3d_out_frame")
}

/// Gradient of [`avg_pool2d`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn avg_pool2d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation: &[1], ceil_mode };
    let shape = avg_shape(self_, sliding, divisor_override, "avg_pool2d", 2)?;
    let divisor = Divisor::of(count_include_pad, divisor_override);
    shape.check_grad(grad_output, self_)?;
    average::backward(grad_output, self_, &shape, divisor, "avg_pool2d_backward")
}

/// Gradient of [`avg_pool3d`].
///
/// # Errors
/// `Runtime` for geometry or dtypes that do not fit.
pub fn avg_pool3d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Tensor> {
    let sliding = Sliding { kernel: kernel_size, stride, padding, dilation: &[1], ceil_mode };
    let shape = avg_shape(self_, sliding, divisor_override, "avg_pool3d", 3)?;
    let divisor = Divisor::of(count_include_pad, divisor_override);
    shape.check_grad(grad_output, self_)?;
    average::backward(grad_output, self_, &shape, divisor, "avg_pool3d_backward_out_frame")
}

fn max_shape(self_: &Tensor, sliding: Sliding<'_>, name: &str, rank: usize) -> Result<Shape> {
    sliding.check_lists(name, rank)?;
    let ranks = if rank == 2 { "3D or 4D" } else { "4D or 5D" };
    ensure!(
        self_.dim() == rank + 1 || self_.dim() == rank + 2,
        Runtime,
        "non-empty {ranks} (batch mode) tensor expected for input"
    );
    Shape::sliding(self_, sliding, name, rank)
}

fn avg_shape(
    self_: &Tensor,
    sliding: Sliding<'_>,
    divisor: Option<i64>,
    name: &str,
    rank: usize,
) -> Result<Shape> {
    sliding.check_lists(name, rank)?;
    ensure!(divisor != Some(0), Runtime, "divisor must be not zero");
    if rank == 2 {
        self_.size(-3)?;
        return Shape::sliding(self_, sliding, name, rank);
    }
    ensure!(
        self_.dim() == 4 || self_.dim() == 5,
        Runtime,
        "non-empty 4D or 5D (batch mode) tensor expected for input"
    );
    Ok(Shape::sliding(self_, sliding, name, rank)?.contiguous())
}

/// A batch: the tensor, or the only volume of one.
fn as_batch(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dim() == 5 { Ok(tensor.clone()) } else { op::unsqueeze(tensor, 0) }
}

/// Everything about a pooling but its elements.
struct Shape {
    channels: usize,
    /// Depth, height and width; images have a depth of one position.
    axes: [Axis; 3],
    /// Sizes of the output tensor.
    output: Vec<i64>,
    /// Layout of the output.
    format: MemoryFormat,
}

impl Shape {
    fn sliding(self_: &Tensor, sliding: Sliding<'_>, name: &str, rank: usize) -> Result<Self> {
        let axes = sliding.axes(name, &self_.sizes(), rank)?;
        Ok(Self::new(self_, axes))
    }

    fn new(self_: &Tensor, axes: Vec<Axis>) -> Self {
        let (sizes, rank) = (self_.sizes(), axes.len());
        let leading = &sizes[..sizes.len() - rank];
        let mut output = leading.to_vec();
        output.extend(axes.iter().map(|axis| axis.windows.len() as i64));
        let format = match sizes.len() == rank + 2 {
            true => self_.suggest_memory_format(),
            false => MemoryFormat::Contiguous,
        };
        let mut axes = axes;
        while axes.len() < 3 {
            axes.insert(0, window::unit_axis());
        }
        let axes =
            <[Axis; 3]>::try_from(axes).unwrap_or_else(|_| [0, 1, 2].map(|_| window::unit_axis()));
        Self { channels: leading[leading.len() - 1] as usize, axes, output, format }
    }

    /// The same pooling with a contiguous output.
    fn contiguous(self) -> Self {
        Self { format: MemoryFormat::Contiguous, ..self }
    }

    fn channels_last(&self) -> bool {
        self.format != MemoryFormat::Contiguous
    }

    /// Elements of one channel of the input and of the output.
    fn plane(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    fn windows(&self) -> usize {
        self.axes.iter().map(|axis| axis.windows.len()).product()
    }

    /// Input elements that are looked at per output element, about.
    fn work(&self) -> usize {
        self.axes.iter().map(|axis| axis.windows.first().map_or(1, |window| window.len())).product()
    }

    fn new_output(&self, like: &Tensor, dtype: DType) -> Result<Tensor> {
        empty_in(&self.output, like, dtype, self.format)
    }

    fn check_grad(&self, grad_output: &Tensor, self_: &Tensor) -> Result<()> {
        for (dim, &wanted) in self.output.iter().enumerate() {
            let rank = grad_output.dim();
            let found = grad_output.sizes().get(dim).copied().unwrap_or(0);
            ensure!(
                rank == self.output.len() && found == wanted,
                Runtime,
                "Expected a tensor of dimension {} and tensor.size[{dim}] == {wanted} but got: \
                 dimension {rank} and tensor.size[{dim}] = {found}",
                self.output.len()
            );
        }
        expect_dtype(grad_output, self_.dtype())
    }

    /// How many rows of windows a sample has.
    fn rows(&self) -> usize {
        self.axes[0].windows.len() * self.axes[1].windows.len()
    }

    /// The depth and the height of a row of windows of a sample.
    fn row(&self, row: usize) -> [window::Window; 2] {
        let [depths, heights, _] = &self.axes;
        let count = heights.windows.len();
        [depths.windows[row / count], heights.windows[row % count]]
    }

    /// Calls `f` with the index of every output position and its windows, in memory order.
    #[inline(always)]
    fn for_each_window(&self, mut f: impl FnMut(usize, [window::Window; 3])) {
        let mut position = 0;
        for &depth in &self.axes[0].windows {
            for &height in &self.axes[1].windows {
                for &width in &self.axes[2].windows {
                    f(position, [depth, height, width]);
                    position += 1;
                }
            }
        }
    }

    /// Calls `f` with the index in the plane of every element of a window.
    #[inline(always)]
    fn for_each_element(
        &self,
        [depth, height, width]: [window::Window; 3],
        mut f: impl FnMut(usize),
    ) {
        for z in depth.positions() {
            for y in height.positions() {
                let row = (z * self.axes[1].input + y) * self.axes[2].input;
                for x in width.positions() {
                    f(row + x);
                }
            }
        }
    }
}

fn check_not_empty(sizes: &[i64], name: &str, rank: usize) -> Result<()> {
    let batched = sizes.len() == rank + 2;
    if rank == 2 {
        ensure!(
            (batched || sizes.len() == 3)
                && sizes[usize::from(batched)..].iter().all(|&size| size > 0),
            Runtime,
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{sizes:?}"
        );
        return Ok(());
    }
    let name = if name == "max_pool3d" { "max_pool3d_with_indices_out_cpu_template" } else { name };
    for (dim, &size) in sizes.iter().enumerate().skip(usize::from(batched)) {
        ensure!(
            size > 0,
            Runtime,
            "{name}(): Expected input to have non-zero size for non-batch dimensions, but input \
             has sizes {sizes:?} with dimension {dim} being empty"
        );
    }
    Ok(())
}
