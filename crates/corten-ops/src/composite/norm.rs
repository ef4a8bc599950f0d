//! Normalisation: checks, shapes, and the norms that are made of others.

use super::support::defined;
use crate::{Tensor, op};
use corten_core::{DType, Dims, MemoryFormat, Result, Scalar, ensure};

/// Normalises every channel over the batch.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    // A vector has no channels, and is refused below unless nothing else is given.
    let channels = if input.dim() < 2 { 0 } else { input.size(1)? };
    ensure!(
        defined(running_mean).is_some() == defined(running_var).is_some(),
        Value,
        "running_mean and running_var must either both be None or neither be None"
    );
    if input.numel() == 0 {
        return empty_batch_norm(input, weight, bias);
    }
    ensure!(
        training || defined(running_mean).is_some(),
        Runtime,
        "running_mean must be defined in evaluation mode"
    );
    for (tensor, name) in [
        (running_mean, "running_mean"),
        (running_var, "running_var"),
        (weight, "weight"),
        (bias, "bias"),
    ] {
        let found = defined(tensor).map_or(channels, |tensor| tensor.numel());
        ensure!(
            found == channels,
            Runtime,
            "{name} should contain {channels} elements not {found}"
        );
    }
    let (out, _, _) = op::native_batch_norm(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        training,
        momentum,
        eps,
    )?;
    Ok(out)
}

/// Nothing to normalise, but gradients still flow to the parameters.
fn empty_batch_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let mut out = op::clone(input, None)?;
    if let Some(weight) = defined(weight).filter(|weight| weight.numel() > 0) {
        out = op::mul_tensor(&out, &op::select_int(weight, 0, 0)?)?;
    }
    if let Some(bias) = defined(bias).filter(|bias| bias.numel() > 0) {
        out = op::add_tensor(&out, &op::select_int(bias, 0, 0)?, Scalar::Int(1))?;
    }
    Ok(out)
}

/// Normalises over the last dimensions.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enable: bool,
) -> Result<Tensor> {
    Ok(op::native_layer_norm(input, normalized_shape, weight, bias, eps)?.0)
}

/// What layer normalisation accepts, in PyTorch's words.
///
/// # Errors
/// `Runtime` when shapes do not fit.
pub fn check_normalized_shape(
    sizes: &[i64],
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<()> {
    ensure!(
        !normalized_shape.is_empty(),
        Runtime,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one \
         element, but got normalized_shape = []"
    );
    for (tensor, name) in [(weight, "weight"), (bias, "bias")] {
        check_parameter(tensor, name, normalized_shape)?;
    }
    ensure!(
        sizes.ends_with(normalized_shape),
        Runtime,
        "Given normalized_shape={normalized_shape:?}, expected input with shape [*, {}], but got \
         input of size{sizes:?}",
        listed(normalized_shape)
    );
    Ok(())
}

fn check_parameter(tensor: Option<&Tensor>, name: &str, normalized_shape: &[i64]) -> Result<()> {
    let Some(tensor) = defined(tensor) else { return Ok(()) };
    ensure!(
        tensor.sizes().as_slice() == normalized_shape,
        Runtime,
        "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and \
         normalized_shape = {normalized_shape:?}",
        tensor.sizes().as_slice()
    );
    Ok(())
}

fn listed(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// Normalises every group of channels of every sample.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn group_norm(
    input: &Tensor,
    num_groups: i64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    let (samples, channels) = (input.size(0)?, input.size(1)?);
    check_groups(&input.sizes(), weight, bias, channels, num_groups)?;
    let plane: i64 = input.sizes()[2..].iter().product();
    let (out, _, _) =
        op::native_group_norm(input, weight, bias, samples, channels, plane, num_groups, eps)?;
    Ok(out)
}

/// What group normalisation accepts, in PyTorch's words.
///
/// # Errors
/// `Runtime` when shapes do not fit.
pub fn check_groups(
    sizes: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    channels: i64,
    num_groups: i64,
) -> Result<()> {
    ensure!(num_groups > 0, Runtime, "Expected num groups to be greater than 0, got {num_groups}");
    ensure!(
        channels > 0,
        Runtime,
        "Expected number of channels to be greater than 0, got {channels}"
    );
    ensure!(
        channels % num_groups == 0,
        Runtime,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape \
         {sizes:?} and num_groups={num_groups}"
    );
    for (tensor, name) in [(weight, "weight"), (bias, "bias")] {
        let Some(tensor) = defined(tensor) else { continue };
        ensure!(
            tensor.sizes().as_slice() == [channels],
            Runtime,
            "Expected {name} to be a vector of size equal to the number of channels in input, but \
             got {name} of shape {:?} and input of shape {sizes:?}",
            tensor.sizes().as_slice()
        );
    }
    Ok(())
}

/// Normalises every channel of every sample: batch normalisation of one sample with all channels.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn instance_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
    cudnn_enabled: bool,
) -> Result<Tensor> {
    let (mean, var) = (defined(running_mean), defined(running_var));
    ensure!(
        use_input_stats || (mean.is_some() && var.is_some()),
        Runtime,
        "Expected running_mean and running_var to be defined when use_input_stats is false"
    );
    let (samples, channels) = (input.size(0)?, input.size(1)?);
    let mut sizes: Dims = input.sizes();
    (sizes[0], sizes[1]) = (1, samples * channels);
    let repeated = |tensor: Option<&Tensor>| {
        defined(tensor).map(|tensor| op::repeat(tensor, &[samples])).transpose()
    };
    let (weight, bias) = (repeated(weight)?, repeated(bias)?);
    // Statistics of another precision are those of the input meanwhile.
    let statistics = |tensor: Option<&Tensor>| match tensor {
        Some(one) if input.dtype() == DType::Float32 && one.dtype() == DType::Float64 => {
            repeated(Some(&op::to_dtype(one, DType::Float32, false, false, None)?))
        }
        _ => repeated(tensor),
    };
    let (means, vars) = (statistics(running_mean)?, statistics(running_var)?);
    let view = op::view(&op::contiguous(input, MemoryFormat::Contiguous)?, &sizes)?;
    let out = batch_norm(
        &view,
        weight.as_ref(),
        bias.as_ref(),
        means.as_ref(),
        vars.as_ref(),
        use_input_stats,
        momentum,
        eps,
        cudnn_enabled,
    )?;
    // The running statistics become the mean over the samples of those of each.
    for (running, updated) in [(mean, means), (var, vars)] {
        if let (Some(running), Some(updated)) = (running, updated) {
            let rows = op::view(&op::detach(&updated)?, &[samples, channels])?;
            op::copy_(
                &op::detach(running)?,
                &op::mean_dim(&rows, Some(&[0]), false, None)?,
                false,
            )?;
        }
    }
    op::view(&out, &input.sizes())
}

