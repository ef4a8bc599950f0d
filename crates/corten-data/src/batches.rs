//! One pass over a loader.

use crate::loader::Kept;
use crate::pool::Pool;
use crate::sampler::Indices;
use crate::worker::Fetcher;
use corten_core::{Error, Result};
use std::sync::PoisonError;

/// The batches of one pass. After an error the pass goes on with the next batch.
///
/// ```
/// use corten::data::{DataLoader, FnDataset};
///
/// let mut batches = DataLoader::new(FnDataset::new(5, |index| Ok(index as i64)), 2).iter()?;
/// assert_eq!(batches.size_hint(), (3, Some(3)));
/// assert_eq!(batches.next().unwrap()?.to_vec::<i64>()?, [0, 1]);
/// # Ok::<(), corten::Error>(())
/// ```
pub struct Batches<B: Send + 'static> {
    source: Source<B>,
    left: Option<usize>,
}

enum Source<B> {
    Here(Fetcher<B>, Indices<Vec<usize>>),
    Threads(Box<Pool<B>>, Kept<B>),
    Failed(Error),
    Ended,
}

impl<B: Send + 'static> Batches<B> {
    pub(crate) fn here(
        fetch: Fetcher<B>,
        tasks: Indices<Vec<usize>>,
        total: Option<usize>,
    ) -> Self {
        Self { source: Source::Here(fetch, tasks), left: total }
    }

    pub(crate) fn of_threads(pool: Box<Pool<B>>, kept: Kept<B>, total: Option<usize>) -> Self {
        Self { source: Source::Threads(pool, kept), left: total }
    }

    pub(crate) fn failed(error: Error) -> Self {
        Self { source: Source::Failed(error), left: None }
    }

    /// Ends the pass: threads are kept for the next one, or end.
    fn end(&mut self) {
        if let Source::Threads(pool, kept) = std::mem::replace(&mut self.source, Source::Ended)
            && pool.is_reusable()
        {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool);
        }
    }
}

impl<B: Send + 'static> Iterator for Batches<B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        let batch = match &mut self.source {
            Source::Here(fetch, tasks) => match tasks.next() {
                Some(indices) => match indices {
                    Ok(indices) => fetch(&indices),
                    Err(error) => Some(Err(error)),
                },
                None => None,
            },
            Source::Threads(pool, _) => pool.next_batch(),
            Source::Failed(_) => match std::mem::replace(&mut self.source, Source::Ended) {
                Source::Failed(error) => Some(Err(error)),
                _ => None,
            },
            Source::Ended => None,
        };
        match &batch {
            Some(_) => self.left = self.left.map(|left| left.saturating_sub(1)),
            None => self.end(),
        }
        batch
    }

    /// What the lengths of samplers and data sets promise.
    fn size_hint(&self) -> (usize, Option<usize>) {
        match (&self.source, self.left) {
            (Source::Ended, _) => (0, Some(0)),
            (_, Some(left)) => (left, Some(left)),
            (_, None) => (0, None),
        }
    }
}

impl<B: Send + 'static> Drop for Batches<B> {
    fn drop(&mut self) {
        self.end();
    }
}
