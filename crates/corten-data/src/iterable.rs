//! Data sets whose samples come one after another.

use corten_core::Result;
use std::sync::Arc;

/// The samples of one pass.
pub type Samples<S> = Box<dyn Iterator<Item = Result<S>> + Send>;

/// Samples one after another, such as the lines of a stream.
///
/// With workers each thread iterates over the whole of it: a data set asks
/// [`worker_info`](crate::worker_info) which part is its own.
///
/// ```
/// use corten::data::{DataLoader, IterableDataset, Samples, worker_info};
/// use corten::prelude::*;
///
/// struct Count(i64);
///
/// impl IterableDataset for Count {
///     type Sample = i64;
///
///     fn iter(&self) -> Result<Samples<i64>> {
///         let (id, workers) = worker_info().map_or((0, 1), |info| (info.id(), info.num_workers()));
///         let end = self.0;
///         Ok(Box::new((id as i64..end).step_by(workers).map(Ok)))
///     }
/// }
///
/// let mut seen = Vec::new();
/// for batch in DataLoader::iterable(Count(10), 2).workers(2).iter()? {
///     seen.extend(batch?.to_vec::<i64>()?);
/// }
/// assert_eq!(seen, [0, 2, 1, 3, 4, 6, 5, 7, 8, 9]);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait IterableDataset: Send + Sync {
    /// One sample.
    type Sample;

    /// Begins a pass, in the thread that takes the samples.
    ///
    /// # Errors
    /// Whatever keeps the samples from being read.
    fn iter(&self) -> Result<Samples<Self::Sample>>;

    /// How many samples a pass has, where that is known.
    fn len_hint(&self) -> Option<usize> {
        None
    }
}

macro_rules! iterable_behind {
    ($($pointer:ty),+) => {$(
        impl<D: IterableDataset + ?Sized> IterableDataset for $pointer {
            type Sample = D::Sample;

            fn iter(&self) -> Result<Samples<D::Sample>> {
                (**self).iter()
            }

            fn len_hint(&self) -> Option<usize> {
                (**self).len_hint()
            }
        }
    )+};
}

iterable_behind!(Arc<D>, Box<D>);

/// Samples of the iterator that a function makes for each pass.
///
/// ```
/// use corten::data::{FnIterable, IterableDataset};
///
/// let words = FnIterable::new(|| Ok("a b c".split(' ').map(|word| Ok(word.to_owned()))));
/// assert_eq!(words.iter()?.count(), 3);
/// # Ok::<(), corten::Error>(())
/// ```
pub struct FnIterable<F>(F);

impl<S, I, F> FnIterable<F>
where
    I: Iterator<Item = Result<S>> + Send + 'static,
    F: Fn() -> Result<I> + Send + Sync,
{
    /// Samples of what `make` gives, which is called at the beginning of each pass.
    pub fn new(make: F) -> Self {
        Self(make)
    }
}

impl<S, I, F> IterableDataset for FnIterable<F>
where
    I: Iterator<Item = Result<S>> + Send + 'static,
    F: Fn() -> Result<I> + Send + Sync,
{
    type Sample = S;

    fn iter(&self) -> Result<Samples<S>> {
        Ok(Box::new((self.0)()?))
    }
}

/// Iterable data sets one after another.
///
/// ```
/// use corten::data::{ChainDataset, FnIterable, IterableDataset};
///
/// let part = |range: std::ops::Range<i64>| FnIterable::new(move || Ok(range.clone().map(Ok)));
/// let both = ChainDataset::new(vec![part(0..2), part(10..12)]);
/// assert_eq!(both.iter()?.collect::<corten::Result<Vec<i64>>>()?, [0, 1, 10, 11]);
/// # Ok::<(), corten::Error>(())
/// ```
pub struct ChainDataset<D> {
    datasets: Arc<[D]>,
}

impl<D: IterableDataset> ChainDataset<D> {
    /// The samples of all data sets.
    pub fn new(datasets: Vec<D>) -> Self {
        Self { datasets: datasets.into() }
    }
}

impl<D: IterableDataset + 'static> IterableDataset for ChainDataset<D>
where
    D::Sample: Send + 'static,
{
    type Sample = D::Sample;

    fn iter(&self) -> Result<Samples<D::Sample>> {
        let datasets = Arc::clone(&self.datasets);
        let parts = (0..datasets.len()).flat_map(move |part| match datasets[part].iter() {
            Ok(samples) => samples,
            Err(error) => Box::new(std::iter::once(Err(error))),
        });
        Ok(Box::new(parts))
    }

    fn len_hint(&self) -> Option<usize> {
        self.datasets.iter().map(IterableDataset::len_hint).sum()
    }
}
