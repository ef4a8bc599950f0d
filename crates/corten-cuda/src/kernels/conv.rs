//! Convolutions, transposed ones and their gradients.
//!
//! A transposed convolution is the adjoint of a convolution: its input plays the output. So one product
//! over one shape, for each of its three operands, makes all of them.

use crate::cudnn::{self, convolved};
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, like_planned, on_meta, on_meta_opt, zeros};
use crate::pointwise::Divider;
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

const TEXT: &[&str] = &[text::SOFTMAX, text::CONV];
static PRODUCT: Template = Template { name: "conv_product", text: TEXT };
static DIRECT: Template = Template { name: "conv_direct", text: TEXT };
static DIRECT_WEIGHT: Template = Template { name: "conv_direct_weight", text: TEXT };
static TOTAL: Template = Template { name: "conv_total", text: TEXT };

/// Blocks that fill a large GPU.
const MANY_BLOCKS: u64 = 528;

/// `ConvShape` of `conv.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ConvShape {
    samples: u32,
    groups: u32,
    channels: u32,
    features: u32,
    image: [u32; 3],
    kernel: [u32; 3],
    output: [u32; 3],
    stride: [u32; 3],
    padding: [u32; 3],
    dilation: [u32; 3],
    pixels: u32,
    taps: u32,
    positions: u32,
    parts: u32,
    each: u32,
    by_taps: Divider,
    by_kernel: [Divider; 2],
    by_positions: Divider,
    by_output: [Divider; 2],
    by_pixels: Divider,
    by_image: [Divider; 2],
    by_stride: [Divider; 3],
}

/// The numbers of a convolution, one per spatial dimension or one for all.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'a> {
    pub(crate) stride: &'a [i64],
    pub(crate) padding: &'a [i64],
    pub(crate) dilation: &'a [i64],
    pub(crate) groups: i64,
}

/// The operand that is computed; the numbers of `ConvRole`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Output = 0,
    Image = 1,
    Weight = 2,
}

/// Three numbers from those of the last dimensions, `filler` for the others.
fn three(list: &[i64], rank: usize, filler: u32) -> Result<[u32; 3]> {
    let mut axes = [filler; 3];
    for axis in 0..rank {
        let value = *list.get(if list.len() == 1 { 0 } else { axis }).unwrap_or(&i64::from(filler));
        axes[3 - rank + axis] = word(value)?;
    }
    Ok(axes)
}

fn word(value: i64) -> Result<u32> {
    ensure!(
        (0..=i64::from(i32::MAX)).contains(&value),
        Runtime,
        "CUDA convolutions take sizes and numbers of at most 2^31 - 1, not {value}"
    );
    Ok(value as u32)
}

fn volume(axes: [u32; 3]) -> Result<u32> {
    word(axes.iter().fold(1_i64, |volume, &size| volume.saturating_mul(i64::from(size))))
}

fn pair([_, height, width]: [u32; 3]) -> [Divider; 2] {
    [Divider::by(height.saturating_mul(width).max(1)), Divider::by(width.max(1))]
}

impl ConvShape {
    /// The convolution from images to outputs of these sizes by a kernel of this size.
    ///
    /// # Errors
    /// `Runtime` for sizes that kernels do not take.
    pub(crate) fn of(
        image: &[i64],
        kernel: &[i64],
        output: &[i64],
        lists: &Lists<'_>,
    ) -> Result<Self> {
        let rank = image.len() - 2;
        let sizes = |sizes: &[i64]| three(&sizes[sizes.len() - rank..], rank, 1);
        // One size of a list stands for one dimension, not for all.
        let (image3, kernel3, output3) = (sizes(image)?, sizes(kernel)?, sizes(output)?);
        let stride = three(lists.stride, rank, 1)?;
        let (pixels, taps, positions) = (volume(image3)?, volume(kernel3)?, volume(output3)?);
        let groups = word(lists.groups)?;
        let (channels, features) =
            (word(image[1])? / groups.max(1), word(output[1])? / groups.max(1));
        let products = [
            (image[0], pixels),
            (image[0], positions),
            (i64::from(channels), taps),
            (i64::from(features), taps),
        ];
        for (count, size) in products {
            word(count.saturating_mul(i64::from(size)))?;
        }
        Ok(Self {
            samples: word(image[0])?,
            groups,
            channels,
            features,
            image: image3,
            kernel: kernel3,
            output: output3,
            stride,
            padding: three(lists.padding, rank, 0)?,
            dilation: three(lists.dilation, rank, 1)?,
            pixels,
            taps,
            positions,
            parts: 1,
            each: 0,
            by_taps: Divider::by(taps.max(1)),
            by_kernel: pair(kernel3),
            by_positions: Divider::by(positions.max(1)),
            by_output: pair(output3),
            by_pixels: Divider::by(pixels.max(1)),
            by_image: pair(image3),
            by_stride: stride.map(|stride| Divider::by(stride.max(1))),
        })
    }

