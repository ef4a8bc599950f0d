//! Sums over the channels of a batch, and what normalisations make of them.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, MemoryFormat, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

/// The text of normalisations.
pub(crate) const TEXT: &[&str] = &[text::SOFTMAX, text::NORM];
static PLANES: Template = Template { name: "norm_planes", text: TEXT };
static COLUMNS: Template = Template { name: "norm_columns", text: TEXT };
static MEANS: Template = Template { name: "norm_means", text: TEXT };
static STATISTICS: Template = Template { name: "norm_statistics", text: TEXT };
static GRADIENTS: Template = Template { name: "norm_gradients", text: TEXT };
static APPLY: Template = Template { name: "norm_apply", text: TEXT };
static APPLY_BACKWARD: Template = Template { name: "norm_apply_backward", text: TEXT };

/// Blocks that fill a large GPU.
const MANY_BLOCKS: u32 = 528;

/// `NormChannels` of `norm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Channels {
    pub(crate) outer: u32,
    pub(crate) channels: u32,
    pub(crate) inner: u32,
    pub(crate) parts: u32,
    pub(crate) per_outer: u32,
    pub(crate) per: u32,
}

/// `NormBatch` of `norm.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) count: f64,
    pub(crate) eps: f64,
    pub(crate) momentum: f64,
}

/// The dtype that is computed in.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::Float64 { dtype } else { DType::Float32 }
}

pub(crate) fn check_float(tensor: &Tensor, name: &'static str) -> Result<()> {
    let dtype = tensor.dtype();
    match dtype.is_floating_point() && dtype.itemsize() > 1 {
        true => Ok(()),
        false => Err(not_implemented_for(name, dtype)),
    }
}

pub(crate) fn size(count: i64) -> Result<u32> {
    ensure!(
        (0..=i64::from(i32::MAX)).contains(&count),
        Runtime,
        "CUDA normalisations take at most 2^31 - 1 rows, channels and elements of a row, not {count}"
    );
    Ok(count as u32)
}

/// A contiguous parameter in a dtype; undefined where there is none.
pub(crate) fn parameter(tensor: Option<&Tensor>, dtype: DType) -> Result<Tensor> {
    match tensor.filter(|tensor| tensor.defined()) {
        None => Ok(Tensor::undefined()),
        Some(tensor) if tensor.dtype() == dtype => contiguous(tensor),
        Some(tensor) => contiguous(&op::to_dtype(tensor, dtype, false, false, None)?),
    }
}

impl Channels {
    /// Divides the work of each channel so that the GPU has enough blocks.
    pub(crate) fn divided(mut self) -> Self {
        let count = u64::from(self.outer) * u64::from(self.inner);
        let (blocks, least) = match self.inner {
            1 => (self.channels.div_ceil(32), 64),
            _ => (self.channels, 2048),
        };
        let wanted = u64::from(MANY_BLOCKS.div_ceil(blocks.max(1)));
        self.parts = wanted.min(count.div_ceil(least)).clamp(1, 65535) as u32;
        self
    }
}

/// What the sums of the channels are made from; undefined where the mode does not need it.
pub(crate) struct Sources<'a> {
    pub(crate) values: &'a Tensor,
    pub(crate) grad: &'a Tensor,
    pub(crate) means: &'a Tensor,
    pub(crate) rstds: &'a Tensor,
}

/// The sums of a mode of `norm_add`, [2, parts, channels].
pub(crate) fn channel_sums(sources: &Sources<'_>, shape: Channels, mode: u32) -> Result<Tensor> {
    let dtype = sources.values.dtype();
    let own = if sources.means.defined() { sources.means.dtype() } else { wide(dtype) };
    let sums = empty(
        &[2, i64::from(shape.parts), i64::from(shape.channels)],
        wide(dtype),
        sources.values,
    )?;
    if shape.channels == 0 {
        return Ok(sums);
    }
    let held = Operands::hold(&[
        (&sums, Access::Write),
        (sources.values, Access::Read),
        (sources.grad, Access::Read),
        (sources.means, Access::Read),
        (sources.rstds, Access::Read),
    ])?;
    let (mut to, mut from, mut grad) = (held.at(0), held.at(1), held.at(2));
    let (mut means, mut rstds) = (held.at(3), held.at(4));
    let mut numbers = shape;
    let stream = Stream::current(sources.values.device().index);
    let arguments = [
        Argument::Storage(dtype),
        Argument::Storage(own),
        Argument::Value(dtype),
        Argument::Number(mode),
    ];
    let (template, blocks, shared) = match shape.inner {
        1 => (&COLUMNS, shape.channels.div_ceil(32), 0),
        _ => (&PLANES, shape.channels, 256 * wide(dtype).itemsize() as u32),
    };
    let launched = Shape { grid: [blocks, shape.parts, 1], block: [256, 1, 1], shared };
    // SAFETY: the tensors are contiguous, have the sizes that the shape tells, and are held.
    unsafe {
        let parameters = parameters!(numbers, to, from, grad, means, rstds);
        template.launch(&arguments, launched, stream, parameters)?;
    }
    drop(held);
    Ok(sums)
}

