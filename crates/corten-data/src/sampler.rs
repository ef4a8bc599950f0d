//! The order in which samples are taken.

use crate::dataset::permutation;
use corten_core::{DType, Generator, Result, default_cpu_generator, ensure, try_collect};
use corten_ops::{Tensor, op};

/// Gives the indices of one pass.
pub trait Sampler: Send + Sync {
    /// The indices, in order.
    ///
    /// # Errors
    /// Those of drawing random numbers.
    fn indices(&self) -> Result<Vec<usize>>;

    /// How many indices one pass has.
    fn len(&self) -> usize;

    /// Whether a pass is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S: Sampler + ?Sized> Sampler for &S {
    fn indices(&self) -> Result<Vec<usize>> {
        (**self).indices()
    }

    fn len(&self) -> usize {
        (**self).len()
    }
}

/// 0, 1, 2, …
#[derive(Clone, Copy, Debug)]
pub struct SequentialSampler(pub usize);

impl Sampler for SequentialSampler {
    fn indices(&self) -> Result<Vec<usize>> {
        try_collect(0..self.0)
    }

    fn len(&self) -> usize {
        self.0
    }
}

/// All indices in random order.
pub struct RandomSampler {
    len: usize,
    generator: Option<Generator>,
}

impl RandomSampler {
    /// Orders drawn from a generator of its own, seeded from the default one at each pass, or
    /// from the given one.
    pub fn new(len: usize, generator: Option<Generator>) -> Self {
        Self { len, generator }
    }
}

impl Sampler for RandomSampler {
    fn indices(&self) -> Result<Vec<usize>> {
        match &self.generator {
            Some(generator) => permutation(self.len, generator),
            None => permutation(self.len, &Generator::cpu(draw_seed(default_cpu_generator())?)),
        }
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// A seed as PyTorch draws it: one integer of the full range.
pub(crate) fn draw_seed(generator: &Generator) -> Result<u64> {
    let drawn = op::empty_memory_format(&[], Some(DType::Int64), None, None, None, None)?;
    Ok(op::random_(&drawn, Some(generator))?.to_element::<i64>()? as u64)
}

/// Indices drawn with the given weights.
pub struct WeightedSampler {
    weights: Tensor,
    count: usize,
    replacement: bool,
}

impl WeightedSampler {
    /// `count` indices a pass.
    ///
    /// # Errors
    /// `Value` unless the weights are one-dimensional.
    pub fn new(weights: &Tensor, count: usize, replacement: bool) -> Result<Self> {
        ensure!(
            weights.dim() == 1,
            Value,
            "weights should be a 1d sequence but given weights have shape {:?}",
            weights.sizes().as_slice()
        );
        let weights = op::to_dtype(weights, DType::Float64, false, false, None)?;
        Ok(Self { weights, count, replacement })
    }
}

impl Sampler for WeightedSampler {
    fn indices(&self) -> Result<Vec<usize>> {
        let drawn = op::multinomial(&self.weights, self.count as i64, self.replacement, None)?;
        try_collect(drawn.to_vec::<i64>()?.into_iter().map(|index| index as usize))
    }

    fn len(&self) -> usize {
        self.count
    }
}

/// Lists of indices of another sampler.
pub struct BatchSampler<S> {
    sampler: S,
    size: usize,
    drop_last: bool,
}

impl<S: Sampler> BatchSampler<S> {
    /// Batches of `size`, of which the last may be shorter unless `drop_last`.
    ///
    /// # Errors
    /// `Value` for size 0.
    pub fn new(sampler: S, size: usize, drop_last: bool) -> Result<Self> {
        ensure!(size > 0, Value, "batch_size should be a positive integer value, but got 0");
        Ok(Self { sampler, size, drop_last })
    }

    /// The batches of one pass.
    ///
    /// # Errors
    /// Those of the sampler.
    pub fn batches(&self) -> Result<Vec<Vec<usize>>> {
        let indices = self.sampler.indices()?;
        let whole = |batch: &&[usize]| !self.drop_last || batch.len() == self.size;
        Ok(indices.chunks(self.size).filter(whole).map(<[usize]>::to_vec).collect())
    }
}
