//! Tables looked up by index.

use crate::hooks::Hooks;
use crate::module::{Forward, Module, Parameter};
use crate::print::Repr;
use crate::{empty, init};
use corten_autograd::no_grad;
use corten_core::{Result, bail, ensure};
use corten_ops::{Tensor, op};

/// Options of [`Embedding`].
///
/// ```
/// assert_eq!(corten::nn::EmbeddingOptions::default().norm_type, 2.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingOptions {
    /// The row that is zero and is not trained; counted from the end if negative.
    pub padding_idx: Option<i64>,
    /// Rows that are looked up are scaled down to this norm.
    pub max_norm: Option<f64>,
    /// Which norm.
    pub norm_type: f64,
    /// Whether gradients are divided by how often a row occurs in the batch.
    pub scale_grad_by_freq: bool,
    /// Whether the gradient holds only the rows that were looked up.
    pub sparse: bool,
}

impl Default for EmbeddingOptions {
    fn default() -> Self {
        Self {
            padding_idx: None,
            max_norm: None,
            norm_type: 2.0,
            scale_grad_by_freq: false,
            sparse: false,
        }
    }
}

/// A learned vector for each of `num_embeddings` indices.
#[doc = example!("let table = Embedding::new(10, 3)?;
let rows = table.forward(&Tensor::from_vec(vec![1i64, 4], &[2])?)?;
assert_eq!(rows.sizes().as_slice(), [2, 3]);")]
#[derive(Module)]
#[module(repr)]
pub struct Embedding {
    /// Shape (indices, width).
    pub weight: Parameter,
    #[module(skip)]
    options: EmbeddingOptions,
    hooks: Hooks,
}

impl Embedding {
    /// Vectors drawn from N(0, 1).
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(num_embeddings: i64, embedding_dim: i64) -> Result<Self> {
        Self::with(num_embeddings, embedding_dim, EmbeddingOptions::default())
    }

    /// Vectors of which that of `padding_idx` is zero and is not trained.
    ///
    /// # Errors
    /// `Value` when `padding_idx` is no index.
    pub fn with_padding(num_embeddings: i64, embedding_dim: i64, padding_idx: i64) -> Result<Self> {
        let options = EmbeddingOptions { padding_idx: Some(padding_idx), ..Default::default() };
        Self::with(num_embeddings, embedding_dim, options)
    }

    /// Vectors with options.
    ///
    /// # Errors
    /// `Value` when the row for padding is no index.
    pub fn with(
        num_embeddings: i64,
        embedding_dim: i64,
        mut options: EmbeddingOptions,
    ) -> Result<Self> {
        let padding = options.padding_idx;
        options.padding_idx = padding_row(padding, num_embeddings, "Padding_idx")?;
        let weight = table(num_embeddings, embedding_dim, options.padding_idx)?;
        Ok(Self { weight, options, hooks: Hooks::default() })
    }

    /// The given vectors, which are trained unless `freeze`.
    ///
    /// # Errors
    /// `Value` for vectors that are no matrix or have no such row for padding.
    pub fn from_pretrained(
        embeddings: Tensor,
        freeze: bool,
        mut options: EmbeddingOptions,
    ) -> Result<Self> {
        let weight = pretrained(embeddings, freeze)?;
        let padding = options.padding_idx;
        options.padding_idx = padding_row(padding, weight.size(0)?, "Padding_idx")?;
        Ok(Self { weight, options, hooks: Hooks::default() })
    }

    fn repr(&self) -> String {
        let EmbeddingOptions { padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse } =
            &self.options;
        let sizes = self.weight.sizes();
        let mut text = format!("{}, {}", sizes[0], sizes[1]);
        if let Some(row) = padding_idx {
            text += &format!(", padding_idx={row}");
        }
        text += &renorm_repr(*max_norm, *norm_type, *scale_grad_by_freq);
        if *sparse { text + ", sparse=True" } else { text }
    }
}

impl Forward for Embedding {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let EmbeddingOptions { padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse } =
            self.options;
        renorm(&self.weight, input, max_norm, norm_type)?;
        let padding = padding_idx.unwrap_or(-1);
        op::embedding(&self.weight, input, padding, scale_grad_by_freq, sparse)
    }
}

/// A table drawn from N(0, 1).
fn table(rows: i64, width: i64, padding: Option<i64>) -> Result<Parameter> {
    let weight = Parameter::new(empty(&[rows, width])?)?;
    init::normal_(&weight, 0.0, 1.0)?;
    if let Some(row) = padding {
        no_grad(|| op::zero_(&op::select_int(&weight, 0, row)?))?;
    }
    Ok(weight)
}

