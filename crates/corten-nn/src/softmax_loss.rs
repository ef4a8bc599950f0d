//! Losses that hold the last map of a model: linear cross entropy, and the adaptive softmax.

use crate::container::{ModuleList, Sequential};
use crate::linear::{Linear, LinearOptions};
use crate::loss::Reduction;
use crate::module::{Buffer, Forward, Module};
use crate::print::Repr;
use corten_core::{Result, bail, ensure};
use corten_ops::{Tensor, op};

/// Options of [`LinearCrossEntropyLoss`].
///
/// ```
/// assert!(!corten::nn::LinearCrossEntropyLossOptions::default().bias);
/// ```
#[derive(Clone, Default)]
pub struct LinearCrossEntropyLossOptions {
    /// Dimensions of the output behind the classes, each of which has its own map.
    pub out_features: Vec<i64>,
    /// Whether the map adds a bias.
    pub bias: bool,
    /// What becomes of the losses of the samples.
    pub reduction: Reduction,
    /// Weights of the classes.
    pub weight: Option<Tensor>,
    /// Targets that do not count.
    pub ignore_index: Option<i64>,
    /// How much of the target is spread over all classes.
    pub label_smoothing: f64,
}

/// A linear map to logits and their cross entropy, with classes or class probabilities.
#[doc = example!("let loss = LinearCrossEntropyLoss::new(4, 3)?;
let x = op::randn(&[2, 4], None, None, None, None)?;
let value = loss.forward(&x, &Tensor::from_vec(vec![0i64, 2], &[2])?)?;
assert!(value.to_element::<f32>()? > 0.0);")]
#[derive(Module)]
#[module(repr)]
pub struct LinearCrossEntropyLoss {
    /// Weights of the classes.
    pub weight: Option<Buffer>,
    /// The map.
    pub linear: Linear,
    in_features: i64,
    num_classes: i64,
    #[module(skip)]
    options: LinearCrossEntropyLossOptions,
}

impl LinearCrossEntropyLoss {
    /// A map without bias, and the mean of the losses.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(in_features: i64, num_classes: i64) -> Result<Self> {
        Self::with(in_features, num_classes, LinearCrossEntropyLossOptions::default())
    }

    /// With options.
    ///
    /// # Errors
    /// `Runtime` for weights that are not one for each class, and smoothing outside [0, 1].
    pub fn with(
        in_features: i64,
        num_classes: i64,
        options: LinearCrossEntropyLossOptions,
    ) -> Result<Self> {
        if let Some(weight) = &options.weight {
            ensure!(
                weight.sizes()[..] == [num_classes],
                Runtime,
                "expected weight shape to be ({num_classes},), got {}",
                weight.sizes()[..].repr()
            );
        }
        let smoothing = options.label_smoothing;
        ensure!(
            (0.0..=1.0).contains(&smoothing),
            Runtime,
            "expected label_smoothing to be in range [0, 1], got {}",
            smoothing.repr()
        );
        let width = num_classes * options.out_features.iter().product::<i64>();
        let linear = Linear::with(in_features, width, LinearOptions { bias: options.bias })?;
        let weight = options.weight.clone().map(Buffer::new);
        Ok(Self { weight, linear, in_features, num_classes, options })
    }

    /// The loss.
    ///
    /// # Errors
    /// Those of the operators: mostly shapes that do not fit.
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let options = &self.options;
        let mut logits = self.linear.forward(input)?;
        if !options.out_features.is_empty() {
            ensure!(
                input.dim() > 1,
                Runtime,
                "K-dimensional loss defined by out_features requires batched input, (N, {}), got unbatched input with shape {}",
                self.in_features,
                input.sizes()[..].repr()
            );
            let mut shape = vec![self.num_classes];
            shape.extend(&options.out_features);
            logits = op::unflatten_int(&logits, -1, &shape)?;
        }
        op::cross_entropy_loss(
            &logits,
            target,
            self.weight.as_deref(),
            options.reduction.number(),
            options.ignore_index.unwrap_or(-100),
            options.label_smoothing,
        )
    }

    fn repr(&self) -> String {
        let LinearCrossEntropyLossOptions { out_features, bias, .. } = &self.options;
        let reduction = format!("{:?}", self.options.reduction).to_lowercase();
        let shape = out_features.repr();
        format!(
            "in_features={}, num_classes={}, out_features={shape}, bias={}, reduction={reduction}, ignore_index={}, label_smoothing={}, options=None",
            self.in_features,
            self.num_classes,
            bias.repr(),
            self.options.ignore_index.repr(),
            self.options.label_smoothing.repr()
        )
    }
}

