//! Losses as modules.

use crate::distance::PairwiseDistance;
use crate::loss::{self, Reduction};
use crate::module::{Buffer, Module};
use corten_core::{Result, ensure, warn};
use corten_ops::{Tensor, op};
use std::sync::Arc;

/// A loss: its options, and its value for the arguments of `forward`.
macro_rules! loss {
    (
        $(#[$attribute:meta])*
        $name:ident, $options:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr),* $(,)? }
        $([$($weight:ident),+])?,
        ($($argument:ident),+), |$this:ident| $call:expr;
        $($example:literal)+
    ) => {
        #[doc = concat!("Options of [`", stringify!($name), "`].")]
        #[doc = concat!("\n```\nlet options = corten::nn::", stringify!($options), "::default();\n",
            "assert_eq!(options.reduction, corten::nn::Reduction::Mean);\n```")]
        #[derive(Clone)]
        pub struct $options {
            /// What becomes of the losses of the samples.
            pub reduction: Reduction,
            $($(#[$field_doc])* pub $field: $type,)*
            $($(
                /// Weights, in a shape that broadcasts.
                pub $weight: Option<Tensor>,
            )+)?
        }

        impl Default for $options {
            fn default() -> Self {
                Self { reduction: Reduction::Mean, $($field: $default,)* $($($weight: None,)+)? }
            }
        }

        #[derive(Module)]
        $(#[$attribute])*
        #[doc = example!($($example)+)]
        pub struct $name {
            $($(
                /// Weights.
                pub $weight: Option<Buffer>,
            )+)?
            #[module(skip)]
            options: $options,
        }

        impl $name {
            /// The mean, with PyTorch's settings.
            pub fn new() -> Self {
                Self::with($options::default())
            }

            /// With options.
            pub fn with(options: $options) -> Self {
                Self { $($($weight: options.$weight.clone().map(Buffer::new),)+)? options }
            }

            /// The loss.
            ///
            /// # Errors
            /// Those of the operators: mostly shapes that do not fit.
            pub fn forward(&self, $($argument: &Tensor),+) -> Result<Tensor> {
                let $this = self;
                $call
            }

            /// What becomes of the losses of the samples.
            pub fn reduction(&self) -> Reduction {
                self.options.reduction
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

/// Inputs of other sizes are broadcast, which is mostly a mistake.
fn warn_of_sizes(input: &Tensor, target: &Tensor) {
    if input.sizes() != target.sizes() {
        warn(format!(
            "Using a target size (torch.Size({:?})) that is different to the input size (torch.Size({:?})). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            target.sizes().as_slice(),
            input.sizes().as_slice()
        ));
    }
}

loss!(
    /// `|input - target|`.
    L1Loss, L1LossOptions {}, (input, target), |this| {
        warn_of_sizes(input, target);
        op::l1_loss(input, target, this.reduction().number())
    };
    "let (x, y) = (op::ones(&[2], None, None, None, None)?, op::zeros(&[2], None, None, None, None)?);
assert_eq!(L1Loss::new().forward(&x, &y)?.to_element::<f32>()?, 1.0);"
);
loss!(
    /// `(input - target)²`.
    #[module(name = "MSELoss")]
    MseLoss, MseLossOptions {}, (input, target), |this| {
        warn_of_sizes(input, target);
        op::mse_loss(input, target, this.reduction().number())
    };
    "let (x, y) = (op::ones(&[2], None, None, None, None)?, op::zeros(&[2], None, None, None, None)?);
assert_eq!(MseLoss::new().forward(&x, &y)?.to_element::<f32>()?, 1.0);"
);
loss!(
    /// Squared below `beta`, absolute above.
    SmoothL1Loss, SmoothL1LossOptions {
        /// Where the absolute part begins.
        beta: f64 = 1.0,
    }, (input, target), |this| {
        warn_of_sizes(input, target);
        loss::smooth_l1_loss(input, target, this.options.beta, this.reduction())
    };
    "let (x, y) = (op::ones(&[2], None, None, None, None)?, op::zeros(&[2], None, None, None, None)?);
assert_eq!(SmoothL1Loss::new().forward(&x, &y)?.to_element::<f32>()?, 0.5);"
);
loss!(
    /// `delta` times [`SmoothL1Loss`] with `beta = delta`.
    HuberLoss, HuberLossOptions {
        /// Where the absolute part begins.
        delta: f64 = 1.0,
    }, (input, target), |this| {
        warn_of_sizes(input, target);
        op::huber_loss(input, target, this.reduction().number(), this.options.delta)
    };
    "let (x, y) = (op::ones(&[2], None, None, None, None)?, op::zeros(&[2], None, None, None, None)?);
assert_eq!(HuberLoss::new().forward(&x, &y)?.to_element::<f32>()?, 0.5);"
);
loss!(
    /// Minus the log-probability of each target class.
    #[module(name = "NLLLoss")]
    NllLoss, NllLossOptions {
        /// Targets that do not count.
        ignore_index: i64 = -100,
    } [weight], (input, target), |this| {
        let ignored = this.options.ignore_index;
        op::nll_loss_nd(input, target, this.weight.as_deref(), this.reduction().number(), ignored)
    };
    "let log_probs = op::zeros(&[2, 3], None, None, None, None)?;
let target = Tensor::from_vec(vec![0i64, 2], &[2])?;
assert_eq!(NllLoss::new().forward(&log_probs, &target)?.to_element::<f32>()?, 0.0);"
);
loss!(
    /// Cross entropy of logits with classes or class probabilities.
    CrossEntropyLoss, CrossEntropyLossOptions {
        /// Targets that do not count.
        ignore_index: i64 = -100,
        /// How much of the target is spread over all classes.
        label_smoothing: f64 = 0.0,
    } [weight], (input, target), |this| {
        let CrossEntropyLossOptions { ignore_index, label_smoothing, .. } = this.options;
        let weight = this.weight.as_deref();
        op::cross_entropy_loss(input, target, weight, this.reduction().number(), ignore_index, label_smoothing)
    };
    "let logits = op::zeros(&[2, 3], None, None, None, None)?;
let target = Tensor::from_vec(vec![0i64, 2], &[2])?;
let loss = CrossEntropyLoss::new().forward(&logits, &target)?.to_element::<f32>()?;
assert!((loss - 3f32.ln()).abs() < 1e-6);"
);
loss!(
    /// Negative log-likelihood of a Poisson distribution.
    #[module(name = "PoissonNLLLoss")]
    PoissonNllLoss, PoissonNllLossOptions {
        /// Whether the input is the logarithm of the mean.
        log_input: bool = true,
        /// Whether Stirling's approximation of the constant term is added.
        full: bool = false,
        /// Added to means whose logarithm is taken.
        eps: f64 = 1e-8,
    }, (input, target), |this| {
        let PoissonNllLossOptions { log_input, full, eps, .. } = this.options;
        op::poisson_nll_loss(input, target, log_input, full, eps, this.reduction().number())
    };
    "let x = op::zeros(&[2], None, None, None, None)?;
assert_eq!(PoissonNllLoss::new().forward(&x, &x)?.to_element::<f32>()?, 1.0);"
);
loss!(
    /// Negative log-likelihood of a normal distribution of given variances.
    #[module(name = "GaussianNLLLoss")]
    GaussianNllLoss, GaussianNllLossOptions {
        /// Whether the constant term is added.
        full: bool = false,
        /// The least variance.
        eps: f64 = 1e-6,
    }, (input, target, var), |this| {
        let GaussianNllLossOptions { full, eps, reduction } = this.options;
        loss::gaussian_nll_loss(input, target, var, full, eps, reduction)
    };
    "let x = op::ones(&[2], None, None, None, None)?;
assert_eq!(GaussianNllLoss::new().forward(&x, &x, &x)?.to_element::<f32>()?, 0.0);"
);
loss!(
    /// Kullback–Leibler divergence from log-probabilities.
    #[module(name = "KLDivLoss")]
    KlDivLoss, KlDivLossOptions {
        /// Whether the target is given as log-probabilities.
        log_target: bool = false,
        /// Whether the sum is divided by the size of the batch, `reduction="batchmean"`.
        batchmean: bool = false,
    }, (input, target), |this| {
        let KlDivLossOptions { log_target, batchmean, reduction } = this.options;
        if batchmean {
            return loss::kl_div_batchmean(input, target, log_target);
        }
        op::kl_div(input, target, reduction.number(), log_target)
    };
    "let x = op::zeros(&[1, 1], None, None, None, None)?;
let y = op::ones(&[1, 1], None, None, None, None)?;
assert_eq!(KlDivLoss::new().forward(&x, &y)?.to_element::<f32>()?, 0.0);"
);
loss!(
    /// Cross entropy of probabilities with targets in [0, 1].
    #[module(name = "BCELoss")]
    BceLoss, BceLossOptions {} [weight], (input, target), |this| {
        ensure!(
            target.sizes() == input.sizes(),
            Value,
            "Using a target size (torch.Size({:?})) that is different to the input size (torch.Size({:?})) is deprecated. Please ensure they have the same size.",
            target.sizes().as_slice(),
            input.sizes().as_slice()
        );
        op::binary_cross_entropy(input, target, this.weight.as_deref(), this.reduction().number())
    };
    "let x = op::ones(&[2], None, None, None, None)?;
assert_eq!(BceLoss::new().forward(&x, &x)?.to_element::<f32>()?, 0.0);"
);
loss!(
    /// [`BceLoss`] of `sigmoid(input)`, computed stably.
    #[module(name = "BCEWithLogitsLoss")]
    BceWithLogitsLoss, BceWithLogitsLossOptions {} [weight, pos_weight], (input, target), |this| {
        ensure!(
            target.sizes() == input.sizes(),
            Value,
            "Target size (torch.Size({:?})) must be the same as input size (torch.Size({:?}))",
            target.sizes().as_slice(),
            input.sizes().as_slice()
        );
        let (weight, positive) = (this.weight.as_deref(), this.pos_weight.as_deref());
        op::binary_cross_entropy_with_logits(input, target, weight, positive, this.reduction().number())
    };
    "let (x, y) = (op::zeros(&[2], None, None, None, None)?, op::ones(&[2], None, None, None, None)?);
let loss = BceWithLogitsLoss::new().forward(&x, &y)?.to_element::<f32>()?;
assert!((loss - 2f32.ln()).abs() < 1e-6);"
);
loss!(
    /// Small distances for targets 1, distances of at least `margin` for targets −1.
    HingeEmbeddingLoss, HingeEmbeddingLossOptions {
        /// The distance.
        margin: f64 = 1.0,
    }, (input, target), |this| {
        op::hinge_embedding_loss(input, target, this.options.margin, this.reduction().number())
    };
    "let x = op::ones(&[2], None, None, None, None)?;
assert_eq!(HingeEmbeddingLoss::new().forward(&x, &x)?.to_element::<f32>()?, 1.0);"
);
loss!(
    /// Small angles for targets 1, cosines of at most `margin` for targets −1.
    CosineEmbeddingLoss, CosineEmbeddingLossOptions {
        /// The cosine.
        margin: f64 = 0.0,
    }, (input1, input2, target), |this| {
        op::cosine_embedding_loss(input1, input2, target, this.options.margin, this.reduction().number())
    };
    "let x = op::ones(&[1, 2], None, None, None, None)?;
let target = op::ones(&[1], None, None, None, None)?;
assert!(CosineEmbeddingLoss::new().forward(&x, &x, &target)?.to_element::<f32>()?.abs() < 1e-6);"
);
loss!(
    /// `max(0, -target * (input1 - input2) + margin)`.
    MarginRankingLoss, MarginRankingLossOptions {
        /// The margin.
        margin: f64 = 0.0,
    }, (input1, input2, target), |this| {
        let (first, second) = (input1.sizes(), input2.sizes());
        ensure!(
            first.len() == second.len() && first.len() == target.dim(),
            Runtime,
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: torch.Size({:?}), input2: torch.Size({:?}), target: torch.Size({:?}) ",
            first.as_slice(),
            second.as_slice(),
            target.sizes().as_slice()
        );
        op::margin_ranking_loss(input1, input2, target, this.options.margin, this.reduction().number())
    };
    "let (x, y) = (op::ones(&[2], None, None, None, None)?, op::zeros(&[2], None, None, None, None)?);
assert_eq!(MarginRankingLoss::new().forward(&x, &y, &x)?.to_element::<f32>()?, 0.0);"
);
loss!(
    /// `log(1 + exp(-target * input))`.
    SoftMarginLoss, SoftMarginLossOptions {}, (input, target), |this| {
        op::soft_margin_loss(input, target, this.reduction().number())
    };
    "let x = op::zeros(&[2], None, None, None, None)?;
assert!(SoftMarginLoss::new().forward(&x, &x)?.to_element::<f32>()? > 0.69);"
);
loss!(
    /// Margin of each wrong class behind each right one; targets are lists of classes ended by −1.
    MultiLabelMarginLoss, MultiLabelMarginLossOptions {}, (input, target), |this| {
        op::multilabel_margin_loss(input, target, this.reduction().number())
    };
    "let x = op::zeros(&[1, 3], None, None, None, None)?;
let target = Tensor::from_vec(vec![0i64, -1, -1], &[1, 3])?;
assert!(MultiLabelMarginLoss::new().forward(&x, &target)?.to_element::<f32>()? > 0.6);"
);
loss!(
    /// Mean logistic loss over the classes.
    MultiLabelSoftMarginLoss, MultiLabelSoftMarginLossOptions {} [weight], (input, target), |this| {
        let weight = this.weight.as_deref();
        loss::multilabel_soft_margin_loss(input, target, weight, this.reduction())
    };
    "let x = op::zeros(&[1, 3], None, None, None, None)?;
assert!(MultiLabelSoftMarginLoss::new().forward(&x, &x)?.to_element::<f32>()? > 0.69);"
);
loss!(
    /// Margin of each wrong class behind the right one.
    MultiMarginLoss, MultiMarginLossOptions {
        /// The exponent, 1 or 2.
        p: i64 = 1,
        /// The margin.
        margin: f64 = 1.0,
    } [weight], (input, target), |this| {
        let MultiMarginLossOptions { p, margin, .. } = this.options;
        ensure!(p == 1 || p == 2, Value, "only p == 1 and p == 2 supported");
        let weight = this.weight.as_deref();
        let is_vector = weight.is_none_or(|weight| weight.dim() == 1);
        ensure!(is_vector, Value, "weight must be one-dimensional");
        op::multi_margin_loss(input, target, p.into(), margin.into(), weight, this.reduction().number())
    };
    "let x = op::zeros(&[1, 2], None, None, None, None)?;
let target = Tensor::from_vec(vec![0i64], &[1])?;
assert_eq!(MultiMarginLoss::new().forward(&x, &target)?.to_element::<f32>()?, 0.5);"
);
loss!(
    /// The positive nearer to the anchor than the negative, by `margin`.
    TripletMarginLoss, TripletMarginLossOptions {
        /// The margin.
        margin: f64 = 1.0,
        /// The norm of the distance.
        p: f64 = 2.0,
        /// Added to every difference.
        eps: f64 = 1e-6,
        /// Whether the negative's distance from the positive counts where it is less.
        swap: bool = false,
    }, (anchor, positive, negative), |this| {
        let TripletMarginLossOptions { margin, p, eps, swap, .. } = this.options;
        ensure!(
            margin > 0.0,
            Value,
            "TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"
        );
        op::triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, this.reduction().number())
    };
    "let x = op::ones(&[1, 2], None, None, None, None)?;
assert_eq!(TripletMarginLoss::new().forward(&x, &x, &x)?.to_element::<f32>()?, 1.0);"
);

/// A distance of vectors along the last dimension.
pub type Distance = Arc<dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync>;

/// Options of [`TripletMarginWithDistanceLoss`].
///
/// ```
/// assert!(corten::nn::TripletMarginWithDistanceLossOptions::default().distance_function.is_none());
/// ```
#[derive(Clone)]
pub struct TripletMarginWithDistanceLossOptions {
    /// What becomes of the losses of the samples.
    pub reduction: Reduction,
    /// The distance; the Euclidean one if absent.
    pub distance_function: Option<Distance>,
    /// The margin.
    pub margin: f64,
    /// Whether the negative's distance from the positive counts where it is less.
    pub swap: bool,
}

impl Default for TripletMarginWithDistanceLossOptions {
    fn default() -> Self {
        let reduction = Reduction::Mean;
        Self { reduction, distance_function: None, margin: 1.0, swap: false }
    }
}

/// [`TripletMarginLoss`] with any distance.
#[doc = example!("let x = op::ones(&[1, 2], None, None, None, None)?;
assert_eq!(TripletMarginWithDistanceLoss::new().forward(&x, &x, &x)?.to_element::<f32>()?, 1.0);")]
#[derive(Module)]
pub struct TripletMarginWithDistanceLoss {
    distance_function: Option<PairwiseDistance>,
    #[module(skip)]
    options: TripletMarginWithDistanceLossOptions,
}

impl TripletMarginWithDistanceLoss {
    /// The mean, with PyTorch's settings.
    pub fn new() -> Self {
        Self::with(TripletMarginWithDistanceLossOptions::default())
    }

    /// With options.
    pub fn with(options: TripletMarginWithDistanceLossOptions) -> Self {
        let is_default = options.distance_function.is_none();
        Self { distance_function: is_default.then(PairwiseDistance::new), options }
    }

    /// The loss.
    ///
    /// # Errors
    /// `Value` for a margin that is not positive, `Runtime` for inputs of different ranks.
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        let TripletMarginWithDistanceLossOptions { reduction, margin, swap, .. } = self.options;
        let euclidean = PairwiseDistance::new();
        let default = |a: &Tensor, b: &Tensor| euclidean.forward(a, b);
        let distance: &dyn Fn(&Tensor, &Tensor) -> Result<Tensor> =
            match &self.options.distance_function {
                Some(distance) => &**distance,
                None => &default,
            };
        let inputs = [anchor, positive, negative];
        loss::triplet_margin_with_distance_loss(inputs, distance, margin, swap, reduction)
    }
}

impl Default for TripletMarginWithDistanceLoss {
    fn default() -> Self {
        Self::new()
    }
}

/// Options of [`CtcLoss`].
///
/// ```
/// assert_eq!(corten::nn::CtcLossOptions::default().blank, 0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CtcLossOptions {
    /// The class that stands between labels.
    pub blank: i64,
    /// What becomes of the losses of the samples.
    pub reduction: Reduction,
    /// Whether infinite losses become zero: inputs too short for their targets.
    pub zero_infinity: bool,
}

/// Connectionist temporal classification: minus the log-probability of all alignments.
#[doc = example!("let log_probs = op::randn(&[5, 1, 3], None, None, None, None)?.log_softmax(2)?;
let length = |n: i64| Tensor::from_vec(vec![n], &[1]);
let target = Tensor::from_vec(vec![1i64, 2], &[1, 2])?;
let loss = CtcLoss::new().forward(&log_probs, &target, &length(5)?, &length(2)?)?;
assert!(loss.to_element::<f32>()? > 0.0);")]
#[derive(Clone, Copy, Default, Module)]
#[module(name = "CTCLoss")]
pub struct CtcLoss {
    #[module(skip)]
    options: CtcLossOptions,
}

impl CtcLoss {
    /// The mean, with the blank as class 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// With options.
    pub fn with(options: CtcLossOptions) -> Self {
        Self { options }
    }

    /// The loss of (time, batch, class) log-probabilities.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn forward(
        &self,
        log_probs: &Tensor,
        targets: &Tensor,
        input_lengths: &Tensor,
        target_lengths: &Tensor,
    ) -> Result<Tensor> {
        let CtcLossOptions { blank, reduction, zero_infinity } = self.options;
        op::ctc_loss_tensor(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank,
            reduction.number(),
            zero_infinity,
        )
    }
}