    /// Rows, columns and steps of the product of a role.
    fn product(&self, role: Role) -> [u64; 3] {
        let [samples, channels, features] =
            [self.samples, self.channels, self.features].map(u64::from);
        let [pixels, taps, positions] = [self.pixels, self.taps, self.positions].map(u64::from);
        match role {
            Role::Output => [features, samples * positions, channels * taps],
            Role::Image => [channels, samples * pixels, features * taps],
            Role::Weight => [features, channels * taps, samples * positions],
        }
    }
}

/// Computes one operand: the output from (weight, image), the image from (weight, output), or the weight
/// from (output, image). All are contiguous; the bias is undefined where there is none.
fn apply(role: Role, out: &Tensor, [a, b, bias]: [&Tensor; 3], shape: ConvShape) -> Result<()> {
    let dtype = out.dtype();
    check_dtype(dtype)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let [rows, columns, steps] = shape.product(role);
    let few = match role {
        Role::Weight => rows * columns <= 128,
        _ => rows <= 4,
    };
    if few && (shape.groups > 1 || role != Role::Weight) {
        return direct(role, out, [a, b, bias], shape);
    }
    let tiles = rows.div_ceil(64) * columns.div_ceil(64);
    let wanted = MANY_BLOCKS.div_ceil(tiles * u64::from(shape.groups));
    let parts = wanted.min(steps.div_ceil(128)).clamp(1, 65535);
    let each = steps.div_ceil(parts).next_multiple_of(16).max(16);
    let parts = steps.div_ceil(each).max(1);
    let mut numbers = ConvShape { parts: parts as u32, each: each as u32, ..shape };
    let mut results = out.numel() as u64;
    let sums = match parts {
        1 => Tensor::undefined(),
        _ => empty(&[parts as i64, out.numel()], wide(dtype), out)?,
    };
    let held = Operands::hold(&[
        (out, Access::Write),
        (&sums, Access::Write),
        (a, Access::Read),
        (b, Access::Read),
        (bias, Access::Read),
    ])?;
    let (mut to, mut sums_at) = (held.at(0), held.at(1));
    let (mut a_at, mut b_at, mut bias_at) = (held.at(2), held.at(3), held.at(4));
    ensure!(
        tiles <= i32::MAX as u64,
        Runtime,
        "convolution: the result is too large for one launch"
    );
    let launched = Shape {
        grid: [tiles as u32, shape.groups.min(65535), parts as u32],
        block: [256, 1, 1],
        shared: 0,
    };
    let stream = Stream::current(out.device().index);
    let arguments =
        [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(role as u32)];
    // SAFETY: the tensors are contiguous, have the sizes that the shape tells, and are held.
    unsafe {
        let parameters = parameters!(numbers, results, to, sums_at, a_at, b_at, bias_at);
        PRODUCT.launch(&arguments, launched, stream, parameters)?;
        if parts > 1 {
            let size = if role == Role::Output { shape.positions } else { shape.pixels };
            let (mut inner, mut parts) = (u64::from(size.max(1)), parts as u32);
            let mut channels = (rows as u32) * shape.groups;
            let parameters = parameters!(results, parts, inner, channels, to, sums_at, bias_at);
            TOTAL.launch(&arguments[..2], Shape::over(out.numel()), stream, parameters)?;
        }
    }
    drop(held);
    Ok(())
}

fn check_dtype(dtype: DType) -> Result<()> {
    match dtype == DType::Bool || dtype.itemsize() == 1 && dtype.is_floating_point() {
        true => Err(not_implemented_for("slow_conv2d_cuda", dtype)),
        false => Ok(()),
    }
}

