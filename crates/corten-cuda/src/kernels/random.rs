//! Random numbers, from the stream of the device's generator as PyTorch divides it among threads.
//!
//! Note [Random numbers of CUDA]: thread `t` of a launch draws from subsequence `t` of Philox4x32-10; a
//! launch has blocks of 256 threads, at most as many as the multiprocessors hold at once; a thread makes
//! the four numbers of a block (two of 53 bits) into elements that are a grid apart, and a launch moves
//! the offset on by 4 for each block that a thread draws. These are the numbers of PyTorch on a device
//! with as many multiprocessors, up to the last bits of the hardware's fast logarithm, sine and
//! exponential.

use crate::device::gpu;
use crate::driver_memory::is_capturing;
use crate::failure;
use crate::generator::reserve;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::{Operands, contiguous, empty, on_meta};
use crate::pointwise::geometry_words;
use crate::sampling::{
    OFFSETS, Sampled, beta_slopes, gamma_slopes, sample, single_or_double, smallest_normal,
};
use crate::stream::Stream;
use crate::strided_loop::{StridedLoop, byte_strides};
use crate::text;
use corten_core::{
    Access, DType, Dims, Generator, Result, Scalar, bail, ensure, not_implemented_for,
};
use corten_ops::{Tensor, derived, op};

static DRAW: Template = Template { name: "draw", text: &[text::RANDOM] };
static BERNOULLI_OF: Template = Template { name: "bernoulli_of", text: &[text::RANDOM] };
static SAMPLE_ROWS: Template = Template { name: "sample_rows", text: &[text::RANDOM] };

/// What numbers are made into; the numbers of `random.cuh`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Distribution {
    Uniform = 0,
    Normal = 1,
    Bernoulli = 2,
    Exponential = 3,
    Geometric = 4,
    Cauchy = 5,
    LogNormal = 6,
    Integer32 = 7,
    Integer64 = 8,
}

/// `Made` of `random.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Made {
    a: f64,
    b: f64,
    range: u64,
    base: i64,
}

/// Blocks of a launch, and the numbers of its threads' subsequences that it uses.
pub(crate) fn policy(device: i8, numel: u64, unroll: u64) -> Result<(u32, u64)> {
    let properties = &gpu(device)?.properties;
    let per_processor =
        (properties.max_threads_per_multi_processor as u64 / u64::from(THREADS)).max(1);
    let most = (properties.multi_processor_count as u64 * per_processor).max(1);
    let blocks = numel.div_ceil(u64::from(THREADS)).clamp(1, most);
    let steps = (numel - 1) / (u64::from(THREADS) * blocks * unroll) + 1;
    Ok((blocks as u32, steps * 4))
}

/// A tensor in the order of its memory, slowest dimension first.
fn memory_walk(tensor: &Tensor) -> StridedLoop {
    let (sizes, strides) = (tensor.sizes(), byte_strides(tensor));
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(strides[dim].abs()));
    let pick = |from: &Dims| -> Dims { order.iter().map(|&dim| from[dim]).collect() };
    StridedLoop::new(&pick(&sizes), vec![pick(&strides)])
}

/// Fills a tensor with what its numbers are made into.
fn fill(
    self_: &Tensor,
    kind: Distribution,
    made: Made,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    // A generator of the device brings a tensor of the host here.
    ensure!(
        self_.device().is_cuda(),
        Runtime,
        "Expected a '{}' device type for generator but found 'cuda'",
        self_.device().device_type
    );
    if self_.numel() == 0 {
        return Ok(self_.clone());
    }
    let dense = self_.is_non_overlapping_and_dense();
    let walk = memory_walk(self_);
    let geometry = match dense {
        true => geometry_words(1, 0..0, |_| 1, |_, _| 0),
        false => walk.geometry()?,
    };
    let held = Operands::hold(&[(self_, Access::Write)])?;
    let mut call = Call { kind, made, generator, dtype: self_.dtype(), geometry, dense };
    let device = self_.device().index;
    call.fill(device, held.at(0), self_.numel() as u64)?;
    drop(held);
    Ok(self_.clone())
}

struct Call<'a> {
    kind: Distribution,
    made: Made,
    generator: Option<&'a Generator>,
    dtype: DType,
    geometry: Vec<u32>,
    dense: bool,
}