fn pretrained(embeddings: Tensor, freeze: bool) -> Result<Parameter> {
    ensure!(embeddings.dim() == 2, Value, "Embeddings parameter is expected to be 2-dimensional");
    Parameter::with(embeddings, !freeze)
}

fn padding_row(padding: Option<i64>, rows: i64, name: &str) -> Result<Option<i64>> {
    let Some(row) = padding else { return Ok(None) };
    ensure!((-rows..rows).contains(&row), Value, "{name} must be within num_embeddings");
    Ok(Some(row.rem_euclid(rows)))
}

/// Scales the rows that are looked up down to a norm, in place.
fn renorm(weight: &Tensor, input: &Tensor, max_norm: Option<f64>, norm_type: f64) -> Result<()> {
    let Some(max_norm) = max_norm else { return Ok(()) };
    let input = op::contiguous(input, corten_core::MemoryFormat::Contiguous)?;
    no_grad(|| op::embedding_renorm_(weight, &input, max_norm, norm_type)).map(drop)
}

fn renorm_repr(max_norm: Option<f64>, norm_type: f64, scale_grad_by_freq: bool) -> String {
    let mut text = String::new();
    if max_norm.is_some() {
        text += &format!(", max_norm={}", max_norm.repr());
    }
    if norm_type != 2.0 {
        text += &format!(", norm_type={}", norm_type.repr());
    }
    if scale_grad_by_freq {
        text += ", scale_grad_by_freq=True";
    }
    text
}

/// What [`EmbeddingBag`] makes of a bag.
///
/// ```
/// assert_eq!(corten::nn::BagMode::default(), corten::nn::BagMode::Mean);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// The sum of its vectors.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// Their maximum in every place.
    Max,
}

impl BagMode {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Max => "max",
        }
    }
}

/// Options of [`EmbeddingBag`].
///
/// ```
/// assert!(!corten::nn::EmbeddingBagOptions::default().include_last_offset);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingBagOptions {
    /// Rows that are looked up are scaled down to this norm.
    pub max_norm: Option<f64>,
    /// Which norm.
    pub norm_type: f64,
    /// Whether gradients are divided by how often a row occurs in the batch.
    pub scale_grad_by_freq: bool,
    /// What is made of a bag.
    pub mode: BagMode,
    /// Whether the gradient holds only the rows that were looked up.
    pub sparse: bool,
    /// Whether the last offset is where the last bag ends.
    pub include_last_offset: bool,
    /// The row that does not count in bags and is not trained.
    pub padding_idx: Option<i64>,
}

impl Default for EmbeddingBagOptions {
    fn default() -> Self {
        Self {
            max_norm: None,
            norm_type: 2.0,
            scale_grad_by_freq: false,
            mode: BagMode::Mean,
            sparse: false,
            include_last_offset: false,
            padding_idx: None,
        }
    }
}

/// Sums, means or maxima of the vectors of bags of indices.
#[doc = example!("let table = EmbeddingBag::new(10, 3)?;
let bags = table.forward(&Tensor::from_vec(vec![1i64, 4, 4, 2], &[2, 2])?)?;
assert_eq!(bags.sizes().as_slice(), [2, 3]);")]
#[derive(Module)]
#[module(repr)]
pub struct EmbeddingBag {
    /// Shape (indices, width).
    pub weight: Parameter,
    #[module(skip)]
    options: EmbeddingBagOptions,
    hooks: Hooks,
}

impl EmbeddingBag {
    /// Vectors drawn from N(0, 1), of whose bags the mean is taken.
    ///
    /// # Errors
    /// `Runtime` for negative sizes.
    pub fn new(num_embeddings: i64, embedding_dim: i64) -> Result<Self> {
        Self::with(num_embeddings, embedding_dim, EmbeddingBagOptions::default())
    }

    /// Vectors with options.
    ///
    /// # Errors
    /// `Value` when the row for padding is no index.
    pub fn with(
        num_embeddings: i64,
        embedding_dim: i64,
        mut options: EmbeddingBagOptions,
    ) -> Result<Self> {
        let padding = options.padding_idx;
        options.padding_idx = padding_row(padding, num_embeddings, "padding_idx")?;
        let weight = table(num_embeddings, embedding_dim, options.padding_idx)?;
        Ok(Self { weight, options, hooks: Hooks::default() })
    }

