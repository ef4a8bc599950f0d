//! Interpolation of lines, images and volumes, and its gradients.

use crate::image::{Image, index_type};
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, empty, like_planned, on_meta};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Device, MemoryFormat, Result, not_implemented_for};
use corten_ops::{Tensor, op};

const TEXT: &[&str] = &[text::IMAGE, text::UPSAMPLE];
static DIRECT: Template = Template { name: "interpolate", text: TEXT };
static NEAREST_BACKWARD: Template = Template { name: "nearest_backward", text: TEXT };
static BACKWARD: Template = Template { name: "interpolate_backward", text: TEXT };
static WEIGHTS: Template = Template { name: "antialias_weights", text: TEXT };
static ANTIALIAS: Template = Template { name: "antialias", text: TEXT };
static ANTIALIAS_BACKWARD: Template = Template { name: "antialias_backward", text: TEXT };

/// `Interpolation` of `upsample.cuh`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest = 0,
    Exact = 1,
    Linear = 2,
    Cubic = 3,
    AntialiasLinear = 4,
    AntialiasCubic = 5,
    AntialiasLanczos = 6,
}

impl Mode {
    fn is_nearest(self) -> bool {
        matches!(self, Self::Nearest | Self::Exact)
    }

    /// How many elements an antialiased filter reaches to either side; none for other modes.
    fn antialias_reach(self) -> Option<f64> {
        match self {
            Self::AntialiasLinear => Some(1.0),
            Self::AntialiasCubic => Some(2.0),
            Self::AntialiasLanczos => Some(3.0),
            _ => None,
        }
    }
}

/// `Axis` of `upsample.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Axis {
    source: i64,
    count: i64,
    step: f64,
    align: u32,
}

/// `Pass` of `upsample.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pass {
    axis: Axis,
    inner: i64,
    width: i64,
    n: u64,
}

/// One interpolation: how, and the scales that were asked for.
struct Plan<'a> {
    mode: Mode,
    align: bool,
    scales: &'a [Option<f64>],
    backward: bool,
}

impl Plan<'_> {
    /// A dimension; the distance of results is rounded where positions follow from single precision.
    fn axis(&self, number: usize, source: i64, count: i64, dtype: DType) -> Axis {
        if self.mode == Mode::Linear && source == count {
            return Axis { source, count, step: 1.0, align: 1 };
        }
        let step = match self.align {
            true if count > 1 => (source - 1) as f64 / (count - 1) as f64,
            true => 0.0,
            false => match self.scales[number].filter(|&scale| scale > 0.0) {
                Some(scale) => 1.0 / scale,
                None => source as f64 / count as f64,
            },
        };
        let double = dtype == DType::Float64 && !self.mode.is_nearest();
        let step = if double { step } else { f64::from(step as f32) };
        Axis { source, count, step, align: u32::from(self.align) }
    }

    fn check(&self, dtype: DType, name: &'static str) -> Result<()> {
        let float = dtype.is_floating_point() && dtype.itemsize() > 1;
        match float || dtype == DType::UInt8 && self.mode.is_nearest() {
            true => Ok(()),
            false => Err(not_implemented_for(name, dtype)),
        }
    }
}

/// `Planes` of `upsample.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Planes {
    count: i64,
    size: i64,
    step_to: i64,
    step_from: i64,
}