impl Call<'_> {
    /// Fills elements; more bytes than 32 bits count are filled in halves, each with a part of the
    /// stream of its own.
    fn fill(&mut self, device: i8, to: *mut u8, n: u64) -> Result<()> {
        let value = if self.dtype == DType::Float64 { DType::Float64 } else { DType::Float32 };
        let unroll = match (self.kind, value) {
            (Distribution::Integer32, _) => 4,
            (Distribution::Integer64, _) | (_, DType::Float64) => 2,
            _ => 4,
        };
        let (blocks, increment) = policy(device, n, unroll)?;
        let state = reserve(device, self.generator, increment)?;
        if n * self.dtype.itemsize() as u64 > i32::MAX as u64 {
            let half = n / 2;
            self.fill(device, to, half)?;
            let rest = to.wrapping_add(half as usize * self.dtype.itemsize());
            return self.fill(device, rest, n - half);
        }
        let (mut n, mut to, mut dense) = (n, to, u32::from(self.dense));
        let (mut seed, mut offset, mut made) = (state.seed, state.offset, self.made);
        let geometry = self.geometry.as_mut_slice();
        let mut parameters = [
            (&raw mut n).cast(),
            (&raw mut to).cast(),
            geometry.as_mut_ptr().cast(),
            (&raw mut dense).cast(),
            (&raw mut seed).cast(),
            (&raw mut offset).cast(),
            (&raw mut made).cast(),
        ];
        let arguments = [
            Argument::Storage(self.dtype),
            Argument::Value(value),
            Argument::Number(self.kind as u32),
        ];
        let shape = Shape { grid: [blocks, 1, 1], block: [THREADS, 1, 1], shared: 0 };
        // SAFETY: the tensor is held, and has `n` elements side by side or in the walk's places.
        unsafe { DRAW.launch(&arguments, shape, Stream::current(device), &mut parameters) }
    }
}

fn floats(self_: &Tensor, name: &'static str) -> Result<()> {
    match self_.dtype().is_floating_point() && self_.itemsize() > 1 {
        true => Ok(()),
        false => Err(not_implemented_for(name, self_.dtype())),
    }
}

/// Fills with numbers from the uniform distribution over `[from, to)`.
///
/// # Errors
/// Those of the CPU's checks; for the functions below likewise.
pub fn uniform_(
    self_: &Tensor,
    from: f64,
    to: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        uniform_(&op::view_as_real(self_)?, from, to, generator)?;
        return Ok(self_.clone());
    }
    op::uniform_(&on_meta(self_)?, from, to, None)?;
    floats(self_, "check_uniform_bounds")?;
    fill(self_, Distribution::Uniform, Made { a: from, b: to, ..Made::default() }, generator)
}

/// Fills with numbers from the normal distribution.
pub fn normal_(
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    op::normal_(&on_meta(self_)?, mean, std, None)?;
    if self_.dtype().is_complex() {
        // The variance is that of both parts together.
        let parts = op::view_as_real(self_)?;
        normal_(&parts, 0.0, std / std::f64::consts::SQRT_2, generator)?;
        return match mean == 0.0 {
            true => Ok(self_.clone()),
            false => op::add__scalar(self_, mean.into(), 1.into()),
        };
    }
    floats(self_, "normal_kernel_cuda")?;
    fill(self_, Distribution::Normal, Made { a: mean, b: std, ..Made::default() }, generator)
}

/// The exclusive upper bound of `random_()`; 0 for all words of 64 bits.
fn random_range(dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::Bool => 2,
        DType::UInt8 => 1 << 8,
        DType::Int8 => 1 << 7,
        DType::Int16 => 1 << 15,
        DType::Int32 => 1 << 31,
        DType::Int64 => 1 << 63,
        DType::UInt16 => 1 << 16,
        DType::UInt32 => 1 << 32,
        DType::UInt64 => 0,
        DType::Float16 => (1 << 11) + 1,
        DType::BFloat16 => (1 << 8) + 1,
        DType::Float32 => (1 << 24) + 1,
        DType::Float64 => (1 << 53) + 1,
        _ => return None,
    })
}

