//! Batches of a data set, fetched here or by threads.

use crate::collate::Collate;
use crate::dataset::Dataset;
use crate::sampler::{BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed};
use crate::worker::{Fetch, Pool};
use corten_core::{Error, ErrorKind, Result, default_cpu_generator};
use std::sync::Arc;

/// Gives batches of a data set, in the order of a sampler.
///
/// With workers, threads fetch ahead; the order of batches and the random numbers drawn do not
/// depend on their number.
pub struct DataLoader<D> {
    dataset: Arc<D>,
    batch_size: usize,
    shuffle: bool,
    drop_last: bool,
    workers: usize,
    prefetch: usize,
    sampler: Option<Box<dyn Sampler>>,
}

impl<D> DataLoader<D>
where
    D: Dataset + 'static,
    D::Sample: Collate + 'static,
{
    /// Batches of `batch_size` samples, in order, fetched by the thread that asks.
    pub fn new(dataset: D, batch_size: usize) -> Self {
        Self {
            dataset: Arc::new(dataset),
            batch_size,
            shuffle: false,
            drop_last: false,
            workers: 0,
            prefetch: 2,
            sampler: None,
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

    /// How many threads fetch.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How many batches each thread may be ahead.
    #[must_use]
    pub fn prefetch(mut self, prefetch: usize) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// The order, in place of [`shuffle`](Self::shuffle).
    #[must_use]
    pub fn sampler(mut self, sampler: impl Sampler + 'static) -> Self {
        self.sampler = Some(Box::new(sampler));
        self
    }

    /// The number of batches of a pass.
    pub fn len(&self) -> usize {
        let samples = self.sampler.as_ref().map_or(self.dataset.len(), |sampler| sampler.len());
        if self.drop_last { samples / self.batch_size } else { samples.div_ceil(self.batch_size) }
    }

    /// Whether a pass has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One pass.
    ///
    /// # Errors
    /// `Value` for batch size 0, `Runtime` when threads cannot be started.
    pub fn iter(&self) -> Result<Batches<<D::Sample as Collate>::Batch>> {
        // PyTorch draws a seed for its workers here, whether it has any or not.
        draw_seed(default_cpu_generator())?;
        let batches = self.batches()?;
        let dataset = Arc::clone(&self.dataset);
        let fetch: Arc<Fetch<_>> = Arc::new(move |indices: &[usize]| {
            let samples = indices.iter().map(|index| dataset.get(*index)).collect::<Result<_>>()?;
            D::Sample::collate(samples)
        });
        let total = batches.len();
        let source = if self.workers == 0 {
            Source::Here(fetch, batches)
        } else {
            let ahead = self.workers * self.prefetch;
            Source::Threads(Pool::start(fetch, batches, self.workers, ahead)?)
        };
        Ok(Batches { source, next: 0, total })
    }

    fn batches(&self) -> Result<Vec<Vec<usize>>> {
        let samples = self.dataset.len();
        let random = RandomSampler::new(samples, None);
        let sampler: &dyn Sampler = match &self.sampler {
            Some(sampler) => &**sampler,
            None if self.shuffle => &random,
            None => &SequentialSampler(samples),
        };
        BatchSampler::new(sampler, self.batch_size, self.drop_last)?.batches()
    }
}

enum Source<B> {
    Here(Arc<Fetch<B>>, Vec<Vec<usize>>),
    Threads(Pool<B>),
}

/// The batches of one pass, in order. After an error the pass goes on with the next batch.
pub struct Batches<B> {
    source: Source<B>,
    next: usize,
    total: usize,
}

impl<B: Send + 'static> Iterator for Batches<B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        if self.next == self.total {
            return None;
        }
        let number = self.next;
        self.next += 1;
        Some(match &mut self.source {
            Source::Here(fetch, batches) => fetch(&batches[number]),
            Source::Threads(pool) => pool.take(number).unwrap_or_else(|| {
                Err(Error::new(ErrorKind::Internal, "a loader thread ended early".to_owned()))
            }),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.total - self.next, Some(self.total - self.next))
    }
}

impl<B: Send + 'static> ExactSizeIterator for Batches<B> {}