impl Planes {
    /// Groups the planes of two images, so that threads share the work on coordinates: samples become groups
    /// of planes, where planes lie at one distance and there are threads enough.
    fn group(to: &mut Image, from: &mut Image) -> Self {
        const THREADS: i64 = 1 << 17;
        const LARGEST_GROUP: i64 = 16;
        let distance = |image: &Image| match image.sizes {
            [1, ..] => Some(image.strides[1]),
            [_, 1, ..] => Some(image.strides[0]),
            [_, channels, ..] => {
                (image.strides[0] == channels * image.strides[1]).then_some(image.strides[1])
            }
        };
        let count = to.sizes[0] * to.sizes[1];
        let elements: i64 = to.sizes.iter().product();
        let size = (elements / THREADS).clamp(1, LARGEST_GROUP).min(count);
        let (Some(step_to), Some(step_from)) = (distance(to), distance(from)) else {
            return Self { count, size: 1, step_to: 0, step_from: 0 };
        };
        // Threads side by side work on channels that come last.
        if size == 1 || to.strides[4] != 1 {
            return Self { count, size: 1, step_to: 0, step_from: 0 };
        }
        for (image, step) in [(to, step_to), (from, step_from)] {
            (image.sizes[0], image.sizes[1]) = ((count + size - 1) / size, 1);
            (image.strides[0], image.strides[1]) = (size * step, step);
        }
        Self { count, size, step_to, step_from }
    }
}

