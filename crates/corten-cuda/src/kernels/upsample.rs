//! Resampling of images: along one dimension after the other.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, empty, like_planned, on_meta};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, MemoryFormat, Result, not_implemented_for};
use corten_ops::{Tensor, op};

static FORWARD: Template = Template { name: "resample", text: &[text::UPSAMPLE] };
static BACKWARD: Template = Template { name: "resample_backward", text: &[text::UPSAMPLE] };

/// How points between those of the source are found; the numbers of `upsample.cuh`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest = 0,
    Exact = 1,
    Linear = 2,
    Cubic = 3,
    WideLinear = 4,
    WideCubic = 5,
    WideSine = 6,
}

/// One resampling: how, and the scales that were asked for.
struct Plan<'a> {
    mode: Mode,
    align: bool,
    scales: &'a [Option<f64>],
}

/// `Resample` of `upsample.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Resample {
    n: u64,
    source: i64,
    count: i64,
    inner: i64,
    step: f64,
    align: u32,
}

impl Plan<'_> {
    fn picks(&self) -> bool {
        matches!(self.mode, Mode::Nearest | Mode::Exact)
    }

    /// The distance of results in the source, rounded where places follow from single precision.
    fn step(&self, axis: usize, source: i64, count: i64, double: bool) -> f64 {
        let step = match self.align {
            true if count > 1 => (source - 1) as f64 / (count - 1) as f64,
            true => 0.0,
            false => match self.scales[axis].filter(|&scale| scale > 0.0) {
                Some(scale) => 1.0 / scale,
                None => source as f64 / count as f64,
            },
        };
        if double { step } else { f64::from(step as f32) }
    }

    /// The dtypes of values between passes and of coordinates.
    fn dtypes(&self, dtype: DType) -> (DType, DType) {
        let wide = if dtype == DType::Float64 { dtype } else { DType::Float32 };
        if self.picks() { (wide, DType::Float32) } else { (wide, wide) }
    }
}

fn check(dtype: DType, plan: &Plan<'_>, name: &'static str, forward: bool) -> Result<()> {
    let float = dtype.is_floating_point() && dtype.itemsize() > 1;
    match float || dtype == DType::UInt8 && plan.picks() && forward {
        true => Ok(()),
        false => Err(not_implemented_for(name, dtype)),
    }
}

