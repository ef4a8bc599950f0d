//! Connectionist temporal classification.

use crate::failure;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result};
use corten_ops::{Tensor, op};

static BEGINNINGS: Template = Template { name: "ctc_beginnings", text: &[text::CTC] };
static ENDS: Template = Template { name: "ctc_ends", text: &[text::CTC] };
static SLOPES: Template = Template { name: "ctc_slopes", text: &[text::CTC] };

/// Samples of a launch: their lengths are parameters.
const SAMPLES: usize = 128;

/// `Ctc` of `ctc.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Ctc {
    steps: i64,
    samples: i64,
    classes: i64,
    states: i64,
    blank: i64,
    first: i64,
    zero_infinity: u32,
    lengths: [u32; SAMPLES],
    labels: [u32; SAMPLES],
    starts: [i64; SAMPLES],
}

/// The checked arguments.
struct Problem<'a> {
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: &'a [i64],
    target_lengths: &'a [i64],
    states: i64,
    blank: i64,
    zero_infinity: bool,
}

impl<'a> Problem<'a> {
    fn of(
        log_probs: &Tensor,
        targets: &Tensor,
        [input_lengths, target_lengths]: [&'a [i64]; 2],
        blank: i64,
        zero_infinity: bool,
    ) -> Result<Self> {
        let longest = target_lengths.iter().copied().max().unwrap_or(0);
        let targets = op::to_device(targets, log_probs.device(), DType::Int64, false, false, None)?;
        Ok(Self {
            log_probs: contiguous(log_probs)?,
            targets: contiguous(&targets)?,
            input_lengths,
            target_lengths,
            states: 2 * longest + 1,
            blank,
            zero_infinity,
        })
    }

    fn arguments(&self) -> [Argument; 2] {
        [Argument::Storage(self.log_probs.dtype()), Argument::Value(self.log_probs.dtype())]
    }

    /// Some samples at a time, and how many they are.
    fn parts(&self) -> Result<Vec<(Ctc, u32)>> {
        let sizes = self.log_probs.sizes();
        let width = if self.targets.dim() > 1 { Some(self.targets.size(1)?) } else { None };
        let (mut parts, mut start) = (Vec::new(), 0);
        for first in (0..self.input_lengths.len()).step_by(SAMPLES) {
            let count = SAMPLES.min(self.input_lengths.len() - first);
            let mut part = Ctc {
                steps: sizes[0],
                samples: sizes[1],
                classes: sizes[2],
                states: self.states,
                blank: self.blank,
                first: first as i64,
                zero_infinity: u32::from(self.zero_infinity),
                lengths: [0; SAMPLES],
                labels: [0; SAMPLES],
                starts: [0; SAMPLES],
            };
            for own in 0..count {
                let sample = first + own;
                part.lengths[own] = self.input_lengths[sample] as u32;
                part.labels[own] = self.target_lengths[sample] as u32;
                part.starts[own] = width.map_or(start, |width| sample as i64 * width);
                start += self.target_lengths[sample];
            }
            parts.push((part, count as u32));
        }
        Ok(parts)
    }

    /// Threads of a block that has this many elements.
    fn threads(elements: i64) -> u32 {
        (elements.max(1) as u64).next_power_of_two().clamp(32, 256) as u32
    }
}

/// The losses of samples, and the logarithms of the sums over the beginnings of alignments.
///
/// # Errors
/// Those of the CPU's checks; labels that are no classes are reported at the next synchronisation.
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    zero_infinity: bool,
) -> Result<(Tensor, Tensor)> {
    let [a, b] = [log_probs, targets].map(on_meta);
    let (losses, alphas) =
        op::_ctc_loss(&a?, &b?, input_lengths, target_lengths, blank, zero_infinity)?;
    let lengths = [input_lengths, target_lengths];
    let problem = Problem::of(log_probs, targets, lengths, blank, zero_infinity)?;
    let dtype = log_probs.dtype();
    let losses = empty(&losses.sizes(), dtype, log_probs)?;
    let alphas = empty(&alphas.sizes(), dtype, log_probs)?;
    let held = Operands::hold(&[
        (&problem.log_probs, Access::Read),
        (&problem.targets, Access::Read),
        (&alphas, Access::Write),
        (&losses, Access::Write),
    ])?;
    let device = log_probs.device().index;
    let mut failed = failure::address(device)?;
    for (mut part, count) in problem.parts()? {
        let (mut from, mut labels, mut to, mut loss) =
            (held.at(0), held.at(1), held.at(2), held.at(3));
        let threads = Problem::threads(problem.states);
        let shape = Shape { grid: [count, 1, 1], block: [threads, 1, 1], shared: 0 };
        let parameters = parameters!(part, from, labels, to, loss, failed);
        // SAFETY: the tensors are contiguous and held, and have the sizes that were checked.
        unsafe {
            BEGINNINGS.launch(&problem.arguments(), shape, Stream::current(device), parameters)?;
        }
    }
    drop(held);
    Ok((losses, alphas))
}

/// The gradient of [`ctc_loss`].
///
/// # Errors
/// As for [`ctc_loss`].
pub fn ctc_loss_backward(
    grad: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    neg_log_likelihood: &Tensor,
    log_alpha: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let [a, b, c, d, e] = [grad, log_probs, targets, neg_log_likelihood, log_alpha].map(on_meta);
    op::_ctc_loss_backward(
        &a?,
        &b?,
        &c?,
        input_lengths,
        target_lengths,
        &d?,
        &e?,
        blank,
        zero_infinity,
    )?;
    let lengths = [input_lengths, target_lengths];
    let problem = Problem::of(log_probs, targets, lengths, blank, zero_infinity)?;
    let dtype = log_probs.dtype();
    let out = empty(&log_probs.sizes(), dtype, log_probs)?;
    let betas = empty(&log_alpha.sizes(), dtype, log_probs)?;
    let [grad, losses, alphas] =
        [contiguous(grad)?, contiguous(neg_log_likelihood)?, contiguous(log_alpha)?];
    let held = Operands::hold(&[
        (&problem.log_probs, Access::Read),
        (&problem.targets, Access::Read),
        (&alphas, Access::Read),
        (&betas, Access::Write),
        (&losses, Access::Read),
        (&grad, Access::Read),
        (&out, Access::Write),
    ])?;
    let device = log_probs.device().index;
    let stream = Stream::current(device);
    let (mut failed, mut single) = (failure::address(device)?, u32::from(grad.numel() == 1));
    for (mut part, count) in problem.parts()? {
        let [mut from, mut labels, mut alpha, mut beta] = [0, 1, 2, 3].map(|index| held.at(index));
        let (mut loss, mut slope, mut to) = (held.at(4), held.at(5), held.at(6));
        let threads = Problem::threads(problem.states);
        let shape = Shape { grid: [count, 1, 1], block: [threads, 1, 1], shared: 0 };
        // SAFETY: the tensors are contiguous and held, and have the sizes that were checked.
        unsafe {
            let parameters = parameters!(part, from, labels, beta, failed);
            ENDS.launch(&problem.arguments(), shape, stream, parameters)?;
            let threads = Problem::threads(problem.states.max(part.classes));
            let grid = [part.steps as u32, count, 1];
            let shape = Shape { grid, block: [threads, 1, 1], shared: 0 };
            let parameters =
                parameters!(part, from, labels, alpha, beta, loss, slope, single, to, failed);
            SLOPES.launch(&problem.arguments(), shape, stream, parameters)?;
        }
    }
    drop(held);
    Ok(out)
}
