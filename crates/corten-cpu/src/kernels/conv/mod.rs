//! Convolutions, transposed ones and their gradients.
//!
//! A transposed convolution is the adjoint of a convolution: its input plays the output. So three
//! products ([`products`]) over one [`Geometry`] make all six operators.

mod check;
mod depthwise;
mod depthwise_channels;
mod direct_conv;
pub(crate) mod geometry;
mod implicit_gemm;
mod patches;
mod products;
mod weight;
mod window;
mod winograd;

use super::support::{
    contiguous, contiguous_in, empty_as, empty_in, expect_dtype, flat, is_shape_only,
};
use check::Lists;
use corten_core::{Access, AccessSet, DType, MemoryFormat, Result, ensure, match_dtype};
use corten_ops::composite::support::{tensor_type_name, type_id_name};
use corten_ops::{Tensor, op};
use geometry::Geometry;
use products::Product;

/// Convolution, or its transpose, of a batch.
///
/// # Errors
/// `Runtime` when shapes, numbers or dtypes do not fit.
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
    let bias = super::support::defined(bias);
    let lists = Lists::of(weight, stride, padding, dilation, output_padding)?;
    check::forward(input, weight, bias, &lists, transposed, groups)?;
    let rounded = foreign_bias(input, weight, bias, transposed)?;
    let bias = rounded.as_ref().or(bias);
    check_dtypes(input, weight, bias)?;
    let sizes = lists.output_sizes(&input.sizes(), &weight.sizes(), transposed, groups);
    if let Some(empty) = empty_output(input, &sizes)? {
        return Ok(empty);
    }
    if weight.dim() > 3 {
        return convolve(input, weight, bias, &lists, transposed, groups);
    }
    let (input, weight) = (as_image(&contiguous(input)?)?, as_image(weight)?);
    op::squeeze_dim(&convolve(&input, &weight, bias, &lists.of_image(), transposed, groups)?, 2)
}

/// A bias in the input's dtype, where it has another one that transposed convolutions of signals and
/// images take.
fn foreign_bias(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    transposed: bool,
) -> Result<Option<Tensor>> {
    let takes = |bias: &&Tensor| {
        transposed
            && weight.dim() < 5
            && weight.dtype() == input.dtype()
            && bias.dtype() != input.dtype()
            && bias.dtype().is_floating_point()
            && input.dtype().is_floating_point()
    };
    bias.filter(takes).map(|bias| converted(bias, input.dtype())).transpose()
}

/// A signal as an image of height 1.
fn as_image(signal: &Tensor) -> Result<Tensor> {
    op::unsqueeze(signal, 2)
}

/// Half precisions are computed in `f32`.
fn convolve(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    lists: &Lists,
    transposed: bool,
    groups: i64,
) -> Result<Tensor> {
    if !is_shape_only(input) {
        check::kernel(weight)?;
    }
    if transposed {
        check::transposed(input, weight, lists)?;
    }
    let sizes = lists.output_sizes(&input.sizes(), &weight.sizes(), transposed, groups);
    if !input.dtype().is_reduced_float() {
        return compute(input, weight, bias, &sizes, lists, transposed, groups);
    }
    let [wide, weight] = [input, weight].map(|tensor| converted(tensor, DType::Float32));
    let bias = bias.map(|bias| converted(bias, DType::Float32)).transpose()?;
    let out = compute(&wide?, &weight?, bias.as_ref(), &sizes, lists, transposed, groups)?;
    converted(&out, input.dtype())
}