/// The gradients of bias and weight from the sums of mode 2, written to the tensors that are defined.
pub(crate) fn total(sums: &Tensor, totals: &Tensor, bias: &Tensor, weight: &Tensor) -> Result<()> {
    let (mut parts, mut channels) = (size(sums.size(1)?)?, size(sums.size(2)?)?);
    if channels == 0 {
        return Ok(());
    }
    let held = Operands::hold(&[
        (sums, Access::Read),
        (totals, Access::Write),
        (bias, Access::Write),
        (weight, Access::Write),
    ])?;
    let (mut from, mut totals_at, mut bias_at, mut weight_at) =
        (held.at(0), held.at(1), held.at(2), held.at(3));
    let dtype = sums.dtype();
    let of = |tensor: &Tensor| if tensor.defined() { tensor.dtype() } else { dtype };
    let arguments =
        [Argument::Storage(of(bias)), Argument::Storage(of(weight)), Argument::Value(dtype)];
    let stream = Stream::current(sums.device().index);
    // SAFETY: the tensors are contiguous, of as many elements as there are channels, and held.
    unsafe {
        let parameters = parameters!(channels, parts, from, totals_at, bias_at, weight_at);
        GRADIENTS.launch(&arguments, Shape::over(i64::from(channels)), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// A batch as [outer, channels, inner] in the order of its memory, and its dense elements.
pub(crate) fn batch_layout(input: &Tensor) -> Result<(Channels, MemoryFormat)> {
    let sizes = input.sizes();
    let format = input.suggest_memory_format();
    let spatial: i64 = sizes[2..].iter().product();
    let (outer, inner) = match format == MemoryFormat::Contiguous {
        true => (sizes[0], spatial),
        false => (sizes[0] * spatial, 1),
    };
    let (outer, channels, inner) = (size(outer)?, size(sizes[1])?, size(inner)?);
    Ok((Channels { outer, channels, inner, parts: 1, per_outer: 0, per: 1 }.divided(), format))
}

/// Mean and inverse standard deviation of the channels, as computed with.
pub(crate) struct Statistics {
    pub(crate) means: Tensor,
    pub(crate) rstds: Tensor,
}

impl Statistics {
    pub(crate) fn of_running(
        mean: Option<&Tensor>,
        var: Option<&Tensor>,
        eps: f64,
        dtype: DType,
    ) -> Result<Self> {
        let (means, variances) = (parameter(mean, dtype)?, parameter(var, dtype)?);
        ensure!(
            means.defined() && variances.defined(),
            Runtime,
            "running_mean must be defined in evaluation mode"
        );
        let rstds = op::rsqrt(&op::add_scalar(&variances, eps.into(), 1.into())?)?;
        Ok(Self { means, rstds })
    }

    /// Those of a batch; `saved` gets them, and the running ones are moved towards them.
    pub(crate) fn of_batch(
        values: &Tensor,
        shape: Channels,
        saved: (&Tensor, &Tensor),
        running: [Option<&Tensor>; 2],
        batch: Batch,
    ) -> Result<Self> {
        let (dtype, own) = (wide(values.dtype()), saved.0.dtype());
        let absent = Tensor::undefined();
        let vector = || empty(&[i64::from(shape.channels)], dtype, values);
        let (means, rstds) = (vector()?, vector()?);
        let sources = Sources { values, grad: &absent, means: &absent, rstds: &absent };
        let sums = channel_sums(&sources, shape, 0)?;
        channel_means(&sums, &means, batch.count)?;
        let sums = channel_sums(&Sources { means: &means, ..sources }, shape, 1)?;
        let running = running.map(|running| running.filter(|running| running.defined()));
        let [old_mean, old_var] = [parameter(running[0], own)?, parameter(running[1], own)?];
        let next = |old: &Tensor| match old.defined() {
            true => empty(&old.sizes(), own, values),
            false => Ok(Tensor::undefined()),
        };
        let (next_mean, next_var) = (next(&old_mean)?, next(&old_var)?);
        let computed = [&means, &rstds, saved.0, saved.1, &next_mean, &next_var];
        finish_statistics(&sums, computed, [&old_mean, &old_var], batch)?;
        for (running, next) in running.into_iter().zip([&next_mean, &next_var]) {
            if let Some(running) = running {
                op::copy_(running, next, false)?;
            }
        }
        Ok(Self { means, rstds })
    }
}

pub(crate) fn channel_means(sums: &Tensor, means: &Tensor, count: f64) -> Result<()> {
    let (mut parts, mut channels) = (size(sums.size(1)?)?, size(sums.size(2)?)?);
    let mut count = count;
    let held = Operands::hold(&[(means, Access::Write), (sums, Access::Read)])?;
    let (mut to, mut from) = (held.at(0), held.at(1));
    let stream = Stream::current(sums.device().index);
    // SAFETY: both tensors are contiguous, have the sizes that are given, and are held.
    unsafe {
        let parameters = parameters!(channels, parts, count, to, from);
        let arguments = [Argument::Value(sums.dtype())];
        MEANS.launch(&arguments, Shape::over(i64::from(channels)), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// Launches `norm_statistics`: `computed` are its results in the order of its parameters.
pub(crate) fn finish_statistics(
    sums: &Tensor,
    computed: [&Tensor; 6],
    running: [&Tensor; 2],
    batch: Batch,
) -> Result<()> {
    let (mut parts, mut channels) = (size(sums.size(1)?)?, size(sums.size(2)?)?);
    let mut wanted = vec![(sums, Access::Read)];
    wanted.extend(computed.map(|tensor| (tensor, Access::Write)));
    wanted.extend(running.map(|tensor| (tensor, Access::Read)));
    let held = Operands::hold(&wanted)?;
    let (mut from, mut means, mut rstds) = (held.at(0), held.at(1), held.at(2));
    let (mut saved_mean, mut saved_rstd) = (held.at(3), held.at(4));
    let (mut next_mean, mut next_var) = (held.at(5), held.at(6));
    let (mut old_mean, mut old_var) = (held.at(7), held.at(8));
    let mut numbers = batch;
    let arguments = [Argument::Storage(computed[2].dtype()), Argument::Value(sums.dtype())];
    let stream = Stream::current(sums.device().index);
    // SAFETY: the tensors are contiguous, of as many elements as there are channels, and held.
    unsafe {
        let parameters = parameters!(
            channels, parts, numbers, from, means, rstds, saved_mean, saved_rstd, old_mean,
            old_var, next_mean, next_var
        );
        STATISTICS.launch(&arguments, Shape::over(i64::from(channels)), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

pub(crate) fn apply(
    out: &Tensor,
    values: &Tensor,
    shape: Channels,
    statistics: &Statistics,
    (weight, bias): (&Tensor, &Tensor),
) -> Result<()> {
    let held = Operands::hold(&[
        (out, Access::Write),
        (values, Access::Read),
        (&statistics.means, Access::Read),
        (&statistics.rstds, Access::Read),
        (weight, Access::Read),
        (bias, Access::Read),
    ])?;
    let (mut to, mut from, mut means) = (held.at(0), held.at(1), held.at(2));
    let (mut rstds, mut weight_at, mut bias_at) = (held.at(3), held.at(4), held.at(5));
    let mut numbers = shape;
    let dtype = values.dtype();
    let of = [weight, bias].into_iter().find(|tensor| tensor.defined());
    let own = of.map_or(wide(dtype), |tensor| tensor.dtype());
    let arguments = [Argument::Storage(dtype), Argument::Storage(own), Argument::Value(dtype)];
    let stream = Stream::current(out.device().index);
    // SAFETY: the tensors are dense in one memory format, have the sizes of the shape, and are held.
    unsafe {
        let parameters = parameters!(numbers, to, from, means, rstds, weight_at, bias_at);
        APPLY.launch(&arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

pub(crate) fn apply_backward(
    out: &Tensor,
    [grad, values, totals]: [&Tensor; 3],
    statistics: &Statistics,
    weight: Option<&Tensor>,
    shape: Channels,
    share: f64,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let dtype = values.dtype();
    let own = weight.filter(|weight| weight.defined()).map_or(wide(dtype), |weight| weight.dtype());
    let weight = parameter(weight, own)?;
    let held = Operands::hold(&[
        (out, Access::Write),
        (grad, Access::Read),
        (values, Access::Read),
        (&statistics.means, Access::Read),
        (&statistics.rstds, Access::Read),
        (totals, Access::Read),
        (&weight, Access::Read),
    ])?;
    let (mut to, mut grad_at, mut from, mut means) =
        (held.at(0), held.at(1), held.at(2), held.at(3));
    let (mut rstds, mut totals_at, mut weight_at) = (held.at(4), held.at(5), held.at(6));
    let (mut numbers, mut share) = (shape, share);
    let arguments = [Argument::Storage(dtype), Argument::Storage(own), Argument::Value(dtype)];
    let stream = Stream::current(out.device().index);
    // SAFETY: as in `apply`.
    unsafe {
        let parameters =
            parameters!(numbers, share, to, grad_at, from, means, rstds, totals_at, weight_at);
        APPLY_BACKWARD.launch(&arguments, Shape::over(out.numel()), stream, parameters)?;
    }
    drop(held);
    Ok(())
}
