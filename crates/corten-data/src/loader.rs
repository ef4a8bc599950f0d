//! Batches of a data set, fetched here or by threads.

use crate::batches::Batches;
use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::iterable::IterableDataset;
use crate::pin::{self, PinMemory};
use crate::pool::{Pool, PoolOptions};
use crate::sampler::{BatchSampler, Indices, RandomSampler, Sampler, SequentialSampler, draw_seed};
use crate::worker::{Fetcher, MakeFetcher, WorkerInfo, WorkerInit};
use corten_core::{
    Error, Generator, Result, default_cpu_generator, ensure, try_push, try_vec, warn,
};
use std::iter;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Makes a fetcher; the argument says whether a last batch that is not full is left out.
type Make<B> = dyn Fn(bool) -> Result<Fetcher<B>> + Send + Sync;
/// The threads of a pass that has ended, for the next one.
pub(crate) type Kept<B> = Arc<Mutex<Option<Box<Pool<B>>>>>;

/// Gives batches of a data set.
///
/// With workers, threads fetch ahead; neither the order of batches nor the random numbers that are
/// drawn depend on their number. Options that contradict each other are errors of
/// [`iter`](Self::iter), in PyTorch's words.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = op::arange(12.into(), None, None, None, None)?;
/// let loader = DataLoader::new(TensorDataset::new(vec![x])?, 4).shuffle(true).workers(2);
/// assert_eq!(loader.len(), Some(3));
/// for batch in &loader {
///     assert_eq!(batch?[0].sizes().as_slice(), [4]);
/// }
/// # Ok(())
/// # }
/// ```
pub struct DataLoader<B> {
    make: Arc<Make<B>>,
    source: Source,
    batch_size: Option<usize>,
    shuffle: bool,
    drop_last: bool,
    sampler: Option<Box<dyn Sampler<Item = usize>>>,
    batch_sampler: Option<Box<dyn Sampler<Item = Vec<usize>>>>,
    generator: Option<Generator>,
    workers: usize,
    prefetch_factor: Option<usize>,
    persistent_workers: bool,
    in_order: bool,
    timeout: Option<Duration>,
    worker_init: Option<Arc<WorkerInit>>,
    pin: Option<fn(B) -> Result<B>>,
    kept: Kept<B>,
}

/// How samples are found, and how many there are.
#[derive(Clone, Copy)]
enum Source {
    ByIndex(usize),
    OneByOne(Option<usize>),
}