/// Fills with integers over the range of the dtype.
pub fn random_(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let dtype = self_.dtype();
    let Some(range) = random_range(dtype) else {
        return Err(not_implemented_for("random_", dtype));
    };
    let kind = match dtype {
        DType::Int64 | DType::Float64 | DType::UInt64 => Distribution::Integer64,
        _ => Distribution::Integer32,
    };
    fill(self_, kind, Made { range, ..Made::default() }, generator)
}

/// The largest integer of a dtype, for a range without an end.
fn default_end(dtype: DType) -> i128 {
    match dtype {
        DType::Bool => 2,
        DType::UInt8 => 1 << 8,
        DType::Int8 => 1 << 7,
        DType::Int16 => 1 << 15,
        DType::UInt16 => 1 << 16,
        DType::Int32 => 1 << 31,
        DType::UInt32 => 1 << 32,
        DType::Int64 => 1 << 63,
        DType::UInt64 => 1 << 64,
        other => i128::from(random_range(other).unwrap_or(1)),
    }
}

/// From this range on a sample takes 64 bits.
const WIDE_RANGE: u64 = 1 << 28;

/// Fills with integers from `[from, to)`; without `to`, up to the largest of the dtype.
pub fn random_from_(
    self_: &Tensor,
    from: i64,
    to: Option<i64>,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    op::random__from(&on_meta(self_)?, from, to, None)?;
    let dtype = self_.dtype();
    if random_range(dtype).is_none() {
        bail!(
            Runtime,
            "check_random_bounds handles only integral, floating-point and boolean types"
        );
    }
    let end = to.map_or(default_end(dtype), i128::from);
    // All words where the range has no number of 64 bits.
    let range = match to.is_none() && from == i64::MIN {
        true => 0,
        false => (end - i128::from(from)) as u64,
    };
    let base = if range == 0 { 0 } else { from };
    let kind = match (1..WIDE_RANGE).contains(&range) {
        true => Distribution::Integer32,
        false => Distribution::Integer64,
    };
    fill(self_, kind, Made { range, base, ..Made::default() }, generator)
}

/// Fills with integers from `[0, to)`.
pub fn random_to_(self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<Tensor> {
    random_from_(self_, 0, Some(to), generator)
}

/// Fills with ones of probability `p` and zeros.
pub fn bernoulli_float_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    op::bernoulli__float(&on_meta(self_)?, p, None)?;
    if self_.dtype().is_complex() {
        return Err(not_implemented_for("bernoulli_scalar_cuda_", self_.dtype()));
    }
    fill(self_, Distribution::Bernoulli, Made { a: p, ..Made::default() }, generator)
}

/// Fills with ones, each with the probability that `p` gives, and zeros.
pub fn bernoulli_tensor_(
    self_: &Tensor,
    p: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let p = match p.device() == self_.device() {
        true => p.clone(),
        false => op::to_device(p, self_.device(), p.dtype(), false, false, None)?,
    };
    op::bernoulli__tensor(&on_meta(self_)?, &on_meta(&p)?, None)?;
    floats(&p, "bernoulli_tensor_cuda_p_")?;
    if self_.numel() == 0 {
        return Ok(self_.clone());
    }
    let expanded = op::expand(&p, &self_.sizes(), false)?;
    // Probabilities that lie where the results go are read from a copy.
    let p = if self_.is_alias_of(&p) { op::clone(&expanded, None)? } else { expanded };
    let walk = StridedLoop::new(&self_.sizes(), vec![byte_strides(self_), byte_strides(&p)]);
    let mut geometry = walk.geometry()?;
    let held = Operands::hold(&[(self_, Access::Write), (&p, Access::Read)])?;
    let mut at = [held.at(0), held.at(1)];
    let stream = Stream::current(self_.device().index);
    let state = reserve(stream.device(), generator, 10)?;
    let mut n = self_.numel() as u32;
    let (mut seed, mut offset) = (state.seed, state.offset);
    let mut report = failure::address(stream.device())?;
    let walked = geometry.as_mut_slice();
    let mut parameters = [
        (&raw mut n).cast(),
        (&raw mut at).cast(),
        walked.as_mut_ptr().cast(),
        (&raw mut seed).cast(),
        (&raw mut offset).cast(),
        (&raw mut report).cast(),
    ];
    let arguments = [Argument::Storage(self_.dtype()), Argument::Storage(p.dtype())];
    let shape = Shape::over(self_.numel().div_euclid(4) + 1);
    // SAFETY: the operands are held, and walked at their own strides.
    unsafe { BERNOULLI_OF.launch(&arguments, shape, stream, &mut parameters)? };
    drop(held);
    Ok(self_.clone())
}

