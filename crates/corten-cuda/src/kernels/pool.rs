//! Maximum and average pooling.

use crate::image::{Image, index_type, three};
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, like_planned, on_meta};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, not_implemented_for};
use corten_ops::{Tensor, op};

const TEXT: &[&str] = &[text::IMAGE, text::POOL];
static MAX: Template = Template { name: "pool_max", text: TEXT };
static MAX_BACKWARD: Template = Template { name: "pool_max_backward", text: TEXT };
static AVERAGE: Template = Template { name: "pool_average", text: TEXT };
static AVERAGE_BACKWARD: Template = Template { name: "pool_average_backward", text: TEXT };
static FRACTIONAL: Template = Template { name: "pool_fractional", text: TEXT };

/// `Pool` of `pool.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pool {
    kernel: [i64; 3],
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
}

/// The windows of a pooling over the last `rank` dimensions.
#[derive(Clone, Copy)]
struct Windows {
    rank: usize,
    adaptive: bool,
    pool: Pool,
}

impl Windows {
    fn sliding(
        rank: usize,
        kernel: &[i64],
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
    ) -> Self {
        let stride = if stride.is_empty() { kernel } else { stride };
        let pool = Pool {
            kernel: three(kernel, rank, 1),
            stride: three(stride, rank, 1),
            padding: three(padding, rank, 0),
            dilation: three(dilation, rank, 1),
        };
        Self { rank, adaptive: false, pool }
    }

    fn adaptive(rank: usize) -> Self {
        Self { adaptive: true, ..Self::sliding(rank, &[1], &[1], &[0], &[1]) }
    }

    /// The kernels' template arguments for an input and an output.
    fn arguments(&self, dtype: DType, images: &[Image]) -> [Argument; 4] {
        let Pool { kernel, stride, padding, dilation } = self.pool;
        let mut numbers = [kernel, stride, padding, dilation].concat();
        // Adaptive windows begin at products of the sizes; sliding ones reach as far as their kernel.
        numbers.extend((0..3).map(|axis| match self.adaptive {
            true => images[0].sizes[2 + axis].saturating_mul(images[1].sizes[2 + axis] + 1),
            false => kernel[axis].saturating_mul(dilation[axis]),
        }));
        [
            Argument::Storage(dtype),
            Argument::Value(dtype),
            index_type(images, &numbers),
            Argument::Number(u32::from(self.adaptive)),
        ]
    }
}

/// What sums are divided by: `PoolDivisor` of `pool.cuh`, and the given number.
#[derive(Clone, Copy)]
struct Divisor {
    given: i64,
    which: u32,
}

impl Divisor {
    const INSIDE: Self = Self { given: 1, which: 1 };

    fn of(count_include_pad: bool, override_: Option<i64>) -> Self {
        match override_ {
            Some(given) => Self { given, which: 2 },
            None => Self { given: 1, which: u32::from(!count_include_pad) },
        }
    }
}

fn is_real_float(dtype: DType) -> bool {
    dtype.is_floating_point() && dtype.itemsize() > 1
}

fn check_float(tensor: &Tensor, name: &'static str) -> Result<()> {
    match is_real_float(tensor.dtype()) {
        true => Ok(()),
        false => Err(not_implemented_for(name, tensor.dtype())),
    }
}

/// Floats and signed or byte integers, which have an order.
fn check_ordered(tensor: &Tensor, name: &'static str) -> Result<()> {
    let dtype = tensor.dtype();
    let integers = [DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64];
    match is_real_float(dtype) || integers.contains(&dtype) {
        true => Ok(()),
        false => Err(not_implemented_for(name, dtype)),
    }
}