/// What sums of a dtype are kept in.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::Complex32 | DType::BComplex32 => DType::Complex64,
        _ if dtype.is_reduced_float() => DType::Float32,
        _ => dtype,
    }
}

fn direct(role: Role, out: &Tensor, [a, b, bias]: [&Tensor; 3], shape: ConvShape) -> Result<()> {
    let dtype = out.dtype();
    let held = Operands::hold(&[
        (out, Access::Write),
        (a, Access::Read),
        (b, Access::Read),
        (bias, Access::Read),
    ])?;
    let (mut to, mut a_at, mut b_at, mut bias_at) =
        (held.at(0), held.at(1), held.at(2), held.at(3));
    let (mut numbers, mut results) = (shape, out.numel() as u64);
    let stream = Stream::current(out.device().index);
    let arguments =
        [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(role as u32)];
    // SAFETY: as in `apply`.
    unsafe {
        if role == Role::Weight {
            let blocks = u32::try_from(out.numel()).unwrap_or(u32::MAX);
            // A value has at most 16 bytes.
            let launched = Shape { grid: [blocks, 1, 1], block: [256, 1, 1], shared: 256 * 16 };
            let parameters = parameters!(numbers, to, a_at, b_at);
            DIRECT_WEIGHT.launch(&arguments[..2], launched, stream, parameters)?;
        } else {
            let parameters = parameters!(numbers, results, to, a_at, b_at, bias_at);
            DIRECT.launch(&arguments, Shape::over(out.numel()), stream, parameters)?;
        }
    }
    drop(held);
    Ok(())
}

/// The computed tensor as the planned one lies in memory.
fn in_planned_format(computed: Tensor, planned: &Tensor) -> Result<Tensor> {
    if computed.strides() == planned.strides() {
        return Ok(computed);
    }
    op::copy_(&like_planned(planned, &computed)?, &computed, false)
}

/// Convolution, or its transpose, of a batch.
///
/// # Errors
/// `Runtime` when shapes, numbers or dtypes do not fit, `NotImplemented` for booleans.
pub fn convolution(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let bias = bias.filter(|bias| bias.defined());
    let bias_plan = on_meta_opt(bias)?;
    let planned = op::convolution(
        &on_meta(input)?,
        &on_meta(weight)?,
        bias_plan.as_ref(),
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )?;
    check_kernel(weight)?;
    let out = empty(&planned.sizes(), planned.dtype(), input)?;
    if out.numel() == 0 {
        return in_planned_format(out, &planned);
    }
    let lists = Lists { stride, padding, dilation, groups };
    let (own, pair) = match transposed {
        true => (cudnn::Role::Image, [weight, input]),
        false => (cudnn::Role::Output, [input, weight]),
    };
    if let Some(out) = convolved(own, &planned, pair, &lists)? {
        return with_bias(out, bias);
    }
    let (input, weight) = (contiguous(input)?, contiguous(weight)?);
    let bias = match bias {
        Some(bias) => contiguous(&op::to_dtype(bias, input.dtype(), false, false, None)?)?,
        None => Tensor::undefined(),
    };
    let (image, positions) = if transposed { (&out, &input) } else { (&input, &out) };
    let shape = ConvShape::of(&image.sizes(), &weight.sizes(), &positions.sizes(), &lists)?;
    let role = if transposed { Role::Image } else { Role::Output };
    apply(role, &out, [&weight, &input, &bias], shape)?;
    in_planned_format(out, &planned)
}

/// Adds a number to each channel.
fn with_bias(out: Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let Some(bias) = bias else { return Ok(out) };
    let mut sizes = vec![1; out.dim() - 1];
    sizes[0] = bias.numel();
    op::add__tensor(&out, &op::reshape(bias, &sizes)?, corten_core::Scalar::Int(1))
}

/// Refuses kernels without elements, which tensors without data do not.
fn check_kernel(weight: &Tensor) -> Result<()> {
    let sizes = &weight.sizes()[2..];
    let listed: Vec<String> = sizes.iter().map(i64::to_string).collect();
    ensure!(
        sizes.iter().all(|&size| size > 0),
        Runtime,
        "kernel size should be greater than zero, but got: {}",
        listed.join(" x ")
    );
    Ok(())
}

