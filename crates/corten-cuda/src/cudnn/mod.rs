//! Convolutions by cuDNN, where it is found: `torch.backends.cudnn`.

mod plan;

use crate::device::device_count;
use crate::driver::cudnn_table::cudnn;
use crate::kernels::conv::Lists;
use crate::operands::like_planned;
use corten_core::{MemoryFormat, Result};
use corten_ops::{Tensor, op};
use plan::{Convolution, convolve};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use plan::Role;

/// What `torch.backends.cudnn` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudnnSettings {
    /// Whether it is used.
    pub enabled: bool,
    /// Whether algorithms are timed at the first convolution of a shape.
    pub benchmark: bool,
    /// Whether only algorithms count of which results repeat.
    pub deterministic: bool,
    /// Whether products of float32 may be rounded to 10 bits of mantissa.
    pub allow_tf32: bool,
}

static ENABLED: AtomicBool = AtomicBool::new(true);
static BENCHMARK: AtomicBool = AtomicBool::new(false);
static DETERMINISTIC: AtomicBool = AtomicBool::new(false);
static ALLOW_TF32: AtomicBool = AtomicBool::new(true);

/// Sets how cuDNN is used.
pub fn set_cudnn(settings: CudnnSettings) {
    ENABLED.store(settings.enabled, Ordering::Relaxed);
    BENCHMARK.store(settings.benchmark, Ordering::Relaxed);
    DETERMINISTIC.store(settings.deterministic, Ordering::Relaxed);
    ALLOW_TF32.store(settings.allow_tf32, Ordering::Relaxed);
}

/// How cuDNN is used.
pub fn cudnn_settings() -> CudnnSettings {
    let deterministic = corten_core::are_deterministic_algorithms_enabled();
    CudnnSettings {
        enabled: ENABLED.load(Ordering::Relaxed),
        benchmark: BENCHMARK.load(Ordering::Relaxed),
        deterministic: deterministic || DETERMINISTIC.load(Ordering::Relaxed),
        allow_tf32: ALLOW_TF32.load(Ordering::Relaxed),
    }
}

/// Whether convolutions of a tensor may be cuDNN's; it is looked for at the first call.
fn may_convolve(tensor: &Tensor) -> bool {
    let dtype = tensor.dtype();
    dtype.is_floating_point()
        && dtype.itemsize() > 1
        && ENABLED.load(Ordering::Relaxed)
        && cudnn().is_ok()
}

/// The operand of a convolution that `role` names, in the format of a planned one, from the two others in the
/// order image, weight, output; none where cuDNN is absent, turned off, or has no algorithm.
///
/// # Errors
/// `Runtime` where the library fails.
pub(crate) fn convolved(
    role: Role,
    planned: &Tensor,
    [first, second]: [&Tensor; 2],
    lists: &Lists<'_>,
) -> Result<Option<Tensor>> {
    if !may_convolve(first) || planned.dtype() != first.dtype() {
        return Ok(None);
    }
    let format = planned.suggest_memory_format();
    if !planned.is_contiguous_for(format) {
        return Ok(None);
    }
    let (first, second) = (op::contiguous(first, format)?, op::contiguous(second, format)?);
    let out = like_planned(planned, &first)?;
    let (image, weight, output) = match role {
        Role::Output => (&first, &second, &out),
        Role::Image => (&out, &first, &second),
        Role::Weight => (&first, &out, &second),
    };
    let wanted = Convolution {
        role,
        image,
        weight,
        output,
        stride: lists.stride,
        padding: lists.padding,
        dilation: lists.dilation,
        groups: lists.groups,
        channels_last: format != MemoryFormat::Contiguous,
    };
    Ok(convolve(&wanted)?.then_some(out))
}

/// The version of cuDNN as 10000 * major + 100 * minor + patch; it is looked for where there is a device.
///
/// # Errors
/// `Runtime` where it is not found, with every place that was looked at.
pub fn cudnn_version() -> Result<usize> {
    if device_count() == 0 {
        crate::check_driver()?;
    }
    Ok(cudnn()?.version)
}