/// Options of [`AdaptiveLogSoftmaxWithLoss`].
///
/// ```
/// assert_eq!(corten::nn::AdaptiveLogSoftmaxOptions::default().div_value, 4.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveLogSoftmaxOptions {
    /// How much narrower the projection of each further cluster is.
    pub div_value: f64,
    /// Whether the head adds a bias.
    pub head_bias: bool,
}

impl Default for AdaptiveLogSoftmaxOptions {
    fn default() -> Self {
        Self { div_value: 4.0, head_bias: false }
    }
}

/// Log-softmax whose head covers frequent classes and one entry for each cluster of rarer ones.
///
/// Classes are sorted by frequency; the cutoffs are where the clusters begin.
#[doc = example!("let softmax = AdaptiveLogSoftmaxWithLoss::new(8, 20, &[5, 10])?;
let x = op::randn(&[2, 8], None, None, None, None)?;
let (_, loss) = softmax.forward(&x, &Tensor::from_vec(vec![1i64, 15], &[2])?)?;
assert!(loss.to_element::<f32>()? > 0.0);")]
#[derive(Module)]
pub struct AdaptiveLogSoftmaxWithLoss {
    /// The map to the frequent classes and the clusters.
    pub head: Linear,
    /// The maps of the clusters, each over a narrower projection.
    pub tail: ModuleList<Sequential>,
    /// Where the clusters begin, and the number of classes.
    cutoffs: Vec<i64>,
}

impl AdaptiveLogSoftmaxWithLoss {
    /// Clusters whose projections narrow by 4, without bias.
    ///
    /// # Errors
    /// `Value` for cutoffs that do not rise between 1 and the last class.
    pub fn new(in_features: i64, n_classes: i64, cutoffs: &[i64]) -> Result<Self> {
        Self::with(in_features, n_classes, cutoffs, AdaptiveLogSoftmaxOptions::default())
    }

    /// Clusters with options.
    ///
    /// # Errors
    /// `Value` for cutoffs that do not rise between 1 and the last class.
    pub fn with(
        in_features: i64,
        n_classes: i64,
        cutoffs: &[i64],
        options: AdaptiveLogSoftmaxOptions,
    ) -> Result<Self> {
        let (Some(first), Some(last)) = (cutoffs.first(), cutoffs.last()) else {
            bail!(Value, "cutoffs should be a sequence of length larger than 0");
        };
        ensure!(
            cutoffs.is_sorted_by(|a, b| a < b) && *first > 0 && *last < n_classes,
            Value,
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between 1 and n_classes-1"
        );
        let ends: Vec<i64> = cutoffs.iter().copied().chain([n_classes]).collect();
        let head = LinearOptions { bias: options.head_bias };
        let head = Linear::with(in_features, first + cutoffs.len() as i64, head)?;
        let mut tail = ModuleList::default();
        for (i, pair) in ends.windows(2).enumerate() {
            let width = in_features as f64 / options.div_value.powi(i as i32 + 1);
            let inner = Linear::with_bias(in_features, width.floor() as i64, false)?;
            let outer = Linear::with_bias(width.floor() as i64, pair[1] - pair[0], false)?;
            tail.push(Sequential::new().with(inner).with(outer));
        }
        Ok(Self { head, tail, cutoffs: ends })
    }

    fn shortlist(&self) -> i64 {
        self.cutoffs[0]
    }