/// All dimensions at once: a thread per position of the result and some planes.
fn direct(input: &Tensor, out: &Tensor, axes: &[Axis], plan: &Plan<'_>) -> Result<()> {
    let (rank, dtype) = (axes.len(), input.dtype());
    let unit = Axis { source: 1, count: 1, step: 1.0, align: 1 };
    let mut all = [unit; 3];
    all[3 - rank..].copy_from_slice(axes);
    let [mut to, mut from] = [out, input].map(|tensor| Image::of(tensor, rank));
    let index = index_type(&[to, from], &[]);
    let mut planes = Planes::group(&mut to, &mut from);
    let mut n: u64 = to.sizes.iter().map(|&size| size as u64).product();
    let held = Operands::hold(&[(out, Access::Write), (input, Access::Read)])?;
    let (mut out_at, mut in_at) = (held.at(0), held.at(1));
    let stream = Stream::current(out.device().index);
    let wide = match plan.mode.is_nearest() && !plan.backward {
        true => DType::Float32,
        false => dtype,
    };
    let mut arguments = vec![
        Argument::Storage(dtype),
        Argument::Value(wide),
        index,
        Argument::Number(plan.mode as u32),
    ];
    let template = if plan.backward { &NEAREST_BACKWARD } else { &DIRECT };
    if !plan.backward {
        arguments.push(Argument::Number(rank as u32));
    }
    // SAFETY: the images have the sizes and strides of the tensors, which are held; positions are clamped to
    // them.
    unsafe {
        let parameters = parameters!(all, to, from, planes, n, out_at, in_at);
        template.launch(&arguments, Shape::over(n as i64), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// The weights of antialiased filters and the elements that they belong to.
fn antialias_table(pass: Pass, mode: Mode, dtype: DType, like: &Tensor) -> Result<[Tensor; 2]> {
    let count = pass.axis.count;
    let weights = empty(&[count, pass.width], dtype, like)?;
    let bounds = empty(&[count, 2], DType::Int64, like)?;
    let held = Operands::hold(&[(&weights, Access::Write), (&bounds, Access::Write)])?;
    let (mut pass, mut weights_at, mut bounds_at) = (pass, held.at(0), held.at(1));
    let arguments = [Argument::Value(dtype), Argument::Number(mode as u32)];
    let stream = Stream::current(like.device().index);
    // SAFETY: the tables have `count` rows, and are held.
    unsafe {
        let parameters = parameters!(pass, weights_at, bounds_at);
        WEIGHTS.launch(&arguments, Shape::over(count), stream, parameters)?;
    }
    drop(held);
    Ok([weights, bounds])
}

/// A pass along one dimension of [outer, source, inner].
fn along(out: &Tensor, input: &Tensor, pass: Pass, plan: &Plan<'_>, wide: DType) -> Result<()> {
    let absent = || [Tensor::undefined(), Tensor::undefined()];
    let [weights, bounds] = match plan.mode.antialias_reach() {
        Some(_) => antialias_table(pass, plan.mode, wide, input)?,
        None => absent(),
    };
    let held = Operands::hold(&[
        (out, Access::Write),
        (input, Access::Read),
        (&weights, Access::Read),
        (&bounds, Access::Read),
    ])?;
    let (mut pass, mut to, mut from) = (pass, held.at(0), held.at(1));
    let (mut weights_at, mut bounds_at) = (held.at(2), held.at(3));
    let stream = Stream::current(out.device().index);
    let shape = Shape::over(out.numel());
    let arguments = [
        Argument::Storage(out.dtype()),
        Argument::Storage(input.dtype()),
        Argument::Value(wide),
        Argument::Number(plan.mode as u32),
    ];
    // SAFETY: both tensors are dense in the order that the pass tells, and held; positions are clamped.
    unsafe {
        if !weights.defined() {
            BACKWARD.launch(&arguments, shape, stream, parameters!(pass, to, from))?;
        } else {
            let parameters = parameters!(pass, to, from, weights_at, bounds_at);
            match plan.backward {
                true => ANTIALIAS_BACKWARD.launch(&arguments, shape, stream, parameters)?,
                false => ANTIALIAS.launch(&arguments[..3], shape, stream, parameters)?,
            }
        }
    }
    drop(held);
    Ok(())
}

/// One dimension after the other, with single precision between them at least.
fn separable(input: &Tensor, out: &Tensor, axes: &[Axis], plan: &Plan<'_>) -> Result<()> {
    let (rank, dtype) = (axes.len(), input.dtype());
    let format = out.suggest_memory_format();
    let wide = if dtype == DType::Float64 { dtype } else { DType::Float32 };
    let mut data = op::contiguous(input, format)?;
    let order: Vec<usize> =
        if plan.backward { (0..rank).collect() } else { (0..rank).rev().collect() };
    let mut sizes: Vec<i64> = input.sizes().to_vec();
    for (number, &dim) in order.iter().enumerate() {
        let axis = axes[dim];
        sizes[dim + 2] = if plan.backward { axis.source } else { axis.count };
        let next = match number + 1 == rank {
            true => out.clone(),
            false => empty(&sizes, wide, input)?,
        };
        let mut inner: i64 = sizes[dim + 3..].iter().product();
        if format != MemoryFormat::Contiguous {
            inner *= sizes[1];
        }
        // Bounds are rounded to elements on either side.
        let reach = plan.mode.antialias_reach().unwrap_or(0.0) * axis.step.max(1.0);
        let width = (2.0 * reach + 2.0).min(axis.source as f64) as i64;
        let pass = Pass { axis, inner, width, n: next.numel() as u64 };
        along(&next, &data, pass, plan, wide)?;
        data = next;
    }
    Ok(())
}

/// Interpolates the spatial dimensions, to the planned sizes and in the planned memory format; `sources` and
/// `counts` are those before and after the interpolation.
fn run(
    input: &Tensor,
    planned: &Tensor,
    (sources, counts): (&[i64], &[i64]),
    plan: &Plan<'_>,
    name: &'static str,
) -> Result<Tensor> {
    plan.check(input.dtype(), name)?;
    let out = like_planned(planned, input)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let sizes = sources.iter().zip(counts).enumerate();
    let axes: Vec<Axis> =
        sizes.map(|(i, (&source, &count))| plan.axis(i, source, count, input.dtype())).collect();
    let at_once = match plan.backward {
        true => plan.mode.is_nearest(),
        false => plan.mode.antialias_reach().is_none(),
    };
    match at_once {
        true => direct(input, &out, &axes, plan)?,
        false => separable(input, &out, &axes, plan)?,
    }
    Ok(out)
}

/// Bytes between elements are interpolated on the host, in the fixed-point arithmetic of its kernels.
fn on_host(bytes: &Tensor) -> Result<Tensor> {
    op::to_device(bytes, Device::CPU, bytes.dtype(), false, false, None)
}

/// Defines the kernels of an operator and of its gradient.
macro_rules! kernels {
    ($(pub fn $name:ident, pub fn $backward:ident for $op:ident $op_backward:ident: $mode:ident ($($align:ident)?) [$($scale:ident),+];)+) => {$(
        /// The interpolated input.
        ///
        /// # Errors
        /// `Runtime` for ranks and sizes that do not fit, `NotImplemented` for other dtypes than floats,
        /// and bytes of the nearest modes.
        pub fn $name(
            self_: &Tensor,
            output_size: &[i64],
            $($align: bool,)?
            $($scale: Option<f64>),+
        ) -> Result<Tensor> {
            if self_.dtype() == DType::UInt8 && !Mode::$mode.is_nearest() {
                let bytes = op::$op(&on_host(self_)?, output_size, $($align,)? $($scale),+)?;
                return op::to_device(&bytes, self_.device(), DType::UInt8, false, false, None);
            }
            let planned = op::$op(&on_meta(self_)?, output_size, $($align,)? $($scale),+)?;
            let align = false $(|| $align)?;
            let plan = Plan { mode: Mode::$mode, align, scales: &[$($scale),+], backward: false };
            let name = concat!(stringify!($op), "_out_frame");
            run(self_, &planned, (&self_.sizes()[2..], output_size), &plan, name)
        }

        /// Its gradient.
        ///
        /// # Errors
        /// As above.
        pub fn $backward(
            grad_output: &Tensor,
            output_size: &[i64],
            input_size: &[i64],
            $($align: bool,)?
            $($scale: Option<f64>),+
        ) -> Result<Tensor> {
            let grad = on_meta(grad_output)?;
            let planned = op::$op_backward(&grad, output_size, input_size, $($align,)? $($scale),+)?;
            let align = false $(|| $align)?;
            let plan = Plan { mode: Mode::$mode, align, scales: &[$($scale),+], backward: true };
            let name = concat!(stringify!($op_backward), "_out_frame");
            run(grad_output, &planned, (&input_size[2..], output_size), &plan, name)
        }
    )+};
}

kernels! {
    pub fn nearest1d, pub fn nearest1d_backward for upsample_nearest1d upsample_nearest1d_backward:
        Nearest () [w];
    pub fn nearest2d, pub fn nearest2d_backward for upsample_nearest2d upsample_nearest2d_backward:
        Nearest () [h, w];
    pub fn nearest3d, pub fn nearest3d_backward for upsample_nearest3d upsample_nearest3d_backward:
        Nearest () [d, h, w];
    pub fn exact1d, pub fn exact1d_backward for _upsample_nearest_exact1d _upsample_nearest_exact1d_backward:
        Exact () [w];
    pub fn exact2d, pub fn exact2d_backward for _upsample_nearest_exact2d _upsample_nearest_exact2d_backward:
        Exact () [h, w];
    pub fn exact3d, pub fn exact3d_backward for _upsample_nearest_exact3d _upsample_nearest_exact3d_backward:
        Exact () [d, h, w];
    pub fn linear1d, pub fn linear1d_backward for upsample_linear1d upsample_linear1d_backward:
        Linear (align) [w];
    pub fn bilinear2d, pub fn bilinear2d_backward for upsample_bilinear2d upsample_bilinear2d_backward:
        Linear (align) [h, w];
    pub fn trilinear3d, pub fn trilinear3d_backward for upsample_trilinear3d upsample_trilinear3d_backward:
        Linear (align) [d, h, w];
    pub fn bicubic2d, pub fn bicubic2d_backward for upsample_bicubic2d upsample_bicubic2d_backward:
        Cubic (align) [h, w];
    pub fn bilinear2d_aa, pub fn bilinear2d_aa_backward for _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward:
        AntialiasLinear (align) [h, w];
    pub fn bicubic2d_aa, pub fn bicubic2d_aa_backward for _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward:
        AntialiasCubic (align) [h, w];
    pub fn lanczos2d_aa, pub fn lanczos2d_aa_backward for _upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward:
        AntialiasLanczos (align) [h, w];
}
