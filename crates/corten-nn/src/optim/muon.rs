//! Muon.

use super::by_parameter::{ByParameter, ParameterState, Rule, zeros_like};
use super::checks::check_not_negative;
use super::group::settings;
use super::setting::Setting;
use corten_core::{DType, Result, ensure};
use corten_io::Value;
use corten_ops::{Tensor, op};

/// How the rate of [`Muon`] depends on the shape of a matrix.
///
/// ```
/// use corten::nn::optim::{AdjustLr, MuonOptions};
///
/// let options = MuonOptions { adjust_lr_fn: Some(AdjustLr::MatchRmsAdamW), ..Default::default() };
/// assert_eq!(options.ns_steps, 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjustLr {
    /// By the root of rows over columns, where that is above 1.
    Original,
    /// By a fifth of the root of the larger size: the rates of AdamW fit.
    MatchRmsAdamW,
    /// By the root of rows over columns.
    SpectralUnclamped,
}

impl Setting for AdjustLr {
    fn to_value(&self) -> Value {
        let name = match self {
            Self::Original => "original",
            Self::MatchRmsAdamW => "match_rms_adamw",
            Self::SpectralUnclamped => "spectral_unclamped",
        };
        Value::Text(name.to_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        let Value::Text(name) = value else { return None };
        match name.as_str() {
            "original" => Some(Self::Original),
            "match_rms_adamw" => Some(Self::MatchRmsAdamW),
            "spectral_unclamped" => Some(Self::SpectralUnclamped),
            _ => None,
        }
    }
}

settings! {
    /// Settings of [`Muon`].
    MuonOptions {
        /// Learning rate.
        lr: f64 = 1e-3,
        /// By how much of the learning rate parameters shrink.
        weight_decay: f64 = 0.1,
        /// How much of the last step is repeated.
        momentum: f64 = 0.95,
        /// Whether to look ahead by the momentum.
        nesterov: bool = true,
        /// The polynomial of the Newton–Schulz iteration.
        ns_coefficients: (f64, f64, f64) = (3.4445, -4.775, 2.0315),
        /// The least norm that an update is divided by.
        eps: f64 = 1e-7,
        /// Number of Newton–Schulz iterations.
        ns_steps: usize = 5,
        /// How the rate depends on the shape; by default as [`AdjustLr::Original`].
        adjust_lr_fn: Option<AdjustLr> = None,
    }
    momentum: momentum;
    maximize: none;
    files: {}
}

/// Momentum whose update, a matrix, is made orthogonal (Jordan and others).
#[doc = optimizer_example!("Muon", "MuonOptions")]
pub type Muon = ByParameter<MuonRule>;

/// The formula of [`Muon`].
#[doc = rule_example!("MuonRule", "Muon")]
pub struct MuonRule;

impl Rule for MuonRule {
    type Options = MuonOptions;
    const NAME: &'static str = "Muon";

    fn check(options: &MuonOptions) -> Result<()> {
        check_not_negative("momentum", options.momentum)?;
        check_not_negative("weight decay", options.weight_decay)?;
        ensure!(
            options.ns_steps < 100,
            Value,
            "Number of steps must be less than 100 for computational efficiency"
        );
        Ok(())
    }

    fn check_parameter(parameter: &Tensor) -> Result<()> {
        ensure!(
            parameter.dim() == 2,
            Value,
            "Muon only supports 2D parameters whereas we found a parameter with size: {:?}",
            parameter.sizes().as_slice()
        );
        Ok(())
    }

    fn begin(_: &Tensor, grad: &Tensor, _: &MuonOptions) -> Result<ParameterState> {
        Ok(ParameterState::of([("momentum_buffer", zeros_like(grad)?)]))
    }

    fn update(
        parameter: &Tensor,
        grad: Tensor,
        state: &mut ParameterState,
        options: &MuonOptions,
    ) -> Result<()> {
        let MuonOptions { lr, weight_decay, momentum, nesterov, .. } = *options;
        let buffer = state.tensor("momentum_buffer")?;
        op::lerp__scalar(&buffer, &grad, (1.0 - momentum).into())?;
        let update = match nesterov {
            true => op::lerp_scalar(&grad, &buffer, momentum.into())?,
            false => buffer,
        };
        let update = orthogonalized(&update, options)?;
        op::mul__scalar(parameter, (1.0 - lr * weight_decay).into())?;
        let rate = adjusted(options, parameter.size(0)?, parameter.size(1)?);
        op::add__tensor(parameter, &update, (-rate).into()).map(drop)
    }
}

/// The nearest orthogonal matrix, by Newton–Schulz iteration in bfloat16.
fn orthogonalized(matrix: &Tensor, options: &MuonOptions) -> Result<Tensor> {
    let (a, b, c) = options.ns_coefficients;
    let tall = matrix.size(0)? > matrix.size(1)?;
    let turned = |matrix: &Tensor| op::transpose_int(matrix, 0, 1);
    let mut x = op::to_dtype(matrix, DType::BFloat16, false, true, None)?;
    if tall {
        x = turned(&x)?;
    }
    let norm = op::linalg_vector_norm(&x, 2.0.into(), None, false, None)?;
    op::div__tensor(&x, &op::clamp(&norm, Some(options.eps.into()), None)?)?;
    for _ in 0..options.ns_steps {
        let gram = op::mm(&x, &turned(&x)?)?;
        let gram = op::addmm(&gram, &gram, &gram, b.into(), c.into())?;
        x = op::addmm(&x, &gram, &x, a.into(), 1.into())?;
    }
    if tall { turned(&x) } else { Ok(x) }
}

/// The rate for a matrix of this shape.
fn adjusted(options: &MuonOptions, rows: i64, columns: i64) -> f64 {
    let (rows, columns) = (rows as f64, columns as f64);
    options.lr
        * match options.adjust_lr_fn.unwrap_or(AdjustLr::Original) {
            AdjustLr::Original => (rows / columns).max(1.0).sqrt(),
            AdjustLr::SpectralUnclamped => (rows / columns).sqrt(),
            AdjustLr::MatchRmsAdamW => 0.2 * rows.max(columns).sqrt(),
        }
}
