//! Values of images and volumes at the points of a grid.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta, zeros};
use crate::stream::Stream;
use crate::text;
use corten_core::{
    Access, DType, Result, are_deterministic_algorithms_enabled, not_implemented_for,
};
use corten_ops::{Tensor, op};

static VALUES: Template = Template { name: "grid_values", text: &[text::GRID] };
static COORDINATES: Template = Template { name: "grid_coordinates", text: &[text::GRID] };
static SCATTER: Template = Template { name: "grid_scatter", text: &[text::GRID] };

/// `GridShape` of `grid.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct GridShape {
    samples: i64,
    channels: i64,
    chunk: i64,
    sizes: [i64; 3],
    points: i64,
    padding: u32,
    align: u32,
}

/// The channels that a thread computes, where these are not too many chunks for a grid's second dimension.
const CHANNELS_PER_THREAD: u64 = 16;
const MAX_CHUNKS: u64 = 65535;

impl GridShape {
    /// A thread per point and chunk of channels.
    fn threads(&self) -> Shape {
        let mut shape = Shape::over(self.samples * self.points);
        shape.grid[1] = (self.channels as u64).div_ceil(self.chunk as u64) as u32;
        shape
    }
}

/// How values between points are found, and those beyond the border.
#[derive(Clone, Copy)]
struct Settings {
    mode: u32,
    padding: u32,
    align: bool,
}

impl Settings {
    fn of(mode: i64, padding: i64, align: bool) -> Self {
        Self { mode: mode.clamp(0, 2) as u32, padding: padding.clamp(0, 2) as u32, align }
    }

    fn shape(&self, input: &Tensor, grid: &Tensor) -> GridShape {
        let (sizes, points) = (input.sizes(), grid.sizes());
        let rank = sizes.len() - 2;
        GridShape {
            samples: sizes[0],
            channels: sizes[1],
            chunk: (sizes[1] as u64).div_ceil(MAX_CHUNKS).max(CHANNELS_PER_THREAD) as i64,
            sizes: crate::image::three(&sizes[2..], rank, 1),
            points: points[1..=rank].iter().product(),
            padding: self.padding,
            align: u32::from(self.align),
        }
    }

    fn arguments(&self, input: &Tensor) -> [Argument; 4] {
        let (dtype, rank) = (input.dtype(), input.dim() as u32 - 2);
        [
            Argument::Storage(dtype),
            Argument::Value(dtype),
            Argument::Number(rank),
            Argument::Number(self.mode),
        ]
    }
}

fn check(input: &Tensor, name: &'static str) -> Result<()> {
    let dtype = input.dtype();
    match dtype.is_floating_point() && dtype.itemsize() > 1 {
        true => Ok(()),
        false => Err(not_implemented_for(name, dtype)),
    }
}

fn forward(input: &Tensor, grid: &Tensor, planned: &Tensor, settings: Settings) -> Result<Tensor> {
    let out = empty(&planned.sizes(), input.dtype(), input)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let (input, grid) = (contiguous(input)?, contiguous(grid)?);
    let mut shape = settings.shape(&input, &grid);
    let held =
        Operands::hold(&[(&out, Access::Write), (&input, Access::Read), (&grid, Access::Read)])?;
    let (mut to, mut from, mut grid_at) = (held.at(0), held.at(1), held.at(2));
    let stream = Stream::current(out.device().index);
    let threads = shape.threads();
    // SAFETY: the tensors are contiguous, have the sizes that the shape tells, and are held; positions outside
    // of the input are not read.
    unsafe {
        let parameters = parameters!(shape, to, from, grid_at);
        VALUES.launch(&settings.arguments(&input), threads, stream, parameters)?;
    }
    drop(held);
    Ok(out)
}