/// Divides by the root of the mean square over the last dimensions.
///
/// # Errors
/// `Runtime` when shapes do not fit, `NotImplemented` for integers.
pub fn rms_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<Tensor> {
    ensure!(
        !normalized_shape.is_empty(),
        Runtime,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one \
         element, but got normalized_shape = []"
    );
    check_parameter(weight, "weight", normalized_shape)?;
    let sizes = input.sizes();
    ensure!(
        sizes.ends_with(normalized_shape),
        Runtime,
        "Given normalized_shape={normalized_shape:?}, expected input with shape [*{}], but got \
         input of size{:?}",
        listed(normalized_shape),
        sizes.as_slice()
    );
    let dtype = input.dtype();
    if !dtype.is_floating_point() && !dtype.is_complex() {
        return Err(corten_core::not_implemented_for("rms_norm", dtype));
    }
    let dims: Vec<i64> = (1..=normalized_shape.len() as i64).map(|d| -d).collect();
    let compute = dtype.opmath();
    let eps = eps.unwrap_or(if compute.to_real() == DType::Float64 {
        f64::EPSILON
    } else {
        f32::EPSILON.into()
    });
    let input = op::contiguous(input, MemoryFormat::Contiguous)?;
    let wide = op::to_dtype(&input, compute, false, false, None)?;
    let squares = op::pow_tensor_scalar(&wide, Scalar::Int(2))?;
    let mean = op::mean_dim(&squares, Some(&dims), true, None)?;
    let factor = op::rsqrt(&op::add_scalar(&mean, Scalar::from(eps), Scalar::Int(1))?)?;
    let mut out = op::mul_tensor(&wide, &factor)?;
    if let Some(weight) = defined(weight) {
        out = op::mul_tensor(&out, weight)?;
    }
    op::to_dtype(&out, dtype, false, false, None)
}

/// `native_batch_norm` with running statistics that are written in training.
///
/// # Errors
/// Those of `native_batch_norm`; for the functions below likewise.
pub fn native_batch_norm_legit(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (mean, var) = (Some(running_mean), Some(running_var));
    op::native_batch_norm(input, weight, bias, mean, var, training, momentum, eps)
}

/// `native_batch_norm` without running statistics.
pub fn native_batch_norm_no_stats(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    op::native_batch_norm(input, weight, bias, None, None, training, momentum, eps)
}

/// `native_batch_norm` by the running statistics.
pub fn native_batch_norm_no_training(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (mean, var) = (Some(running_mean), Some(running_var));
    op::native_batch_norm(input, weight, bias, mean, var, false, momentum, eps)
}

/// `native_batch_norm` in training, and an empty reserve.
pub fn batch_norm_with_update(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let (mean, var) = (Some(running_mean), Some(running_var));
    let (out, mean, invstd) =
        op::native_batch_norm(input, weight, bias, mean, var, true, momentum, eps)?;
    Ok((out, mean, invstd, nothing_reserved(input)?))
}

/// `native_batch_norm` by the running statistics, and an empty reserve.
pub fn batch_norm_no_update(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let (out, mean, invstd) = op::native_batch_norm(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        false,
        momentum,
        eps,
    )?;
    Ok((out, mean, invstd, nothing_reserved(input)?))
}

fn nothing_reserved(input: &Tensor) -> Result<Tensor> {
    op::new_empty(input, &[0], Some(corten_core::DType::UInt8), None, None, None)
}
