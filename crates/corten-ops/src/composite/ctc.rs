//! Connectionist temporal classification from its parts.

use super::support::Reduction;
use crate::{Tensor, op};
use corten_core::{Result, Scalar};

/// Minus the log likelihood of label sequences, summed over their alignments.
///
/// # Errors
/// `Runtime` for operands that do not fit.
pub fn ctc_loss_intlist(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    reduction: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let single = log_probs.dim() == 2;
    let batch = |tensor: &Tensor, dim: i64| match single {
        true => op::unsqueeze(tensor, dim),
        false => Ok(tensor.clone()),
    };
    let (log_probs, targets) = (batch(log_probs, 1)?, batch(targets, 0)?);
    let (loss, _) =
        op::_ctc_loss(&log_probs, &targets, input_lengths, target_lengths, blank, zero_infinity)?;
    let loss = match zero_infinity {
        true => {
            let infinite = op::eq_scalar(&loss, Scalar::Float(f64::INFINITY))?;
            op::masked_fill_scalar(&loss, &infinite, Scalar::Int(0))?
        }
        false => loss,
    };
    match Reduction::of(reduction) {
        Reduction::Mean => {
            let lengths: Vec<i64> = target_lengths.iter().map(|&length| length.max(1)).collect();
            let lengths = Tensor::from_slice(&lengths, &[lengths.len() as i64])?;
            let lengths = op::to_device(&lengths, loss.device(), loss.dtype(), false, false, None)?;
            op::mean(&op::div_tensor(&loss, &lengths)?, None)
        }
        Reduction::Sum => op::sum(&loss, None),
        Reduction::None if single => op::squeeze_dim(&loss, 0),
        Reduction::None => Ok(loss),
    }
}

/// [`ctc_loss_intlist`] with lengths as tensors.
///
/// # Errors
/// As for `ctc_loss_intlist`; `Runtime` for lengths that are no integers.
pub fn ctc_loss_tensor(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    blank: i64,
    reduction: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    for (name, lengths) in [("input_lengths", input_lengths), ("target_lengths", target_lengths)] {
        corten_core::ensure!(
            lengths.dtype().is_integral(false),
            Runtime,
            "{name} must be integral"
        );
    }
    let (inputs, targets_) = (input_lengths.to_vec::<i64>()?, target_lengths.to_vec::<i64>()?);
    op::ctc_loss_intlist(log_probs, targets, &inputs, &targets_, blank, reduction, zero_infinity)
}