/// A pass along one dimension of [outer, source, inner].
fn pass(
    template: &'static Template,
    out: &Tensor,
    input: &Tensor,
    shape: Resample,
    arguments: &[Argument],
) -> Result<()> {
    let held = Operands::hold(&[(out, Access::Write), (input, Access::Read)])?;
    let (mut to, mut from) = (held.at(0), held.at(1));
    let mut shape = Resample { n: out.numel() as u64, ..shape };
    let stream = Stream::current(out.device().index);
    // SAFETY: both tensors are dense in the order that the shape tells, and held; places are clamped.
    unsafe {
        let parameters = parameters!(shape, to, from);
        template.launch(arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// Resamples the spatial dimensions, to the planned sizes and in the planned memory format; `sizes` are
/// those of source and result.
fn run(
    input: &Tensor,
    planned: &Tensor,
    (sources, counts): (&[i64], &[i64]),
    plan: &Plan<'_>,
    backward: bool,
) -> Result<Tensor> {
    let (rank, dtype) = (plan.scales.len(), input.dtype());
    let last = planned.suggest_memory_format() != MemoryFormat::Contiguous;
    let format = if last { planned.suggest_memory_format() } else { MemoryFormat::Contiguous };
    let out = like_planned(planned, input)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let (between, coordinate) = plan.dtypes(dtype);
    let mut data = op::contiguous(input, format)?;
    // The smaller dimension first costs the least, but the order of the CPU rounds alike.
    let axes: Vec<usize> = if backward { (0..rank).collect() } else { (0..rank).rev().collect() };
    let mut sizes: Vec<i64> = input.sizes().to_vec();
    let template = if backward { &BACKWARD } else { &FORWARD };
    for (number, &axis) in axes.iter().enumerate() {
        let (source, count) = (sources[axis], counts[axis]);
        sizes[axis + 2] = if backward { source } else { count };
        let own = if plan.picks() && !backward { dtype } else { between };
        let next = match number + 1 == rank {
            true => out.clone(),
            false => empty(&sizes, own, input)?,
        };
        let mut inner: i64 = sizes[axis + 3..].iter().product();
        if last {
            inner *= sizes[1];
        }
        let step = plan.step(axis, source, count, dtype == DType::Float64 && !plan.picks());
        let shape = Resample { n: 0, source, count, inner, step, align: u32::from(plan.align) };
        let arguments = [
            Argument::Storage(next.dtype()),
            Argument::Storage(data.dtype()),
            Argument::Value(between),
            Argument::Value(coordinate),
            Argument::Number(plan.mode as u32),
        ];
        pass(template, &next, &data, shape, &arguments)?;
        data = next;
    }
    Ok(out)
}

/// Defines the kernels of an operator and of its gradient.
macro_rules! kernels {
    ($($name:ident $backward:ident $op:ident $op_backward:ident $mode:ident ($($align:ident)?) [$($scale:ident),+] $label:literal;)+) => {$(
        /// The resampled images.
        ///
        /// # Errors
        /// `Runtime` for ranks and sizes that do not fit, `NotImplemented` for other dtypes than floats,
        /// and bytes of the nearest points.
        pub fn $name(
            self_: &Tensor,
            output_size: &[i64],
            $($align: bool,)?
            $($scale: Option<f64>),+
        ) -> Result<Tensor> {
            let planned = op::$op(&on_meta(self_)?, output_size, $($align,)? $($scale),+)?;
            let align = false $(|| $align)?;
            let plan = Plan { mode: Mode::$mode, align, scales: &[$($scale),+] };
            check(self_.dtype(), &plan, $label, true)?;
            run(self_, &planned, (&self_.sizes()[2..], output_size), &plan, false)
        }

        /// The gradient of the resampled images.
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
            let plan = Plan { mode: Mode::$mode, align, scales: &[$($scale),+] };
            check(grad_output.dtype(), &plan, $label, false)?;
            run(grad_output, &planned, (&input_size[2..], output_size), &plan, true)
        }
    )+};
}

kernels! {
    nearest1d nearest1d_backward upsample_nearest1d upsample_nearest1d_backward
        Nearest () [w] "upsample_nearest1d_out_frame";
    nearest2d nearest2d_backward upsample_nearest2d upsample_nearest2d_backward
        Nearest () [h, w] "upsample_nearest2d_out_frame";
    nearest3d nearest3d_backward upsample_nearest3d upsample_nearest3d_backward
        Nearest () [d, h, w] "upsample_nearest3d_out_frame";
    exact1d exact1d_backward _upsample_nearest_exact1d _upsample_nearest_exact1d_backward
        Exact () [w] "upsample_nearest1d_out_frame";
    exact2d exact2d_backward _upsample_nearest_exact2d _upsample_nearest_exact2d_backward
        Exact () [h, w] "upsample_nearest2d_out_frame";
    exact3d exact3d_backward _upsample_nearest_exact3d _upsample_nearest_exact3d_backward
        Exact () [d, h, w] "upsample_nearest3d_out_frame";
    linear1d linear1d_backward upsample_linear1d upsample_linear1d_backward
        Linear (align) [w] "upsample_linear1d_out_frame";
    bilinear2d bilinear2d_backward upsample_bilinear2d upsample_bilinear2d_backward
        Linear (align) [h, w] "upsample_bilinear2d_out_frame";
    trilinear3d trilinear3d_backward upsample_trilinear3d upsample_trilinear3d_backward
        Linear (align) [d, h, w] "upsample_trilinear3d_out_frame";
    bicubic2d bicubic2d_backward upsample_bicubic2d upsample_bicubic2d_backward
        Cubic (align) [h, w] "upsample_bicubic2d_out_frame";
    bilinear2d_aa bilinear2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward
        WideLinear (align) [h, w] "upsample_bilinear2d_out_frame";
    bicubic2d_aa bicubic2d_aa_backward _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward
        WideCubic (align) [h, w] "upsample_bicubic2d_out_frame";
    lanczos2d_aa lanczos2d_aa_backward _upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward
        WideSine (align) [h, w] "upsample_lanczos2d_out_frame";
}