fn coordinates(grad: &Tensor, input: &Tensor, grid: &Tensor, settings: Settings) -> Result<Tensor> {
    let out = empty(&grid.sizes(), grid.dtype(), grid)?;
    let mut shape = settings.shape(input, grid);
    if out.numel() == 0 {
        return Ok(out);
    }
    let held = Operands::hold(&[
        (&out, Access::Write),
        (grad, Access::Read),
        (input, Access::Read),
        (grid, Access::Read),
    ])?;
    let (mut to, mut grad_at) = (held.at(0), held.at(1));
    let (mut from, mut grid_at) = (held.at(2), held.at(3));
    let stream = Stream::current(out.device().index);
    let threads = Shape::over(shape.samples * shape.points);
    // SAFETY: as in `forward`.
    unsafe {
        let parameters = parameters!(shape, to, grad_at, from, grid_at);
        COORDINATES.launch(&settings.arguments(input), threads, stream, parameters)?;
    }
    drop(held);
    Ok(out)
}

fn scatter(grad: &Tensor, input: &Tensor, grid: &Tensor, settings: Settings) -> Result<Tensor> {
    let dtype = input.dtype();
    let mut shape = settings.shape(input, grid);
    let wide = if dtype == DType::Float64 { dtype } else { DType::Float32 };
    let sums = zeros(&input.sizes(), wide, input)?;
    if sums.numel() > 0 && shape.samples * shape.points > 0 {
        let wanted = [(&sums, Access::Write), (grad, Access::Read), (grid, Access::Read)];
        let held = Operands::hold(&wanted)?;
        let (mut to, mut grad_at, mut grid_at) = (held.at(0), held.at(1), held.at(2));
        let stream = Stream::current(input.device().index);
        let ordered = are_deterministic_algorithms_enabled();
        let threads = match ordered {
            true => Shape::over(shape.samples * shape.channels),
            false => shape.threads(),
        };
        let mut arguments = settings.arguments(input).to_vec();
        arguments.push(Argument::Number(u32::from(ordered)));
        // SAFETY: as in `forward`; positions outside of the input are not written.
        unsafe {
            let parameters = parameters!(shape, to, grad_at, grid_at);
            SCATTER.launch(&arguments, threads, stream, parameters)?;
        }
        drop(held);
    }
    op::to_dtype(&sums, dtype, false, false, None)
}

/// Defines the kernels of one rank.
macro_rules! samplers {
    ($(pub fn $name:ident, pub fn $backward:ident;)+) => {$(
        /// Values of the input at the points of a grid.
        ///
        /// # Errors
        /// `Runtime` for shapes that do not fit, `NotImplemented` for other dtypes than floats.
        pub fn $name(
            input: &Tensor,
            grid: &Tensor,
            interpolation_mode: i64,
            padding_mode: i64,
            align_corners: bool,
        ) -> Result<Tensor> {
            let (image, points) = (on_meta(input)?, on_meta(grid)?);
            let planned =
                op::$name(&image, &points, interpolation_mode, padding_mode, align_corners)?;
            check(input, concat!(stringify!($name), "_cuda"))?;
            let settings = Settings::of(interpolation_mode, padding_mode, align_corners);
            forward(input, grid, &planned, settings)
        }

        /// The gradients of the input and of the grid.
        ///
        /// # Errors
        /// As above.
        pub fn $backward(
            grad_output: &Tensor,
            input: &Tensor,
            grid: &Tensor,
            interpolation_mode: i64,
            padding_mode: i64,
            align_corners: bool,
            output_mask: &[bool],
        ) -> Result<(Tensor, Tensor)> {
            let [grad, image, points] = [grad_output, input, grid].map(on_meta);
            op::$backward(
                &grad?, &image?, &points?, interpolation_mode, padding_mode, align_corners,
                output_mask,
            )?;
            check(input, concat!(stringify!($backward), "_cuda"))?;
            let settings = Settings::of(interpolation_mode, padding_mode, align_corners);
            let [grad, image, points] = [grad_output, input, grid].map(contiguous);
            let (grad, image, points) = (grad?, image?, points?);
            let wanted = |i: usize| output_mask.get(i).copied().unwrap_or(true);
            let to_input = match wanted(0) {
                true => scatter(&grad, &image, &points, settings)?,
                false => Tensor::undefined(),
            };
            let to_grid = match wanted(1) {
                true => coordinates(&grad, &image, &points, settings)?,
                false => Tensor::undefined(),
            };
            Ok((to_input, to_grid))
        }
    )+};
}

samplers! {
    pub fn grid_sampler_2d, pub fn grid_sampler_2d_backward;
    pub fn grid_sampler_3d, pub fn grid_sampler_3d_backward;
}