/// Fills with numbers from the exponential distribution of rate `lambd`.
pub fn exponential_(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<Tensor> {
    op::exponential_(&on_meta(self_)?, lambd, None)?;
    ensure!(
        self_.numel() == 0 || self_.dtype().is_floating_point(),
        Runtime,
        "Exponential distribution is a continuous probability distribution. dtype must be a \
         floating point but you specified {}",
        self_.dtype().type_name()
    );
    fill(self_, Distribution::Exponential, Made { a: lambd, ..Made::default() }, generator)
}

/// Fills with the number of trials until the first success.
pub fn geometric_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    op::geometric_(&on_meta(self_)?, p, None)?;
    if self_.dtype() == DType::Bool || self_.dtype().is_complex() {
        return Err(not_implemented_for("geometric_cuda", self_.dtype()));
    }
    fill(self_, Distribution::Geometric, Made { a: p, ..Made::default() }, generator)
}

/// Fills with numbers from the Cauchy distribution.
pub fn cauchy_(
    self_: &Tensor,
    median: f64,
    sigma: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    op::cauchy_(&on_meta(self_)?, median, sigma, None)?;
    floats(self_, "cauchy_cuda")?;
    fill(self_, Distribution::Cauchy, Made { a: median, b: sigma, ..Made::default() }, generator)
}

/// Fills with numbers whose logarithm is normally distributed.
pub fn log_normal_(
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    op::log_normal_(&on_meta(self_)?, mean, std, None)?;
    floats(self_, "log_normal_cuda")?;
    fill(self_, Distribution::LogNormal, Made { a: mean, b: std, ..Made::default() }, generator)
}

/// Indices sampled from each row of weights.
pub fn multinomial(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let planned = op::multinomial(&on_meta(self_)?, num_samples, replacement, None)?;
    let sizes = planned.sizes();
    if planned.numel() == 0 {
        return empty(&sizes, DType::Int64, self_);
    }
    validate(self_)?;
    let weights = contiguous(self_)?;
    if !replacement || num_samples == 1 {
        // The race of exponential clocks: the first ones to ring are the sample.
        let clocks = empty(&weights.sizes(), weights.dtype(), &weights)?;
        exponential_(&clocks, 1.0, generator)?;
        let ratios = op::div_tensor(&weights, &clocks)?;
        return Ok(op::topk(&ratios, num_samples, -1, true, true)?.1);
    }
    let wide = if weights.dtype() == DType::Float64 { DType::Float64 } else { DType::Float32 };
    let sums = op::cumsum(&weights, -1, Some(wide))?;
    let out = empty(&sizes, DType::Int64, self_)?;
    let held = Operands::hold(&[(&out, Access::Write), (&sums, Access::Read)])?;
    let (mut to, mut from) = (held.at(0), held.at(1));
    let (mut categories, mut samples) = (weights.size(-1)? as u64, num_samples as u64);
    let mut rows = weights.numel() as u64 / categories.max(1);
    let stream = Stream::current(self_.device().index);
    let (blocks, increment) = policy(stream.device(), rows * samples, 1)?;
    let state = reserve(stream.device(), generator, increment)?;
    let (mut seed, mut offset) = (state.seed, state.offset);
    let shape = Shape { grid: [blocks, 1, 1], block: [THREADS, 1, 1], shared: 0 };
    let parameters = parameters!(to, from, rows, categories, samples, seed, offset);
    // SAFETY: both are contiguous and held; a row has as many sums as there are categories.
    unsafe { SAMPLE_ROWS.launch(&[Argument::Value(wide)], shape, stream, parameters)? };
    drop(held);
    Ok(out)
}