/// Gradients of [`convolution`] with respect to input, weight and bias.
///
/// # Errors
/// `Runtime` when shapes, numbers or dtypes do not fit.
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
    let lists = Lists::of(weight, stride, padding, dilation, output_padding)?;
    check::forward(input, weight, None, &lists, transposed, groups)?;
    check_dtypes(input, weight, None)?;
    expect_dtype(grad_output, input.dtype())?;
    let sizes = lists.output_sizes(&input.sizes(), &weight.sizes(), transposed, groups);
    ensure!(
        grad_output.sizes().as_slice() == sizes || input.numel() == 0,
        Runtime,
        "Expected a gradient of size {sizes:?} but got {:?}",
        grad_output.sizes().as_slice()
    );
    let mut dims: Vec<i64> = (0..grad_output.dim() as i64).collect();
    dims.remove(1);
    let grad_bias = match output_mask[2] {
        // The output of an input without channels has none either.
        true if input.numel() == 0 => {
            op::new_zeros(grad_output, &sizes[1..2], None, None, None, None)?
        }
        true => op::sum_dim_intlist(grad_output, Some(&dims), false, None)?,
        false => Tensor::undefined(),
    };
    ensure!(
        bias_sizes.is_none_or(|sizes| !output_mask[2] || sizes == grad_bias.sizes().as_slice()),
        Runtime,
        "Expected a bias of size {:?} but got {:?}",
        grad_bias.sizes().as_slice(),
        bias_sizes.unwrap_or_default()
    );
    let mask = [output_mask[0], output_mask[1]];
    if weight.dim() > 3 {
        let wide = wide_gradients(grad_output, input, weight, &lists, transposed, groups, mask)?;
        return Ok((wide.0, wide.1, grad_bias));
    }
    let (grad, input) = (as_image(grad_output)?, as_image(&contiguous(input)?)?);
    let (lists, weight) = (lists.of_image(), as_image(weight)?);
    let (a, b) = wide_gradients(&grad, &input, &weight, &lists, transposed, groups, mask)?;
    let as_signal = |image: &Tensor| match image.defined() {
        true => op::squeeze_dim(image, 2),
        false => Ok(image.clone()),
    };
    Ok((as_signal(&a)?, as_signal(&b)?, grad_bias))
}

/// Half precisions are computed in `f32`.
fn wide_gradients(
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    lists: &Lists,
    transposed: bool,
    groups: i64,
    mask: [bool; 2],
) -> Result<(Tensor, Tensor)> {
    if !is_shape_only(input) {
        check::kernel(weight)?;
    }
    if !input.dtype().is_reduced_float() {
        return gradients(grad_output, input, weight, lists, transposed, groups, mask);
    }
    let [grad, wide, weight] =
        [grad_output, input, weight].map(|tensor| converted(tensor, DType::Float32));
    let (a, b) = gradients(&grad?, &wide?, &weight?, lists, transposed, groups, mask)?;
    Ok((converted(&a, input.dtype())?, converted(&b, input.dtype())?))
}

fn compute(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    sizes: &[i64],
    lists: &Lists,
    transposed: bool,
    groups: i64,
) -> Result<Tensor> {
    let format = format_of(input, weight);
    let out = empty_in(sizes, input, input.dtype(), format)?;
    let (image, positions) = if transposed { (&out, input) } else { (input, &out) };
    let geometry =
        lists.geometry(&image.sizes(), &weight.sizes(), &positions.sizes(), groups, format);
    let (input, weight) = (contiguous_in(input, format)?, contiguous_in(weight, format)?);
    if transposed {
        transpose_kernel(&out, &input, &weight, &geometry)?;
        if let Some(bias) = bias {
            let mut shape = vec![1; sizes.len()];
            shape[1] = -1;
            op::add__tensor(&out, &op::reshape(bias, &shape)?, 1.into())?;
        }
    } else {
        let bias = super::support::contiguous_opt(bias)?;
        forward_kernel(&out, &input, &weight, bias.as_ref(), &geometry)?;
    }
    Ok(out)
}

fn forward_kernel(
    out: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    geometry: &Geometry,
) -> Result<()> {
    if is_shape_only(out) || winograd::run(out, input, weight, bias, geometry, false)? {
        return Ok(());
    }
    let (out, input, weight) = (flat(out)?, flat(input)?, flat(weight)?);
    let absent = Tensor::undefined();
    let access = AccessSet::acquire(&[
        (&out, Access::Write),
        (&input, Access::Read),
        (&weight, Access::Read),
        (bias.unwrap_or(&absent), Access::Read),
    ])?;
    if depthwise::fits(geometry) && out.dtype().is_floating_point() {
        return match_dtype!(out.dtype(), "slow_conv2d_cpu", SingleDouble, T => {
            let bias = bias.map(|_| access.read::<T>(3)).transpose()?;
            let (input, weight) = (access.read::<T>(1)?, access.read::<T>(2)?);
            depthwise::correlate(geometry, access.write::<T>(0)?, input, weight, bias)
        });
    }
    if direct_conv::fits(geometry, out.dtype()) {
        let bias = bias.map(|_| access.read::<f32>(3)).transpose()?;
        let (input, weight) = (access.read::<f32>(1)?, access.read::<f32>(2)?);
        return direct_conv::correlate(geometry, access.write(0)?, input, weight, bias);
    }
    match_dtype!(out.dtype(), "slow_conv2d_cpu", Product, T => {
        let bias = bias.map(|_| access.read::<T>(3)).transpose()?;
        let (input, weight) = (access.read::<T>(1)?, access.read::<T>(2)?);
        products::correlate(geometry, access.write::<T>(0)?, input, weight, bias)
    })
}

