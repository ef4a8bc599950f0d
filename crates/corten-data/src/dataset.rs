//! Data sets: samples by index.

use corten_core::{Generator, Result, default_cpu_generator, ensure, try_collect};
use corten_ops::{Tensor, op};
use std::sync::Arc;

/// Samples by index.
pub trait Dataset: Send + Sync {
    /// One sample.
    type Sample;

    /// How many samples there are.
    fn len(&self) -> usize;

    /// The sample at `index`, which is less than [`len`](Self::len).
    ///
    /// # Errors
    /// Whatever keeps the sample from being read.
    fn get(&self, index: usize) -> Result<Self::Sample>;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Sample = D::Sample;

    fn len(&self) -> usize {
        (**self).len()
    }

    fn get(&self, index: usize) -> Result<D::Sample> {
        (**self).get(index)
    }
}

/// Rows of tensors of equal length.
pub struct TensorDataset {
    tensors: Vec<Tensor>,
    len: usize,
}

impl TensorDataset {
    /// Samples are the rows of all tensors at one index.
    ///
    /// # Errors
    /// `Value` when the lengths differ or there is no tensor.
    pub fn new(tensors: Vec<Tensor>) -> Result<Self> {
        ensure!(!tensors.is_empty(), Value, "TensorDataset needs at least one tensor");
        let len = tensors[0].size(0)?;
        for tensor in &tensors {
            ensure!(tensor.size(0)? == len, Value, "Size mismatch between tensors");
        }
        Ok(Self { tensors, len: len as usize })
    }
}

impl Dataset for TensorDataset {
    type Sample = Vec<Tensor>;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<Vec<Tensor>> {
        self.tensors.iter().map(|tensor| op::select_int(tensor, 0, index as i64)).collect()
    }
}

/// Samples computed from their index.
pub struct FnDataset<F> {
    len: usize,
    sample: F,
}

impl<S, F: Fn(usize) -> Result<S> + Send + Sync> FnDataset<F> {
    /// `len` samples, each made by `sample`.
    pub fn new(len: usize, sample: F) -> Self {
        Self { len, sample }
    }
}

impl<S, F: Fn(usize) -> Result<S> + Send + Sync> Dataset for FnDataset<F> {
    type Sample = S;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<S> {
        (self.sample)(index)
    }
}

/// The samples of a data set at given indices.
pub struct Subset<D> {
    dataset: Arc<D>,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// The samples at `indices`.
    ///
    /// # Errors
    /// `Index` when one is out of range.
    pub fn new(dataset: Arc<D>, indices: Vec<usize>) -> Result<Self> {
        let len = dataset.len();
        for index in &indices {
            ensure!(*index < len, Index, "index {index} is out of range for {len} samples");
        }
        Ok(Self { dataset, indices })
    }

    /// The indices.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Sample = D::Sample;

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, index: usize) -> Result<D::Sample> {
        self.dataset.get(self.indices[index])
    }
}

/// Splits a data set at random into parts of the given lengths.
///
/// The order is that of `randperm` from the generator, or the default one: the same as PyTorch's.
///
/// # Errors
/// `Value` when the lengths do not add up to the data set's.
pub fn random_split<D: Dataset>(
    dataset: D,
    lengths: &[usize],
    generator: Option<&Generator>,
) -> Result<Vec<Subset<D>>> {
    let total: usize = lengths.iter().sum();
    ensure!(
        total == dataset.len(),
        Value,
        "Sum of input lengths does not equal the length of the input dataset!"
    );
    let order = permutation(total, generator.unwrap_or(default_cpu_generator()))?;
    let dataset = Arc::new(dataset);
    let mut rest = order.as_slice();
    lengths
        .iter()
        .map(|length| {
            let (part, behind) = rest.split_at(*length);
            rest = behind;
            Subset::new(Arc::clone(&dataset), part.to_vec())
        })
        .collect()
}

/// 0 to `count` − 1 in random order.
pub(crate) fn permutation(count: usize, generator: &Generator) -> Result<Vec<usize>> {
    let order = op::randperm_generator(count as i64, Some(generator), None, None, None, None)?;
    try_collect(order.to_vec::<i64>()?.into_iter().map(|index| index as usize))
}