/// Refuses weights that are no distribution.
fn validate(weights: &Tensor) -> Result<()> {
    if is_capturing(weights.device().index) {
        // The host cannot look at what is computed later.
        return Ok(());
    }
    let fits = op::logical_and(&op::ge_scalar(weights, 0.into())?, &op::isfinite(weights)?)?;
    ensure!(
        op::item(&op::all(&fits)?)?.to_bool(),
        Runtime,
        "probability tensor contains either `inf`, `nan` or element < 0"
    );
    let sums = op::sum_dim_intlist(weights, Some(&[-1]), false, None)?;
    ensure!(
        op::item(&op::all(&op::gt_scalar(&sums, 0.into())?)?)?.to_bool(),
        Runtime,
        "invalid multinomial distribution (sum of probabilities <= 0)"
    );
    Ok(())
}

/// [`multinomial`] into `out`.
pub fn multinomial_out(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
    out: &Tensor,
) -> Result<Tensor> {
    ensure!(
        out.dtype() == DType::Int64,
        Runtime,
        "multinomial expects Long tensor out, got: {}",
        out.dtype().type_name()
    );
    derived::write_out(out, &multinomial(self_, num_samples, replacement, generator)?)
}

/// Numbers from the Poisson distribution, the rate given by element; a rate that is negative or no number is
/// reported later.
pub fn poisson(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    floats(self_, "poisson_cuda")?;
    let state = reserve(self_.device().index, generator, OFFSETS)?;
    sample(std::slice::from_ref(self_), Sampled::Poisson, state)
}

/// Successes among `count` trials of probability `prob`.
pub fn binomial(count: &Tensor, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    for (name, tensor) in [("count", count), ("prob", prob)] {
        ensure!(
            tensor.dtype().is_floating_point(),
            Value,
            "binomial only supports floating-point dtypes for {name}, got: {}",
            tensor.dtype().type_name()
        );
    }
    ensure!(
        count.dtype() == prob.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        count.dtype().type_name(),
        prob.dtype().type_name()
    );
    single_or_double(count, "binomial_cuda")?;
    let both = op::broadcast_tensors(&[count.clone(), prob.clone()])?;
    sample(&both, Sampled::Binomial, reserve(count.device().index, generator, OFFSETS)?)
}

/// Numbers from the gamma distribution of rate 1; never less than the dtype's smallest.
pub fn standard_gamma(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    floats(self_, "gamma_cuda")?;
    let state = reserve(self_.device().index, generator, OFFSETS)?;
    sample(std::slice::from_ref(self_), Sampled::Gamma, state)
}

/// How gamma samples grow with their concentration at a fixed quantile.
pub fn standard_gamma_grad(self_: &Tensor, output: &Tensor) -> Result<Tensor> {
    single_or_double(self_, "_standard_gamma_grad_cuda")?;
    single_or_double(output, "_standard_gamma_grad_cuda")?;
    let output = op::to_dtype(output, self_.dtype(), false, false, None)?;
    gamma_slopes(self_, &output)
}

/// Points of the simplex: gamma samples over their sum, inside of the open interval (0, 1).
pub fn sample_dirichlet(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let dtype = self_.dtype();
    single_or_double(self_, "dirichlet")?;
    let wide = op::to_dtype(self_, DType::Float64, false, false, None)?;
    let state = reserve(self_.device().index, generator, OFFSETS)?;
    let gammas = sample(&[wide], Sampled::Gamma, state)?;
    let sums = op::sum_dim_intlist(&gammas, Some(&[-1]), true, None)?;
    let shares = op::to_dtype(&op::div_tensor(&gammas, &sums)?, dtype, false, false, None)?;
    let unit = if dtype == DType::Float64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let (least, most) = (Scalar::Float(smallest_normal(dtype)), Scalar::Float(1.0 - unit / 2.0));
    op::clamp(&shares, Some(least), Some(most))
}

/// How coordinates grow with their concentration at a fixed quantile, over `1 - x`.
pub fn dirichlet_grad(x: &Tensor, alpha: &Tensor, total: &Tensor) -> Result<Tensor> {
    for tensor in [x, alpha, total] {
        single_or_double(tensor, "_dirichlet_grad_cuda")?;
    }
    beta_slopes(x, alpha, total)
}