/// `out` is the image and `input` the output of the convolution that this is the adjoint of.
fn transpose_kernel(
    out: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    geometry: &Geometry,
) -> Result<()> {
    let dtype = out.dtype();
    if dtype != DType::Int64 && !dtype.is_floating_point() && !dtype.is_complex() {
        let name = "slow_conv_transpose2d_out_cpu";
        return Err(corten_core::not_implemented_for(name, dtype));
    }
    apply(out, input, weight, geometry, Role::Image)
}

/// Which operand of the convolution is computed from the other two.
#[derive(Clone, Copy)]
enum Role {
    Image,
    Output,
    Weight,
}

/// Computes one operand: the image from (output, weight), the output from (image, weight), or the
/// weight from (image, output). All are dense in the geometry's layout.
fn apply(target: &Tensor, a: &Tensor, b: &Tensor, geometry: &Geometry, role: Role) -> Result<()> {
    if matches!(role, Role::Output) {
        return forward_kernel(target, a, b, None, geometry);
    }
    if is_shape_only(target) {
        return Ok(());
    }
    let done = match role {
        Role::Image => match geometry.adjoint() {
            Some(adjoint) => winograd::run(target, a, b, None, &adjoint, true)?,
            None => false,
        },
        Role::Weight => winograd::weight::run(target, a, b, geometry)?,
        Role::Output => false,
    };
    if done {
        return Ok(());
    }
    let (target, a, b) = (flat(target)?, flat(a)?, flat(b)?);
    let access =
        AccessSet::acquire(&[(&target, Access::Write), (&a, Access::Read), (&b, Access::Read)])?;
    let depthwise = match role {
        Role::Image => depthwise::adjoint_fits(geometry),
        Role::Output => false,
        Role::Weight => depthwise::weight_fits(geometry) || depthwise_channels::fits(geometry),
    };
    if depthwise && target.dtype().is_floating_point() {
        return match_dtype!(target.dtype(), "slow_conv2d_backward_cpu", SingleDouble, T => {
            let (target, a, b) = (access.write::<T>(0)?, access.read::<T>(1)?, access.read::<T>(2)?);
            match role {
                Role::Weight if geometry.channels_last => {
                    depthwise_channels::weight_gradient(geometry, target, a, b)
                }
                Role::Weight => depthwise::weight_gradient(geometry, target, a, b),
                _ => depthwise::adjoint(geometry, target, a, b),
            }
        });
    }
    if matches!(role, Role::Image)
        && let Some(adjoint) = geometry.adjoint()
        && direct_conv::fits(&adjoint, target.dtype())
    {
        let (output, weight) = (access.read::<f32>(1)?, access.read::<f32>(2)?);
        let weight = products::turned(&adjoint, weight);
        return direct_conv::correlate(&adjoint, access.write(0)?, output, &weight, None);
    }
    match_dtype!(target.dtype(), "slow_conv2d_backward_cpu", Product, T => {
        apply_as::<T>(access.write::<T>(0)?, access.read::<T>(1)?, access.read::<T>(2)?, geometry, role)
    })
}

/// How many samples an output has.
fn samples_of(output: &Tensor, geometry: &Geometry) -> usize {
    output.numel() as usize / (geometry.features * geometry.positions()).max(1)
}

fn apply_as<T: Product>(
    target: &mut [T],
    a: &[T],
    b: &[T],
    geometry: &Geometry,
    role: Role,
) -> Result<()> {
    match role {
        Role::Image => products::adjoint(geometry, target, a, b),
        Role::Output => products::correlate(geometry, target, a, b, None),
        Role::Weight => weight::gradient(geometry, target, a, b),
    }
}

