//! Distances of vectors.

use crate::module::Module;
use corten_core::Result;
use corten_ops::{Tensor, op};

/// Options of [`PairwiseDistance`].
///
/// ```
/// assert_eq!(corten::nn::PairwiseDistanceOptions::default().p, 2.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PairwiseDistanceOptions {
    /// Which norm.
    pub p: f64,
    /// Added to every difference.
    pub eps: f64,
    /// Whether the last dimension stays, with size 1.
    pub keepdim: bool,
}

impl Default for PairwiseDistanceOptions {
    fn default() -> Self {
        Self { p: 2.0, eps: 1e-6, keepdim: false }
    }
}

/// The norm of differences of vectors.
#[doc = example!("let (a, b) = (op::zeros(&[1, 2], None, None, None, None)?, op::ones(&[1, 2], None, None, None, None)?);
let distance = PairwiseDistance::new().forward(&a, &b)?.to_vec::<f32>()?[0];
assert!((distance - 2f32.sqrt()).abs() < 1e-5);")]
#[derive(Clone, Copy, Default, Module)]
pub struct PairwiseDistance {
    #[module(skip)]
    options: PairwiseDistanceOptions,
}

impl PairwiseDistance {
    /// The Euclidean distance.
    pub fn new() -> Self {
        Self::default()
    }

    /// A distance with options.
    pub fn with(options: PairwiseDistanceOptions) -> Self {
        Self { options }
    }

    /// The distances along the last dimension.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let PairwiseDistanceOptions { p, eps, keepdim } = self.options;
        op::pairwise_distance(x1, x2, p, eps, keepdim)
    }
}

/// Options of [`CosineSimilarity`].
///
/// ```
/// assert_eq!(corten::nn::CosineSimilarityOptions::default().dim, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CosineSimilarityOptions {
    /// The dimension of the vectors.
    pub dim: i64,
    /// The least product of norms that is divided by.
    pub eps: f64,
}

impl Default for CosineSimilarityOptions {
    fn default() -> Self {
        Self { dim: 1, eps: 1e-8 }
    }
}

/// The cosine of the angle between vectors along a dimension.
#[doc = example!("let a = op::ones(&[1, 2], None, None, None, None)?;
let cosine = CosineSimilarity::new().forward(&a, &a)?.to_vec::<f32>()?[0];
assert!((cosine - 1.0).abs() < 1e-6);")]
#[derive(Clone, Copy, Default, Module)]
pub struct CosineSimilarity {
    #[module(skip)]
    options: CosineSimilarityOptions,
}

impl CosineSimilarity {
    /// Along dimension 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// With options.
    pub fn with(options: CosineSimilarityOptions) -> Self {
        Self { options }
    }

    /// The cosines.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        op::cosine_similarity(x1, x2, self.options.dim, self.options.eps)
    }
}