/// Gradients of [`convolution`] with respect to input, weight and bias.
///
/// # Errors
/// As for [`convolution`].
pub fn convolution_backward(
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    bias_sizes: Option<&[i64]>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    output_mask: &[bool],
) -> Result<(Tensor, Tensor, Tensor)> {
    let planned = op::convolution_backward(
        &on_meta(grad_output)?,
        &on_meta(input)?,
        &on_meta(weight)?,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )?;
    check_kernel(weight)?;
    let grad_bias = bias_gradient(grad_output, input, &planned.2)?;
    let like = |planned: &Tensor| zeros(&planned.sizes(), planned.dtype(), input);
    if input.numel() == 0 {
        let of = |planned: &Tensor| match planned.defined() {
            true => like(planned),
            false => Ok(Tensor::undefined()),
        };
        return Ok((of(&planned.0)?, of(&planned.1)?, grad_bias));
    }
    let lists = Lists { stride, padding, dilation, groups };
    let tensors = [grad_output, input, weight];
    let (mut grad_input, mut grad_weight) =
        gradients_by_cudnn(tensors, [&planned.0, &planned.1], &lists, transposed)?;
    let wanted = [0, 1].map(|i| output_mask[i] && ![&grad_input, &grad_weight][i].defined());
    if wanted == [false; 2] {
        return Ok((grad_input, grad_weight, grad_bias));
    }
    let [grad, input, weight] = [grad_output, input, weight].map(contiguous);
    let (grad, input, weight) = (grad?, input?, weight?);
    let (image, positions) = if transposed { (&grad, &input) } else { (&input, &grad) };
    let shape = ConvShape::of(&image.sizes(), &weight.sizes(), &positions.sizes(), &lists)?;
    // The factors of complex gradients are conjugated.
    let conj = |tensor: &Tensor| match tensor.dtype().is_complex() {
        true => op::conj_physical(tensor),
        false => Ok(tensor.clone()),
    };
    let absent = Tensor::undefined();
    if wanted[0] {
        let out = empty(&input.sizes(), input.dtype(), &input)?;
        let role = if transposed { Role::Output } else { Role::Image };
        apply(role, &out, [&conj(&weight)?, &grad, &absent], shape)?;
        grad_input = in_planned_format(out, &planned.0)?;
    }
    if wanted[1] {
        let out = empty(&weight.sizes(), weight.dtype(), &weight)?;
        let other = conj(&input)?;
        let (image, positions) = if transposed { (&grad, &other) } else { (&other, &grad) };
        apply(Role::Weight, &out, [positions, image, &absent], shape)?;
        grad_weight = in_planned_format(out, &planned.1)?;
    }
    Ok((grad_input, grad_weight, grad_bias))
}

/// The gradients of input and weight, those of which the planned ones are defined; undefined where cuDNN does not
/// compute them.
fn gradients_by_cudnn(
    [grad, input, weight]: [&Tensor; 3],
    planned: [&Tensor; 2],
    lists: &Lists<'_>,
    transposed: bool,
) -> Result<(Tensor, Tensor)> {
    let (own, first, second) = match transposed {
        true => (cudnn::Role::Output, [grad, weight], [grad, input]),
        false => (cudnn::Role::Image, [weight, grad], [input, grad]),
    };
    let computed = |role, planned: &Tensor, pair| -> Result<Tensor> {
        match planned.defined() {
            true => Ok(convolved(role, planned, pair, lists)?.unwrap_or_else(Tensor::undefined)),
            false => Ok(Tensor::undefined()),
        }
    };
    Ok((computed(own, planned[0], first)?, computed(cudnn::Role::Weight, planned[1], second)?))
}

fn bias_gradient(grad_output: &Tensor, input: &Tensor, planned: &Tensor) -> Result<Tensor> {
    if !planned.defined() {
        return Ok(Tensor::undefined());
    }
    if input.numel() == 0 {
        return zeros(&planned.sizes(), planned.dtype(), grad_output);
    }
    let mut dims: Vec<i64> = (0..grad_output.dim() as i64).collect();
    dims.remove(1);
    op::sum_dim_intlist(grad_output, Some(&dims), false, None)
}
