//! Data sets: samples by index.

use crate::sampler::indices_of;
use corten_core::{
    Generator, Result, default_cpu_generator, ensure, try_collect, try_push, try_to_vec, warn,
};
use corten_ops::{Tensor, op};
use std::sync::Arc;

/// Samples by index.
///
/// ```
/// use corten::prelude::*;
///
/// struct Squares(usize);
///
/// impl Dataset for Squares {
///     type Sample = (i64, f64);
///
///     fn len(&self) -> usize {
///         self.0
///     }
///
///     fn get(&self, index: usize) -> Result<(i64, f64)> {
///         Ok((index as i64, (index * index) as f64))
///     }
/// }
///
/// let (numbers, squares) = DataLoader::new(Squares(4), 4).iter()?.next().unwrap()?;
/// assert_eq!(numbers.to_vec::<i64>()?, [0, 1, 2, 3]);
/// assert_eq!(squares.to_vec::<f64>()?, [0.0, 1.0, 4.0, 9.0]);
/// # Ok::<(), corten::Error>(())
/// ```
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

    /// The samples of a batch; to be defined where many are cheaper at once.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn get_many(&self, indices: &[usize]) -> Result<Vec<Self::Sample>> {
        let mut samples = Vec::new();
        for index in indices {
            try_push(&mut samples, self.get(*index)?)?;
        }
        Ok(samples)
    }

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! dataset_behind {
    ($($pointer:ty),+) => {$(
        impl<D: Dataset + ?Sized> Dataset for $pointer {
            type Sample = D::Sample;

            fn len(&self) -> usize {
                (**self).len()
            }

            fn get(&self, index: usize) -> Result<D::Sample> {
                (**self).get(index)
            }

            fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Sample>> {
                (**self).get_many(indices)
            }
        }
    )+};
}

dataset_behind!(Arc<D>, Box<D>);

/// Rows of tensors of equal length.
///
/// ```
/// use corten::prelude::*;
///
/// let rows = TensorDataset::new(vec![tensor![[1.0, 2.0], [3.0, 4.0]]?, tensor![7, 8]?])?;
/// let sample = rows.get(1)?;
/// assert_eq!(sample[0].to_vec::<f32>()?, [3.0, 4.0]);
/// assert_eq!(sample[1].to_element::<i64>()?, 8);
/// # Ok::<(), corten::Error>(())
/// ```
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
        check_index(index, self.len)?;
        self.tensors.iter().map(|tensor| op::select_int(tensor, 0, index as i64)).collect()
    }
}

/// Samples computed from their index.
///
/// ```
/// use corten::data::{Dataset, FnDataset};
///
/// let cubes = FnDataset::new(5, |index| Ok((index as i64).pow(3)));
/// assert_eq!((cubes.len(), cubes.get(2)?), (5, 8));
/// # Ok::<(), corten::Error>(())
/// ```
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

/// Samples of another data set, each changed by a function: what transforms are for.
///
/// ```
/// use corten::data::{Dataset, FnDataset, MapDataset};
///
/// let halves = MapDataset::new(FnDataset::new(3, Ok), |index| Ok(index as f64 / 2.0));
/// assert_eq!(halves.get(1)?, 0.5);
/// # Ok::<(), corten::Error>(())
/// ```
pub struct MapDataset<D, F> {
    dataset: D,
    change: F,
}

impl<S, D: Dataset, F: Fn(D::Sample) -> Result<S> + Send + Sync> MapDataset<D, F> {
    /// The samples of `dataset`, each given to `change`.
    pub fn new(dataset: D, change: F) -> Self {
        Self { dataset, change }
    }
}

impl<S, D: Dataset, F: Fn(D::Sample) -> Result<S> + Send + Sync> Dataset for MapDataset<D, F> {
    type Sample = S;

    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn get(&self, index: usize) -> Result<S> {
        (self.change)(self.dataset.get(index)?)
    }
}