    /// The log-probability of each target, and minus their mean.
    ///
    /// # Errors
    /// `Runtime` for inputs and targets that do not fit, and targets that are no classes.
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<(Tensor, Tensor)> {
        let is_batch = target.dim() > 0;
        ensure!(
            target.dim() <= 1,
            Runtime,
            "0D or 1D target tensor expected, multi-target not supported"
        );
        ensure!(
            input.dim() == target.dim() + 1,
            Runtime,
            "{}D target tensor expects {}D input tensors, but found inputs with size torch.Size({:?})",
            target.dim(),
            target.dim() + 1,
            input.sizes().as_slice()
        );
        ensure!(
            !is_batch || input.size(0)? == target.size(0)?,
            Runtime,
            "Input and target should have the same size in the batch dimension."
        );
        let output = if is_batch {
            self.target_log_probs(input, target)?
        } else {
            let (input, target) = (op::unsqueeze(input, 0)?, op::unsqueeze(target, 0)?);
            op::squeeze_dim(&self.target_log_probs(&input, &target)?, 0)?
        };
        let loss = op::mean(&op::neg(&output)?, None)?;
        Ok((output, loss))
    }

    fn target_log_probs(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let count = target.size(0)?;
        let mut output = op::new_zeros(input, &[count], None, None, None, None)?;
        let mut head_index = op::zeros_like(target, None, None, None, None, None)?;
        let (mut low, mut used) = (0, 0);
        for (i, high) in self.cutoffs.iter().enumerate() {
            let inside = op::logical_and(
                &op::ge_scalar(target, low.into())?,
                &op::lt_scalar(target, (*high).into())?,
            )?;
            let rows = op::squeeze_dim(&op::nonzero(&inside)?, 1)?;
            used += rows.numel();
            if rows.numel() > 0 {
                let targets = op::index_select(target, 0, &rows)?;
                if i == 0 {
                    head_index = op::index_copy(&head_index, 0, &rows, &targets)?;
                } else {
                    let place = self.shortlist() + i as i64 - 1;
                    head_index = op::index_fill_int_scalar(&head_index, 0, &rows, place.into())?;
                    let own = self.inside_cluster(i - 1, input, &rows, &(targets - low)?)?;
                    output = op::index_copy(&output, 0, &rows, &own)?;
                }
            }
            low = *high;
        }
        ensure!(
            used == count,
            Runtime,
            "Target values should be in [0, {}], but values outside of that range were found. ",
            low - 1
        );
        let head = op::log_softmax_int(&self.head.forward(input)?, 1, None)?;
        output + op::squeeze_dim(&op::gather(&head, 1, &op::unsqueeze(&head_index, 1)?, false)?, 1)?
    }

    /// The log-probabilities of targets within their cluster.
    fn inside_cluster(
        &self,
        cluster: usize,
        input: &Tensor,
        rows: &Tensor,
        targets: &Tensor,
    ) -> Result<Tensor> {
        let logits = self.tail[cluster].forward(&op::index_select(input, 0, rows)?)?;
        let log_probs = op::log_softmax_int(&logits, 1, None)?;
        op::squeeze_dim(&op::gather(&log_probs, 1, &op::unsqueeze(targets, 1)?, false)?, 1)
    }

    /// Log-probabilities of all classes.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn log_prob(&self, input: &Tensor) -> Result<Tensor> {
        let head = op::log_softmax_int(&self.head.forward(input)?, 1, None)?;
        let mut all = vec![op::narrow(&head, 1, 0, self.shortlist())?];
        for (i, cluster) in self.tail.iter().enumerate() {
            let inside = op::log_softmax_int(&cluster.forward(input)?, 1, None)?;
            all.push((inside + op::narrow(&head, 1, self.shortlist() + i as i64, 1)?)?);
        }
        op::cat(&all, 1)
    }

    /// The most probable class of each row.
    ///
    /// # Errors
    /// Those of the operators.
    pub fn predict(&self, input: &Tensor) -> Result<Tensor> {
        let head = self.head.forward(input)?;
        let best = op::argmax(&head, Some(1), false)?;
        let in_tail = op::ge_scalar(&best, self.shortlist().into())?;
        if !op::any(&in_tail)?.to_element::<bool>()? {
            return Ok(best);
        }
        // PyTorch opens the clusters where the head prefers one of them.
        let all = op::argmax(&self.log_prob(input)?, Some(1), false)?;
        op::where_self(&in_tail, &all, &best)
    }
}