    /// The given vectors, which are trained unless `freeze`.
    ///
    /// # Errors
    /// `Value` for vectors that are no matrix or have no such row for padding.
    pub fn from_pretrained(
        embeddings: Tensor,
        freeze: bool,
        mut options: EmbeddingBagOptions,
    ) -> Result<Self> {
        let weight = pretrained(embeddings, freeze)?;
        let padding = options.padding_idx;
        options.padding_idx = padding_row(padding, weight.size(0)?, "padding_idx")?;
        Ok(Self { weight, options, hooks: Hooks::default() })
    }

    /// The bags that start at `offsets` in a row of indices, or those of each row of a matrix;
    /// for sums with a weight of each index.
    ///
    /// # Errors
    /// `Value` for offsets with a matrix or none with a row, `NotImplemented` for weights in other
    /// modes than sums.
    pub fn forward_bags(
        &self,
        input: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        self.check(input, offsets, per_sample_weights)?;
        let EmbeddingBagOptions { max_norm, norm_type, scale_grad_by_freq, mode, .. } =
            self.options;
        let EmbeddingBagOptions { sparse, include_last_offset, padding_idx, .. } = self.options;
        let (input, offsets, weights) = match offsets {
            Some(offsets) => (input.clone(), offsets.clone(), per_sample_weights.cloned()),
            None => {
                let (count, width) = (input.numel(), input.size(1)?);
                ensure!(width > 0, Value, "bags of a 2D input must have a width, but got {width}");
                let device = Some(input.device());
                let dtype = Some(input.dtype());
                let offsets = op::arange_start_step(
                    0.into(),
                    count.into(),
                    width.into(),
                    dtype,
                    None,
                    device,
                    None,
                )?;
                let flat = |tensor: &Tensor| op::reshape(tensor, &[-1]);
                (flat(input)?, offsets, per_sample_weights.map(flat).transpose()?)
            }
        };
        renorm(&self.weight, &input, max_norm, norm_type)?;
        let bags = op::embedding_bag_padding_idx(
            &self.weight,
            &input,
            &offsets,
            scale_grad_by_freq,
            mode as i64,
            sparse,
            weights.as_ref(),
            include_last_offset,
            padding_idx,
        )?;
        Ok(bags.0)
    }

    fn check(&self, x: &Tensor, offsets: Option<&Tensor>, weights: Option<&Tensor>) -> Result<()> {
        let EmbeddingBagOptions { mode, scale_grad_by_freq, sparse, .. } = self.options;
        let is_max = mode == BagMode::Max;
        ensure!(
            !(is_max && scale_grad_by_freq),
            Value,
            "max mode does not support scaling the gradient by the frequency"
        );
        ensure!(!(is_max && sparse), Value, "max mode does not support sparse weights");
        if let Some(weights) = weights {
            ensure!(
                mode == BagMode::Sum,
                NotImplemented,
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{}'). Please open a feature request on GitHub.",
                mode.name()
            );
            ensure!(
                weights.sizes() == x.sizes(),
                Value,
                "embedding_bag: If per_sample_weights ({:?}) is not None, then it must have the same shape as the input ({:?})",
                weights.sizes().as_slice(),
                x.sizes().as_slice()
            );
        }
        match (x.dim(), offsets) {
            (2, None) => Ok(()),
            (2, Some(_)) => bail!(
                Value,
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type Tensor"
            ),
            (1, None) => bail!(Value, "offsets has to be a 1D Tensor but got None"),
            (1, Some(offsets)) if offsets.dim() != 1 => {
                bail!(Value, "offsets has to be a 1D Tensor")
            }
            (1, Some(_)) => Ok(()),
            (rank, _) => {
                bail!(Value, "input has to be 1D or 2D Tensor, but got Tensor of dimension {rank}")
            }
        }
    }

    fn repr(&self) -> String {
        let EmbeddingBagOptions { max_norm, norm_type, scale_grad_by_freq, mode, .. } =
            self.options;
        let sizes = self.weight.sizes();
        let norm = renorm_repr(max_norm, norm_type, scale_grad_by_freq);
        let text = format!("{}, {}{norm}, mode='{}'", sizes[0], sizes[1], mode.name());
        match self.options.padding_idx {
            Some(row) => format!("{text}, padding_idx={row}"),
            None => text,
        }
    }
}

impl Forward for EmbeddingBag {
    /// The bags of each row of a matrix.
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_bags(input, None, None)
    }
}