impl<B: Send + 'static> DataLoader<B> {
    /// Batches of `batch_size` samples, in order, joined by [`Collate`].
    pub fn new<D>(dataset: D, batch_size: usize) -> Self
    where
        D: Dataset + 'static,
        D::Sample: Collate<Batch = B> + 'static,
    {
        Self::with_collate(dataset, batch_size, D::Sample::collate)
    }

    /// Batches that a function makes of `batch_size` samples.
    ///
    /// ```
    /// use corten::data::{DataLoader, FnDataset};
    ///
    /// let words = FnDataset::new(4, |index| Ok("ab".repeat(index)));
    /// let loader = DataLoader::with_collate(words, 2, |words| Ok(words.join("|")));
    /// let batches = loader.iter()?.collect::<corten::Result<Vec<_>>>()?;
    /// assert_eq!(batches, ["|ab", "abab|ababab"]);
    /// # Ok::<(), corten::Error>(())
    /// ```
    pub fn with_collate<D, C>(dataset: D, batch_size: usize, collate: C) -> Self
    where
        D: Dataset + 'static,
        D::Sample: 'static,
        C: Fn(Vec<D::Sample>) -> Result<B> + Send + Sync + 'static,
    {
        let (source, collate) = (Source::ByIndex(dataset.len()), Arc::new(collate));
        let dataset = Arc::new(dataset);
        Self::from_parts(source, Some(batch_size), move |_| {
            let (dataset, collate) = (Arc::clone(&dataset), Arc::clone(&collate));
            Ok(Box::new(move |indices| {
                Some(dataset.get_many(indices).and_then(|samples| collate(samples)))
            }))
        })
    }

    /// Single samples, as they are: for data sets whose samples are batches.
    ///
    /// ```
    /// use corten::data::{DataLoader, FnDataset};
    ///
    /// let loader = DataLoader::unbatched(FnDataset::new(3, Ok));
    /// assert_eq!(loader.iter()?.collect::<corten::Result<Vec<_>>>()?, [0, 1, 2]);
    /// # Ok::<(), corten::Error>(())
    /// ```
    pub fn unbatched<D: Dataset<Sample = B> + 'static>(dataset: D) -> Self {
        let (source, dataset) = (Source::ByIndex(dataset.len()), Arc::new(dataset));
        Self::from_parts(source, None, move |_| {
            let dataset = Arc::clone(&dataset);
            Ok(Box::new(move |indices| indices.first().map(|index| dataset.get(*index))))
        })
    }

    /// Batches of `batch_size` samples that come one after another, joined by [`Collate`].
    pub fn iterable<D>(dataset: D, batch_size: usize) -> Self
    where
        D: IterableDataset + 'static,
        D::Sample: Collate<Batch = B> + 'static,
    {
        Self::iterable_with_collate(dataset, batch_size, D::Sample::collate)
    }

    /// Batches that a function makes of `batch_size` samples that come one after another.
    pub fn iterable_with_collate<D, C>(dataset: D, batch_size: usize, collate: C) -> Self
    where
        D: IterableDataset + 'static,
        D::Sample: Send + 'static,
        C: Fn(Vec<D::Sample>) -> Result<B> + Send + Sync + 'static,
    {
        let (source, collate) = (Source::OneByOne(dataset.len_hint()), Arc::new(collate));
        Self::from_parts(source, Some(batch_size), move |drop_last| {
            let (mut samples, collate) = (dataset.iter()?.fuse(), Arc::clone(&collate));
            Ok(Box::new(move |indices| {
                let mut batch = Vec::new();
                for sample in samples.by_ref().take(indices.len()) {
                    if let Err(error) = sample.and_then(|sample| try_push(&mut batch, sample)) {
                        return Some(Err(error));
                    }
                }
                let short = batch.len() < indices.len() && drop_last;
                (!batch.is_empty() && !short).then(|| collate(batch))
            }))
        })
    }

    /// Single samples that come one after another, as they are.
    pub fn iterable_unbatched<D: IterableDataset<Sample = B> + 'static>(dataset: D) -> Self {
        Self::from_parts(Source::OneByOne(dataset.len_hint()), None, move |_| {
            let mut samples = dataset.iter()?.fuse();
            Ok(Box::new(move |_| samples.next()))
        })
    }

    fn from_parts(
        source: Source,
        batch_size: Option<usize>,
        make: impl Fn(bool) -> Result<Fetcher<B>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Arc::new(make),
            source,
            batch_size,
            shuffle: false,
            drop_last: false,
            sampler: None,
            batch_sampler: None,
            generator: None,
            workers: 0,
            prefetch_factor: None,
            persistent_workers: false,
            in_order: true,
            timeout: None,
            worker_init: None,
            pin: None,
            kept: Arc::default(),
        }
    }

    /// Random order, drawn anew at each pass.
    #[must_use]
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// Leaves out a last batch that is not full.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// The order, in place of [`shuffle`](Self::shuffle).
    #[must_use]
    pub fn sampler(mut self, sampler: impl Sampler<Item = usize> + 'static) -> Self {
        self.sampler = Some(Box::new(sampler));
        self
    }

    /// The order and the batches, in place of a batch size (1), a sampler and their options.
    #[must_use]
    pub fn batch_sampler(mut self, sampler: impl Sampler<Item = Vec<usize>> + 'static) -> Self {
        self.batch_sampler = Some(Box::new(sampler));
        self
    }

    /// Draws the order of [`shuffle`](Self::shuffle) and the seed of the workers from this
    /// generator, in place of the default one.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }

    /// How many threads fetch; with 0 the thread that asks does.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How many batches each thread may be ahead; 2 unless given.
    #[must_use]
    pub fn prefetch_factor(mut self, factor: usize) -> Self {
        self.prefetch_factor = Some(factor);
        self
    }

    /// Keeps the threads for the next pass.
    #[must_use]
    pub fn persistent_workers(mut self, persistent: bool) -> Self {
        self.persistent_workers = persistent;
        self
    }

    /// Whether batches come in the order of their indices, or as they are ready.
    #[must_use]
    pub fn in_order(mut self, in_order: bool) -> Self {
        self.in_order = in_order;
        self
    }

    /// How long a batch of the workers is waited for; without end unless given.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = (!timeout.is_zero()).then_some(timeout);
        self
    }

    /// A function that each worker calls before its first sample.
    #[must_use]
    pub fn worker_init(
        mut self,
        init: impl Fn(&WorkerInfo) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.worker_init = Some(Arc::new(init));
        self
    }

    /// Copies the tensors of batches to pinned memory, in the threads that fetch. Without a device
    /// this is warned of and not done.
    #[must_use]
    pub fn pin_memory(mut self, pin: bool) -> Self
    where
        B: PinMemory,
    {
        self.pin = pin.then_some(B::pin_memory);
        self
    }

    /// The number of batches of a pass; `None` for an iterable data set that does not know it.
    pub fn len(&self) -> Option<usize> {
        let samples = match (self.source, &self.batch_sampler, &self.sampler) {
            (Source::ByIndex(_), Some(batches), _) => return Some(batches.len()),
            (Source::ByIndex(_), None, Some(sampler)) => sampler.len(),
            (Source::ByIndex(samples), None, None) => samples,
            (Source::OneByOne(samples), ..) => samples?,
        };
        Some(match self.batch_size.map(|size| size.max(1)) {
            None => samples,
            Some(size) if self.drop_last => samples / size,
            Some(size) => samples.div_ceil(size),
        })
    }

    /// Whether a pass is known to have no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// One pass.
    ///
    /// # Errors
    /// `Value` for options that contradict each other; `Runtime` when threads cannot be started;
    /// those of beginning a pass over an iterable data set.
    pub fn iter(&self) -> Result<Batches<B>> {
        self.check()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(pool) = kept.as_mut() {
            pool.resume(self.tasks()?)?;
        }
        if let Some(pool) = kept {
            return Ok(Batches::of_threads(pool, Arc::clone(&self.kept), self.len()));
        }
        let make = self.fetchers();
        let tasks = self.tasks()?;
        // The seed is drawn whether there are workers or not: the stream must not depend on them.
        let base_seed = draw_seed(self.generator.as_ref().unwrap_or(default_cpu_generator()))?;
        if self.workers == 0 {
            return Ok(Batches::here(make()?, tasks, self.len()));
        }
        let options = PoolOptions {
            workers: self.workers,
            prefetch: self.prefetch_factor.unwrap_or(2).max(1),
            in_order: self.in_order,
            timeout: self.timeout,
            persistent: self.persistent_workers,
        };
        let init = self.worker_init.as_ref();
        let pool = Box::new(Pool::start(options, &make, init, base_seed, tasks)?);
        Ok(Batches::of_threads(pool, Arc::clone(&self.kept), self.len()))
    }

    /// What makes the fetchers of a pass, with pinning where that is asked for.
    fn fetchers(&self) -> Arc<MakeFetcher<B>> {
        let (make, drop_last) = (Arc::clone(&self.make), self.drop_last);
        let Some(pin) = self.pin else { return Arc::new(move || make(drop_last)) };
        if !pin::is_available() {
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device \
                 pinned memory won't be used.",
            );
            return Arc::new(move || make(drop_last));
        }
        Arc::new(move || {
            let mut fetch = make(drop_last)?;
            Ok(Box::new(move |indices| fetch(indices).map(|batch| batch.and_then(pin))))
        })
    }

    /// The indices of each batch; for iterable data sets, as many zeros as a batch has samples.
    fn tasks(&self) -> Result<Indices<Vec<usize>>> {
        if let (Source::OneByOne(_), size) = (self.source, self.batch_size.unwrap_or(1)) {
            return Ok(Box::new(iter::repeat_with(move || try_vec(0, size))));
        }
        if let Some(batches) = &self.batch_sampler {
            return batches.iter();
        }
        let sampler = self.order();
        match self.batch_size {
            Some(size) => BatchSampler::new(sampler, size, self.drop_last)?.iter(),
            None => Ok(Box::new(sampler.iter()?.map(|index| Ok(vec![index?])))),
        }
    }

    fn order(&self) -> Box<dyn Sampler<Item = usize> + '_> {
        let Source::ByIndex(samples) = self.source else { return Box::new(SequentialSampler(0)) };
        match (&self.sampler, &self.generator) {
            (Some(sampler), _) => Box::new(sampler),
            (None, _) if !self.shuffle => Box::new(SequentialSampler(samples)),
            (None, None) => Box::new(RandomSampler::new(samples)),
            (None, Some(given)) => Box::new(RandomSampler::new(samples).generator(given.clone())),
        }
    }

    fn check(&self) -> Result<()> {
        if self.workers == 0 {
            ensure!(self.timeout.is_none(), Value, "timeout must be 0 when num_workers is 0");
            ensure!(
                self.prefetch_factor.is_none(),
                Value,
                "prefetch_factor option could only be specified in multiprocessing.let num_workers \
                 > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            );
            ensure!(
                !self.persistent_workers,
                Value,
                "persistent_workers option needs num_workers > 0"
            );
        }
        ensure!(
            self.batch_size != Some(0),
            Value,
            "batch_size should be a positive integer value, but got batch_size=0"
        );
        self.check_order()
    }

    fn check_order(&self) -> Result<()> {
        if matches!(self.source, Source::OneByOne(_)) {
            let given = [
                (self.shuffle, "shuffle"),
                (self.sampler.is_some(), "sampler"),
                (self.batch_sampler.is_some(), "batch_sampler"),
            ];
            for (given, name) in given {
                ensure!(
                    !given,
                    Value,
                    "DataLoader with IterableDataset: expected unspecified {name} option"
                );
            }
        }
        ensure!(
            self.sampler.is_none() || !self.shuffle,
            Value,
            "sampler option is mutually exclusive with shuffle"
        );
        let others = self.shuffle || self.sampler.is_some() || self.drop_last;
        ensure!(
            self.batch_sampler.is_none() || (self.batch_size == Some(1) && !others),
            Value,
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and \
             drop_last"
        );
        ensure!(
            self.batch_size.is_some() || !self.drop_last,
            Value,
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        );
        Ok(())
    }
}

impl<B: Send + 'static> IntoIterator for &DataLoader<B> {
    type Item = Result<B>;
    type IntoIter = Batches<B>;

    /// One pass, whose first item is the error where it cannot begin.
    fn into_iter(self) -> Batches<B> {
        self.iter().unwrap_or_else(|error: Error| Batches::failed(error))
    }
}