fn gradients(
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    lists: &Lists,
    transposed: bool,
    groups: i64,
    mask: [bool; 2],
) -> Result<(Tensor, Tensor)> {
    let format = format_of(input, weight);
    let new = |like: &Tensor| empty_in(&like.sizes(), like, like.dtype(), format);
    let (mut grad_input, mut grad_weight) = (Tensor::undefined(), Tensor::undefined());
    if input.numel() == 0 {
        if mask[0] {
            grad_input = new(input)?;
        }
        if mask[1] {
            grad_weight = op::zeros_like(weight, None, None, None, None, None)?;
        }
        return Ok((grad_input, grad_weight));
    }
    let (image, positions) = if transposed { (grad_output, input) } else { (input, grad_output) };
    let geometry =
        lists.geometry(&image.sizes(), &weight.sizes(), &positions.sizes(), groups, format);
    let [image, positions, grad, weight] =
        [image, positions, grad_output, weight].map(|tensor| contiguous_in(tensor, format));
    let (image, positions, grad, weight) = (image?, positions?, grad?, weight?);
    // The gradients of integers and of complex numbers follow the same products; for complex ones
    // the factors are conjugated.
    let conj = |tensor: &Tensor| match tensor.dtype().is_complex() {
        true => contiguous_in(&op::conj_physical(tensor)?, format),
        false => Ok(tensor.clone()),
    };
    if mask[0] {
        grad_input = new(input)?;
        let role = if transposed { Role::Output } else { Role::Image };
        apply(&grad_input, &grad, &conj(&weight)?, &geometry, role)?;
    }
    if mask[1] {
        grad_weight = new(&weight)?;
        let (image, positions) = match transposed {
            true => (image, conj(&positions)?),
            false => (conj(&image)?, positions),
        };
        weight_gradient(&grad_weight, &image, &positions, geometry)?;
    }
    Ok((grad_input, grad_weight))
}

/// The gradient of the weight. Depthwise kernels' elements lie the same way in every memory format.
fn weight_gradient(
    grad_weight: &Tensor,
    image: &Tensor,
    positions: &Tensor,
    mut geometry: Geometry,
) -> Result<()> {
    if !depthwise_channels::is_worth_copies(&geometry) || !image.dtype().is_floating_point() {
        return apply(grad_weight, image, positions, &geometry, Role::Weight);
    }
    geometry.channels_last = true;
    let format = match image.dim() {
        5 => MemoryFormat::ChannelsLast3d,
        _ => MemoryFormat::ChannelsLast,
    };
    let [image, positions] = [image, positions].map(|tensor| contiguous_in(tensor, format));
    apply(grad_weight, &image?, &positions?, &geometry, Role::Weight)
}

/// Channels come last in the output where they do in the input or the weight.
fn format_of(input: &Tensor, weight: &Tensor) -> MemoryFormat {
    let wanted = match input.dim() {
        4 => MemoryFormat::ChannelsLast,
        5 if input.dtype() != DType::Float64 => MemoryFormat::ChannelsLast3d,
        _ => return MemoryFormat::Contiguous,
    };
    let suggested = [input, weight].map(|tensor| tensor.suggest_memory_format());
    if suggested.contains(&wanted) { wanted } else { MemoryFormat::Contiguous }
}

/// A copy of another dtype in the same format; undefined stays undefined.
fn converted(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if !tensor.defined() {
        return Ok(tensor.clone());
    }
    let format = tensor.suggest_memory_format();
    let out = empty_in(&tensor.sizes(), tensor, dtype, format)?;
    op::copy_(&out, tensor, false)?;
    Ok(out)
}

/// The result for an input without elements.
fn empty_output(input: &Tensor, sizes: &[i64]) -> Result<Option<Tensor>> {
    if input.numel() > 0 {
        return Ok(None);
    }
    let input_sizes = input.sizes();
    ensure!(
        input_sizes[0] == 0 || input_sizes[1] == 0,
        Runtime,
        "Only zero batch or zero channel inputs are supported, but got input shape: {:?}",
        input_sizes.as_slice()
    );
    let mut sizes = sizes.to_vec();
    if input_sizes[1] == 0 {
        // So it is in PyTorch: without input channels there are no output channels either.
        sizes[1] = 0;
    }
    empty_as(&sizes, input, input.dtype()).map(Some)
}

fn check_dtypes(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    if !input.dtype().is_floating_point() || input.dtype() == DType::Float64 {
        expect_dtype(weight, input.dtype())?;
    }
    ensure!(
        weight.dtype() == input.dtype(),
        Runtime,
        "Input type ({}) and weight type ({}) should be the same or input should be a MKLDNN \
         tensor and weight is a dense tensor",
        tensor_type_name(input.dtype()),
        tensor_type_name(weight.dtype())
    );
    let bias_dtype = bias.map_or(input.dtype(), |bias| bias.dtype());
    ensure!(
        bias_dtype == input.dtype(),
        Runtime,
        "Input type ({}) and bias type ({}) should be the same",
        type_id_name(input.dtype()),
        type_id_name(bias_dtype)
    );
    Ok(())
}