fn max_forward(
    self_: &Tensor,
    planned: &(Tensor, Tensor),
    windows: Windows,
) -> Result<(Tensor, Tensor)> {
    let (out, indices) = (like_planned(&planned.0, self_)?, like_planned(&planned.1, self_)?);
    let mut n = out.numel() as u64;
    if n == 0 {
        return Ok((out, indices));
    }
    let [mut to, mut from, mut positions] =
        [&out, self_, &indices].map(|tensor| Image::of(tensor, windows.rank));
    let held =
        Operands::hold(&[(&out, Access::Write), (&indices, Access::Write), (self_, Access::Read)])?;
    let (mut out_at, mut indices_at, mut in_at) = (held.at(0), held.at(1), held.at(2));
    let mut pool = windows.pool;
    let stream = Stream::current(self_.device().index);
    // SAFETY: the images have the sizes and strides of the tensors, which are held, and windows are
    // clipped to them.
    unsafe {
        let parameters = parameters!(pool, to, from, positions, n, out_at, indices_at, in_at);
        let arguments = windows.arguments(self_.dtype(), &[to, from, positions]);
        MAX.launch(&arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok((out, indices))
}

fn max_backward(
    grad: &Tensor,
    indices: &Tensor,
    planned: &Tensor,
    windows: Windows,
    name: &'static str,
) -> Result<Tensor> {
    check_float(grad, name)?;
    let out = like_planned(planned, grad)?;
    let mut n = out.numel() as u64;
    if n == 0 {
        return Ok(out);
    }
    let [mut to, mut from, mut positions] =
        [&out, grad, indices].map(|tensor| Image::of(tensor, windows.rank));
    let held =
        Operands::hold(&[(&out, Access::Write), (grad, Access::Read), (indices, Access::Read)])?;
    let (mut out_at, mut grad_at, mut indices_at) = (held.at(0), held.at(1), held.at(2));
    let mut pool = windows.pool;
    let stream = Stream::current(grad.device().index);
    // SAFETY: as in `max_forward`; indices are compared only.
    unsafe {
        let parameters = parameters!(pool, to, from, positions, n, out_at, grad_at, indices_at);
        let arguments = windows.arguments(grad.dtype(), &[to, from, positions]);
        MAX_BACKWARD.launch(&arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok(out)
}

/// Averages, or their gradient where `template` says so.
fn average(
    template: &'static Template,
    self_: &Tensor,
    planned: &Tensor,
    windows: Windows,
    divisor: Divisor,
) -> Result<Tensor> {
    let out = like_planned(planned, self_)?;
    let mut n = out.numel() as u64;
    if n == 0 {
        return Ok(out);
    }
    let [mut to, mut from] = [&out, self_].map(|tensor| Image::of(tensor, windows.rank));
    let held = Operands::hold(&[(&out, Access::Write), (self_, Access::Read)])?;
    let (mut out_at, mut in_at) = (held.at(0), held.at(1));
    let (mut pool, Divisor { mut given, mut which }) = (windows.pool, divisor);
    let stream = Stream::current(self_.device().index);
    // SAFETY: as in `max_forward`.
    unsafe {
        let parameters = parameters!(pool, to, from, given, which, n, out_at, in_at);
        let arguments = windows.arguments(self_.dtype(), &[to, from]);
        template.launch(&arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok(out)
}

/// Defines the poolings over sliding windows of one rank.
macro_rules! sliding {
    ($($rank:literal: pub fn $max:ident, pub fn $max_backward:ident, pub fn $avg:ident, pub fn $avg_backward:ident;)+) => {$(
        /// Maxima of windows and their positions.
        ///
        /// # Errors
        /// Those of the arguments' checks, which are the CPU's; for the functions below likewise.
        pub fn $max(
            self_: &Tensor,
            kernel_size: &[i64],
            stride: &[i64],
            padding: &[i64],
            dilation: &[i64],
            ceil_mode: bool,
        ) -> Result<(Tensor, Tensor)> {
            let input = on_meta(self_)?;
            let planned = op::$max(&input, kernel_size, stride, padding, dilation, ceil_mode)?;
            check_ordered(self_, concat!(stringify!($max), "_out_cuda_frame"))?;
            let windows = Windows::sliding($rank, kernel_size, stride, padding, dilation);
            max_forward(self_, &planned, windows)
        }

        /// The gradient of maxima: every gradient is added at the position of its maximum.
        ///
        /// # Errors
        /// As above.
        pub fn $max_backward(
            grad_output: &Tensor,
            self_: &Tensor,
            kernel_size: &[i64],
            stride: &[i64],
            padding: &[i64],
            dilation: &[i64],
            ceil_mode: bool,
            indices: &Tensor,
        ) -> Result<Tensor> {
            let [grad, input, places] = [grad_output, self_, indices].map(on_meta);
            let planned = op::$max_backward(
                &grad?, &input?, kernel_size, stride, padding, dilation, ceil_mode, &places?,
            )?;
            let windows = Windows::sliding($rank, kernel_size, stride, padding, dilation);
            let name = concat!(stringify!($max_backward), "_out_cuda_frame");
            max_backward(grad_output, indices, &planned, windows, name)
        }

        /// Means of windows.
        ///
        /// # Errors
        /// As above.
        pub fn $avg(
            self_: &Tensor,
            kernel_size: &[i64],
            stride: &[i64],
            padding: &[i64],
            ceil_mode: bool,
            count_include_pad: bool,
            divisor_override: Option<i64>,
        ) -> Result<Tensor> {
            let planned = op::$avg(
                &on_meta(self_)?, kernel_size, stride, padding, ceil_mode, count_include_pad,
                divisor_override,
            )?;
            if self_.dtype() != DType::Int64 {
                check_float(self_, concat!(stringify!($avg), "_out_cuda_frame"))?;
            }
            let windows = Windows::sliding($rank, kernel_size, stride, padding, &[1]);
            let divisor = Divisor::of(count_include_pad, divisor_override);
            average(&AVERAGE, self_, &planned, windows, divisor)
        }

        /// The gradient of means: every gradient is spread over its window.
        ///
        /// # Errors
        /// As above.
        pub fn $avg_backward(
            grad_output: &Tensor,
            self_: &Tensor,
            kernel_size: &[i64],
            stride: &[i64],
            padding: &[i64],
            ceil_mode: bool,
            count_include_pad: bool,
            divisor_override: Option<i64>,
        ) -> Result<Tensor> {
            let planned = op::$avg_backward(
                &on_meta(grad_output)?, &on_meta(self_)?, kernel_size, stride, padding, ceil_mode,
                count_include_pad, divisor_override,
            )?;
            check_float(self_, concat!(stringify!($avg_backward), "_out_cuda_frame"))?;
            let windows = Windows::sliding($rank, kernel_size, stride, padding, &[1]);
            let divisor = Divisor::of(count_include_pad, divisor_override);
            average(&AVERAGE_BACKWARD, grad_output, &planned, windows, divisor)
        }
    )+};
}

sliding! {
    2: pub fn max_pool2d_with_indices, pub fn max_pool2d_with_indices_backward, pub fn avg_pool2d,
        pub fn avg_pool2d_backward;
    3: pub fn max_pool3d_with_indices, pub fn max_pool3d_with_indices_backward, pub fn avg_pool3d,
        pub fn avg_pool3d_backward;
}

/// Defines the poolings to an output size of one rank.
macro_rules! adaptive {
    ($($rank:literal: pub fn $avg:ident, pub fn $avg_backward:ident, pub fn $max:ident, pub fn $max_backward:ident,
        by $avg_op:ident $avg_backward_op:ident;)+) => {$(
        /// Means of nearly equal windows.
        ///
        /// # Errors
        /// Those of the arguments' checks, which are the CPU's; for the functions below likewise.
        pub fn $avg(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
            let planned = op::$avg_op(&on_meta(self_)?, output_size)?;
            check_float(self_, concat!(stringify!($avg), "_cuda"))?;
            average(&AVERAGE, self_, &planned, Windows::adaptive($rank), Divisor::INSIDE)
        }

        /// Its gradient.
        ///
        /// # Errors
        /// As above.
        pub fn $avg_backward(grad_output: &Tensor, self_: &Tensor) -> Result<Tensor> {
            let planned = op::$avg_backward_op(&on_meta(grad_output)?, &on_meta(self_)?)?;
            check_float(self_, concat!(stringify!($avg_backward), "_cuda"))?;
            let windows = Windows::adaptive($rank);
            average(&AVERAGE_BACKWARD, grad_output, &planned, windows, Divisor::INSIDE)
        }

        /// Maxima of nearly equal windows and their positions.
        ///
        /// # Errors
        /// As above.
        pub fn $max(self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
            let planned = op::$max(&on_meta(self_)?, output_size)?;
            check_ordered(self_, concat!(stringify!($max), "_cuda"))?;
            max_forward(self_, &planned, Windows::adaptive($rank))
        }

        /// Its gradient.
        ///
        /// # Errors
        /// As above.
        pub fn $max_backward(
            grad_output: &Tensor,
            self_: &Tensor,
            indices: &Tensor,
        ) -> Result<Tensor> {
            let [grad, input, places] = [grad_output, self_, indices].map(on_meta);
            let planned = op::$max_backward(&grad?, &input?, &places?)?;
            let windows = Windows::adaptive($rank);
            let name = concat!(stringify!($max_backward), "_cuda");
            max_backward(grad_output, indices, &planned, windows, name)
        }
    )+};
}

adaptive! {
    2: pub fn adaptive_avg_pool2d, pub fn adaptive_avg_pool2d_backward, pub fn adaptive_max_pool2d,
        pub fn adaptive_max_pool2d_backward, by _adaptive_avg_pool2d _adaptive_avg_pool2d_backward;
    3: pub fn adaptive_avg_pool3d, pub fn adaptive_avg_pool3d_backward, pub fn adaptive_max_pool3d,
        pub fn adaptive_max_pool3d_backward, by _adaptive_avg_pool3d _adaptive_avg_pool3d_backward;
}

fn fractional(
    self_: &Tensor,
    kernel: &[i64],
    samples: &Tensor,
    planned: &(Tensor, Tensor),
    rank: usize,
) -> Result<(Tensor, Tensor)> {
    let name = ["fractional_max_pool2d_out_cuda_frame", "fractional_max_pool3d_out_frame"];
    check_float(self_, name[rank - 2])?;
    let out = empty(&planned.0.sizes(), self_.dtype(), self_)?;
    let indices = empty(&planned.1.sizes(), DType::Int64, self_)?;
    let mut n = out.numel() as u64;
    if n == 0 {
        return Ok((out, indices));
    }
    let samples = contiguous(samples)?;
    let [mut to, mut from] = [&out, self_].map(|tensor| Image::of(tensor, rank));
    let held = Operands::hold(&[
        (&out, Access::Write),
        (&indices, Access::Write),
        (self_, Access::Read),
        (&samples, Access::Read),
    ])?;
    let (mut out_at, mut indices_at) = (held.at(0), held.at(1));
    let (mut in_at, mut samples_at) = (held.at(2), held.at(3));
    let mut pool = Windows::sliding(rank, kernel, kernel, &[0], &[1]).pool;
    let (dtype, flat) = (self_.dtype(), u32::from(rank == 2));
    let arguments = [
        Argument::Storage(dtype),
        Argument::Value(dtype),
        index_type(&[to, from], &[]),
        Argument::Number(flat),
    ];
    let stream = Stream::current(self_.device().index);
    // SAFETY: as in `max_forward`; the checks have compared the samples' shape with the input's.
    unsafe {
        let parameters = parameters!(pool, to, from, n, out_at, indices_at, in_at, samples_at);
        FRACTIONAL.launch(&arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok((out, indices))
}

/// Planes of elements: all but the last `rank` dimensions as one, and those as the other.
fn planes(tensor: &Tensor, rank: usize) -> Result<Tensor> {
    let sizes = tensor.sizes();
    let lead = sizes.len() - rank;
    let (planes, plane): (i64, i64) =
        (sizes[..lead].iter().product(), sizes[lead..].iter().product());
    op::reshape(tensor, &[planes, plane])
}

/// Zeros of the planned shape with values scattered to places of their planes; those at one place are
/// added up where `adds`.
fn scattered(
    planned: &Tensor,
    values: &Tensor,
    places: &Tensor,
    rank: usize,
    adds: bool,
) -> Result<Tensor> {
    let out = op::zero_(&empty(&planned.sizes(), planned.dtype(), values)?)?;
    if out.numel() > 0 && values.numel() > 0 {
        let (flat, values, places) =
            (planes(&out, rank)?, planes(values, rank)?, planes(places, rank)?);
        match adds {
            true => op::scatter_add_(&flat, 1, &places, &values)?,
            false => op::scatter__src(&flat, 1, &places, &values)?,
        };
    }
    match out.strides() == planned.strides() {
        true => Ok(out),
        false => op::copy_(&like_planned(planned, &out)?, &out, false),
    }
}

/// Defines the poolings with random windows and their inverses of one rank.
macro_rules! fractional {
    ($($rank:literal: pub fn $forward:ident, pub fn $backward:ident;)+) => {$(
        /// Maxima of windows at random places, and their positions.
        ///
        /// # Errors
        /// Those of the arguments' checks, which are the CPU's; for the functions below likewise.
        pub fn $forward(
            self_: &Tensor,
            kernel_size: &[i64],
            output_size: &[i64],
            random_samples: &Tensor,
        ) -> Result<(Tensor, Tensor)> {
            let (input, samples) = (on_meta(self_)?, on_meta(random_samples)?);
            let planned = op::$forward(&input, kernel_size, output_size, &samples)?;
            fractional(self_, kernel_size, random_samples, &planned, $rank)
        }

        /// Its gradient.
        ///
        /// # Errors
        /// As above.
        pub fn $backward(
            grad_output: &Tensor,
            self_: &Tensor,
            kernel_size: &[i64],
            output_size: &[i64],
            indices: &Tensor,
        ) -> Result<Tensor> {
            let [grad, input, places] = [grad_output, self_, indices].map(on_meta);
            let planned = op::$backward(&grad?, &input?, kernel_size, output_size, &places?)?;
            check_float(self_, concat!(stringify!($backward), "_out_cuda_frame"))?;
            scattered(&planned, grad_output, indices, $rank, true)
        }
    )+};
}

fractional! {
    2: pub fn fractional_max_pool2d, pub fn fractional_max_pool2d_backward;
    3: pub fn fractional_max_pool3d, pub fn fractional_max_pool3d_backward;
}

/// Zeros with maxima of images at their places.
///
/// # Errors
/// Those of the arguments' checks; an index out of bounds is reported later.
pub fn max_unpool2d(self_: &Tensor, indices: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    let planned = op::max_unpool2d(&on_meta(self_)?, &on_meta(indices)?, output_size)?;
    check_ordered(self_, "max_unpooling2d_forward_kernel")?;
    scattered(&planned, self_, indices, 2, false)
}

/// Zeros with maxima of volumes at their places.
///
/// # Errors
/// As for [`max_unpool2d`].
pub fn max_unpool3d(
    self_: &Tensor,
    indices: &Tensor,
    output_size: &[i64],
    stride: &[i64],
    padding: &[i64],
) -> Result<Tensor> {
    let (input, places) = (on_meta(self_)?, on_meta(indices)?);
    let planned = op::max_unpool3d(&input, &places, output_size, stride, padding)?;
    check_ordered(self_, "max_unpooling3d_forward_kernel")?;
    scattered(&planned, self_, indices, 3, false)
}
