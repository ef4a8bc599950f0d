//! Data sets of data sets.

use crate::dataset::Dataset;
use corten_core::{Result, ensure, try_push};
use std::collections::BTreeMap;

/// Data sets one after another, by index.
///
/// Sets of different types are boxed: `ConcatDataset<Box<dyn Dataset<Sample = S>>>`.
///
/// ```
/// use corten::data::{ConcatDataset, Dataset, FnDataset};
///
/// let part = |len, start| FnDataset::new(len, move |index| Ok(start + index));
/// let boxed = |set| Box::new(set) as Box<dyn Dataset<Sample = usize>>;
/// let both = ConcatDataset::new(vec![boxed(part(3, 0)), boxed(part(2, 100))])?;
/// assert_eq!((both.len(), both.get(4)?), (5, 101));
/// # Ok::<(), corten::Error>(())
/// ```
pub struct ConcatDataset<D> {
    datasets: Vec<D>,
    /// The index behind the end of each part.
    ends: Vec<usize>,
}

impl<D: Dataset> ConcatDataset<D> {
    /// The samples of all data sets.
    ///
    /// # Errors
    /// `Value` without a data set.
    pub fn new(datasets: Vec<D>) -> Result<Self> {
        ensure!(!datasets.is_empty(), Value, "datasets should not be an empty iterable");
        let (mut ends, mut end) = (Vec::new(), 0_usize);
        for part in &datasets {
            end = end.saturating_add(part.len());
            try_push(&mut ends, end)?;
        }
        Ok(Self { datasets, ends })
    }

    /// The index behind the end of each part.
    pub fn cumulative_sizes(&self) -> &[usize] {
        &self.ends
    }
}

impl<D: Dataset> Dataset for ConcatDataset<D> {
    type Sample = D::Sample;

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn get(&self, index: usize) -> Result<D::Sample> {
        let part = self.ends.partition_point(|end| *end <= index);
        ensure!(part < self.ends.len(), Index, "list index out of range");
        let start = if part == 0 { 0 } else { self.ends[part - 1] };
        self.datasets[part].get(index - start)
    }
}

/// Data sets side by side: a sample has one of each.
///
/// Samples are tuples for a tuple of data sets, vectors for a vector, and maps for a map.
///
/// ```
/// use corten::data::{Dataset, FnDataset, StackDataset};
///
/// let images = FnDataset::new(3, |index| Ok(index as f64));
/// let labels = FnDataset::new(3, |index| Ok(index as i64 % 2));
/// let both = StackDataset::new((images, labels))?;
/// assert_eq!(both.get(1)?, (1.0, 1));
/// # Ok::<(), corten::Error>(())
/// ```
pub struct StackDataset<T> {
    parts: T,
    len: usize,
}

impl<T: Columns> StackDataset<T> {
    /// Samples from all parts at once.
    ///
    /// # Errors
    /// `Value` without a part, and where lengths differ.
    pub fn new(parts: T) -> Result<Self> {
        let mut lengths = Vec::new();
        parts.for_each_len(&mut |len| lengths.push(len));
        ensure!(!lengths.is_empty(), Value, "At least one dataset should be passed");
        let len = lengths[0];
        ensure!(lengths.iter().all(|other| *other == len), Value, "Size mismatch between datasets");
        Ok(Self { parts, len })
    }
}

impl<T: Columns> Dataset for StackDataset<T> {
    type Sample = T::Sample;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<T::Sample> {
        self.parts.sample(index)
    }
}

/// Data sets that a [`StackDataset`] puts side by side: tuples of two to six, vectors, maps.
///
/// ```
/// use corten::data::{Dataset, FnDataset, StackDataset};
/// use std::collections::BTreeMap;
///
/// let part = |factor: usize| FnDataset::new(2, move |index| Ok(index * factor));
/// let named = BTreeMap::from([("one", part(1)), ("ten", part(10))]);
/// let stacked = StackDataset::new(named.into_iter().map(|(_, set)| set).collect::<Vec<_>>())?;
/// assert_eq!(stacked.get(1)?, [1, 10]);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait Columns: Send + Sync {
    /// One sample of each.
    type Sample;

    /// Tells the length of each.
    fn for_each_len(&self, tell: &mut dyn FnMut(usize));

    /// The samples at an index.
    ///
    /// # Errors
    /// Those of the parts.
    fn sample(&self, index: usize) -> Result<Self::Sample>;
}

macro_rules! columns_of_tuples {
    ($(($($name:ident $at:tt),+);)+) => {$(
        impl<$($name: Dataset),+> Columns for ($($name,)+) {
            type Sample = ($($name::Sample,)+);

            fn for_each_len(&self, tell: &mut dyn FnMut(usize)) {
                $(tell(self.$at.len());)+
            }

            fn sample(&self, index: usize) -> Result<Self::Sample> {
                Ok(($(self.$at.get(index)?,)+))
            }
        }
    )+};
}

columns_of_tuples! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

impl<D: Dataset> Columns for Vec<D> {
    type Sample = Vec<D::Sample>;

    fn for_each_len(&self, tell: &mut dyn FnMut(usize)) {
        self.iter().for_each(|part| tell(part.len()));
    }

    fn sample(&self, index: usize) -> Result<Self::Sample> {
        self.iter().map(|part| part.get(index)).collect()
    }
}

impl<K: Ord + Clone + Send + Sync, D: Dataset> Columns for BTreeMap<K, D> {
    type Sample = BTreeMap<K, D::Sample>;

    fn for_each_len(&self, tell: &mut dyn FnMut(usize)) {
        self.values().for_each(|part| tell(part.len()));
    }

    fn sample(&self, index: usize) -> Result<Self::Sample> {
        self.iter().map(|(key, part)| Ok((key.clone(), part.get(index)?))).collect()
    }
}