/// The samples of a data set at given indices.
///
/// ```
/// use corten::data::{Dataset, FnDataset, Subset};
/// use std::sync::Arc;
///
/// let whole = Arc::new(FnDataset::new(10, |index| Ok(index * 10)));
/// assert_eq!(Subset::new(whole, vec![3, 1])?.get(0)?, 30);
/// # Ok::<(), corten::Error>(())
/// ```
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
        indices.iter().try_for_each(|index| check_index(*index, len))?;
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
        check_index(index, self.len())?;
        self.dataset.get(self.indices[index])
    }

    fn get_many(&self, indices: &[usize]) -> Result<Vec<D::Sample>> {
        indices.iter().try_for_each(|index| check_index(*index, self.len()))?;
        let inner = try_collect(indices.iter().map(|index| self.indices[*index]))?;
        self.dataset.get_many(&inner)
    }
}

/// Splits a data set at random into parts of the given lengths.
///
/// The order is that of `randperm` from the generator, or the default one: the same as PyTorch's.
///
/// # Errors
/// `Value` when the lengths do not add up to the data set's.
///
/// ```
/// use corten::data::{Dataset, FnDataset, random_split};
/// use corten::Generator;
///
/// let parts = random_split(FnDataset::new(5, Ok), &[3, 2], Some(&Generator::cpu(0)))?;
/// assert_eq!((parts[0].len(), parts[1].len()), (3, 2));
/// # Ok::<(), corten::Error>(())
/// ```
pub fn random_split<D: Dataset>(
    dataset: D,
    lengths: &[usize],
    generator: Option<&Generator>,
) -> Result<Vec<Subset<D>>> {
    let total = dataset.len();
    let sum = lengths.iter().try_fold(0_usize, |sum, length| sum.checked_add(*length));
    ensure!(
        sum == Some(total),
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
            Subset::new(Arc::clone(&dataset), try_to_vec(part)?)
        })
        .collect()
}

/// Splits a data set at random into parts of the given fractions, which sum to 1.
///
/// Lengths are rounded down, and what is left is dealt out one by one from the first part on.
///
/// # Errors
/// `Value` for fractions outside of 0 to 1, or that do not sum to 1.
///
/// ```
/// use corten::data::{Dataset, FnDataset, random_split_fractions};
///
/// let parts = random_split_fractions(FnDataset::new(11, Ok), &[0.5, 0.25, 0.25], None)?;
/// assert_eq!(parts.iter().map(Dataset::len).collect::<Vec<_>>(), [6, 3, 2]);
/// # Ok::<(), corten::Error>(())
/// ```
pub fn random_split_fractions<D: Dataset>(
    dataset: D,
    fractions: &[f64],
    generator: Option<&Generator>,
) -> Result<Vec<Subset<D>>> {
    let sum: f64 = fractions.iter().sum();
    ensure!(
        (sum - 1.0).abs() <= 1e-9 && sum <= 1.0,
        Value,
        "Sum of input lengths does not equal the length of the input dataset!"
    );
    let total = dataset.len();
    let mut lengths = Vec::new();
    for (place, fraction) in fractions.iter().enumerate() {
        let between = (0.0..=1.0).contains(fraction);
        ensure!(between, Value, "Fraction at index {place} is not between 0 and 1");
        try_push(&mut lengths, (total as f64 * fraction).floor() as usize)?;
    }
    let left = total.saturating_sub(lengths.iter().sum());
    let parts = lengths.len();
    (0..left).for_each(|turn| lengths[turn % parts] += 1);
    for (place, _) in lengths.iter().enumerate().filter(|(_, length)| **length == 0) {
        warn(format!(
            "Length of split at index {place} is 0. This might result in an empty dataset."
        ));
    }
    random_split(dataset, &lengths, generator)
}

/// An error for the index of a sample that there is not.
pub(crate) fn check_index(index: usize, len: usize) -> Result<()> {
    ensure!(index < len, Index, "index {index} is out of range for {len} samples");
    Ok(())
}

/// 0 to `count` − 1 in random order.
pub(crate) fn permutation(count: usize, generator: &Generator) -> Result<Vec<usize>> {
    let order = op::randperm_generator(count as i64, Some(generator), None, None, None, None)?;
    indices_of(&order)
}
