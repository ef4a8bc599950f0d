//! Numbers of distributions whose parameters are tensors.

use crate::failure;
use crate::flat_launch::Flat;
use crate::kernel::{Argument, Template, parameters};
use crate::operands::{contiguous, empty};
use crate::text;
use corten_core::generator::PhiloxState;
use corten_core::{Access, DType, Result, not_implemented_for};
use corten_ops::{Tensor, op};

static SAMPLE: Template = Template { name: "sample_each", text: &[text::RANDOM, text::SAMPLING] };
static GAMMA_SLOPES: Template =
    Template { name: "gamma_slopes", text: &[text::SPECIALS[0], text::SPECIALS[1], text::SLOPES] };
static BETA_SLOPES: Template =
    Template { name: "beta_slopes", text: &[text::SPECIALS[0], text::SPECIALS[1], text::SLOPES] };

/// What is sampled; the numbers of `sampling.cuh`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Sampled {
    Poisson = 0,
    Binomial = 1,
    Gamma = 2,
}

/// How far a launch moves the offset of a generator: more than the rejections of an element take.
pub(crate) const OFFSETS: u64 = 1024;

/// Refuses what is no `f32` and no `f64`.
///
/// # Errors
/// `NotImplemented`.
pub(crate) fn single_or_double(tensor: &Tensor, name: &'static str) -> Result<()> {
    match tensor.dtype() {
        DType::Float32 | DType::Float64 => Ok(()),
        other => Err(not_implemented_for(name, other)),
    }
}

/// The smallest number of a dtype that is not subnormal.
pub(crate) fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::Float64 => f64::MIN_POSITIVE,
        _ => f32::MIN_POSITIVE.into(),
    }
}

/// A number for each element of one or two parameters of one shape and dtype.
///
/// # Errors
/// Those of the driver.
pub(crate) fn sample(parameters: &[Tensor], kind: Sampled, state: PhiloxState) -> Result<Tensor> {
    let first = contiguous(&parameters[0])?;
    let second = parameters.get(1).map(contiguous).transpose()?;
    let undefined = Tensor::default();
    let out = empty(&first.sizes(), first.dtype(), &first)?;
    let tensors = [
        (&out, Access::Write),
        (&first, Access::Read),
        (second.as_ref().unwrap_or(&undefined), Access::Read),
    ];
    let (mut seed, mut offset) = (state.seed, state.offset);
    let mut least = smallest_normal(first.dtype());
    let mut report = failure::address(first.device().index)?;
    let of = [Argument::Storage(first.dtype()), Argument::Number(kind as u32)];
    let call = Flat { template: &SAMPLE, of: &of, tensors: &tensors };
    // SAFETY: the tensors are contiguous and of one size.
    unsafe { call.over(out.numel(), parameters!(seed, offset, least, report))? };
    Ok(out)
}

fn broadcast(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
    let all: Vec<Tensor> = tensors.iter().map(|&tensor| tensor.clone()).collect();
    op::broadcast_tensors(&all)?.iter().map(contiguous).collect()
}

/// How gamma samples grow with their concentration at a fixed quantile.
///
/// # Errors
/// Those of the driver.
pub(crate) fn gamma_slopes(concentration: &Tensor, sample: &Tensor) -> Result<Tensor> {
    let both = broadcast(&[concentration, sample])?;
    let dtype = both[0].dtype();
    let out = empty(&both[0].sizes(), dtype, &both[0])?;
    let mut least = if dtype == DType::Float32 { 1e-10 } else { 1e-17 };
    let tensors = [(&out, Access::Write), (&both[0], Access::Read), (&both[1], Access::Read)];
    let call = Flat { template: &GAMMA_SLOPES, of: &[Argument::Storage(dtype)], tensors: &tensors };
    // SAFETY: the tensors are contiguous and of one size.
    unsafe { call.over(out.numel(), parameters!(least))? };
    Ok(out)
}

/// How coordinates of a simplex grow with their concentration at a fixed quantile, over `1 - x`.
///
/// # Errors
/// Those of the driver.
pub(crate) fn beta_slopes(x: &Tensor, alpha: &Tensor, total: &Tensor) -> Result<Tensor> {
    let all = broadcast(&[x, alpha, total])?;
    let dtype = all[0].dtype();
    let out = empty(&all[0].sizes(), dtype, &all[0])?;
    let mut tensors = vec![(&out, Access::Write)];
    tensors.extend(all.iter().map(|tensor| (tensor, Access::Read)));
    let call = Flat { template: &BETA_SLOPES, of: &[Argument::Storage(dtype)], tensors: &tensors };
    // SAFETY: the tensors are contiguous and of one size.
    unsafe { call.over(out.numel(), &mut [])? };
    Ok(out)
}
