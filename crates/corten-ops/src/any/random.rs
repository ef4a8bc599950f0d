//! Random factories: an empty tensor and the sampler that fills it.

use crate::{Tensor, iter, op};
use corten_core::{
    DType, Device, Generator, Layout, MemoryFormat, Result, bail, ensure, try_collect,
};

/// Numbers from the uniform distribution over `[0, 1)`.
pub fn rand(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    rand_generator(size, None, dtype, layout, device, pin_memory)
}

/// As [`rand`], from a generator.
pub fn rand_generator(
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let result = op::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    op::uniform_(&result, 0.0, 1.0, generator)
}

/// Numbers from the standard normal distribution.
pub fn randn(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randn_generator(size, None, dtype, layout, device, pin_memory)
}

/// As [`randn`], from a generator.
pub fn randn_generator(
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let result = op::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    op::normal_(&result, 0.0, 1.0, generator)
}

/// Integers from `[0, high)`.
pub fn randint(
    high: i64,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randint_low_generator(0, high, size, None, dtype, layout, device, pin_memory)
}

/// As [`randint`], from a generator.
pub fn randint_generator(
    high: i64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randint_low_generator(0, high, size, generator, dtype, layout, device, pin_memory)
}

/// Integers from `[low, high)`.
pub fn randint_low(
    low: i64,
    high: i64,
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randint_low_generator(low, high, size, None, dtype, layout, device, pin_memory)
}

/// As [`randint_low`], from a generator.
pub fn randint_low_generator(
    low: i64,
    high: i64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(DType::Int64);
    let result = op::empty_memory_format(size, Some(dtype), layout, device, pin_memory, None)?;
    op::random__from(&result, low, Some(high), generator)
}

/// A random permutation of the integers below `n`.
pub fn randperm(
    n: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randperm_generator(n, None, dtype, layout, device, pin_memory)
}

/// As [`randperm`], from a generator.
///
/// The permutation is drawn on the CPU whatever the device, so that one seed gives one result.
pub fn randperm_generator(
    n: i64,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(n >= 0, Runtime, "n must be non-negative, got {n}");
    let dtype = dtype.unwrap_or(DType::Int64);
    check_representable(n, dtype)?;
    let mut order: Vec<i64> = try_collect(0..n)?;
    let device_or_host = device.unwrap_or(Device::CPU);
    let generator = match generator {
        Some(generator) => generator,
        None => corten_core::default_generator(device_or_host)?,
    };
    let source = match device_or_host.is_cuda() {
        true => generator.host_twin()?,
        false => generator.expect_host()?.clone(),
    };
    let mut rng = source.lock();
    for i in 0..n.saturating_sub(1) {
        let offset = i64::from(rng.random()) % (n - i);
        order.swap(i as usize, (i + offset) as usize);
    }
    drop(rng);
    let indices = super::factory::from_vec(order, &[n])?;
    op::_to_copy(&indices, Some(dtype), layout, device, pin_memory, false, None)
}

fn check_representable(n: i64, dtype: DType) -> Result<()> {
    let limit = match dtype {
        DType::UInt8 => 1 << 8,
        DType::Int8 => 1 << 7,
        DType::Int16 => 1 << 15,
        DType::Int32 => 1 << 31,
        DType::Float16 => (1 << 11) + 1,
        DType::BFloat16 => (1 << 8) + 1,
        DType::Float32 => (1 << 24) + 1,
        DType::Float64 => (1 << 53) + 1,
        DType::Int64 => i64::MAX,
        other => bail!(NotImplemented, "\"randperm\" not implemented for '{}'", other.type_name()),
    };
    ensure!(n <= limit, Runtime, "n is too large for result tensor type: '{}'", dtype.type_name());
    Ok(())
}

fn like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    op::empty_like(self_, dtype, layout, device, pin_memory, memory_format)
}

/// Uniform numbers over `[0, 1)` in the shape of `self_`.
pub fn rand_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = like(self_, dtype, layout, device, pin_memory, memory_format)?;
    op::uniform_(&result, 0.0, 1.0, None)
}

/// Standard normal numbers in the shape of `self_`.
pub fn randn_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = like(self_, dtype, layout, device, pin_memory, memory_format)?;
    op::normal_(&result, 0.0, 1.0, None)
}

/// Integers from `[0, high)` in the shape of `self_`.
pub fn randint_like(
    self_: &Tensor,
    high: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    randint_like_low_dtype(self_, 0, high, dtype, layout, device, pin_memory, memory_format)
}

/// Integers from `[low, high)` in the shape of `self_`.
pub fn randint_like_low_dtype(
    self_: &Tensor,
    low: i64,
    high: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = like(self_, dtype, layout, device, pin_memory, memory_format)?;
    op::random__from(&result, low, Some(high), None)
}

/// Ones, each with the probability that `self_` gives, and zeros.
pub fn bernoulli(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let contiguous = Some(MemoryFormat::Contiguous);
    let result = op::empty_like(self_, None, None, None, None, contiguous)?;
    op::bernoulli__tensor(&result, self_, generator)
}

/// [`bernoulli`] into `out`, of any dtype.
///
/// # Errors
/// Those of the in-place operator.
pub fn bernoulli_out(
    self_: &Tensor,
    generator: Option<&Generator>,
    out: &Tensor,
) -> Result<Tensor> {
    iter::resize_output(out, &self_.sizes())?;
    op::bernoulli__tensor(out, self_, generator)
}

/// Ones of probability `p` and zeros, in the shape of `self_`.
pub fn bernoulli_p(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let contiguous = Some(MemoryFormat::Contiguous);
    let result = op::empty_like(self_, None, None, None, None, contiguous)?;
    op::bernoulli__float(&result, p, generator)
}

/// Normal numbers with the means given by element.
pub fn normal_tensor_float(
    mean: &Tensor,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    ensure!(std >= 0.0, Runtime, "normal expects std >= 0.0, but found std {std}");
    let result = like(mean, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    op::normal_(&result, 0.0, std, generator)?;
    op::add__tensor(&result, mean, 1.into())
}

/// Normal numbers with the standard deviations given by element.
pub fn normal_float_tensor(
    mean: f64,
    std: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_deviations(std)?;
    let result = like(std, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    op::normal_(&result, 0.0, 1.0, generator)?;
    op::mul__tensor(&result, std)?;
    op::add__scalar(&result, mean.into(), 1.into())
}

/// Normal numbers with means and standard deviations given by element.
pub fn normal_tensor_tensor(
    mean: &Tensor,
    std: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_deviations(std)?;
    let shape = corten_core::geometry::infer_broadcast(&mean.sizes(), &std.sizes())?;
    let result =
        op::empty_memory_format(&shape, Some(mean.dtype()), None, Some(mean.device()), None, None)?;
    op::normal_(&result, 0.0, 1.0, generator)?;
    op::mul__tensor(&result, std)?;
    op::add__tensor(&result, mean, 1.into())
}

fn check_deviations(std: &Tensor) -> Result<()> {
    ensure!(
        !std.dtype().is_complex(),
        Runtime,
        "normal expects standard deviation to be non-complex"
    );
    if std.numel() > 0 && std.device() != Device::META {
        let negative = op::any(&op::lt_scalar(std, 0.into())?)?;
        let negative = op::item(&negative)?.to_bool();
        ensure!(!negative, Runtime, "normal expects all elements of std >= 0.0");
    }
    Ok(())
}

/// Normal numbers with the given mean and standard deviation.
pub fn normal_float_float(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let result = op::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    op::normal_(&result, mean, std, generator)
}
