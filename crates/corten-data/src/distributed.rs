//! One part of the samples for each of several processes.

use crate::dataset::permutation;
use crate::sampler::{Indices, Sampler, lazily};
use corten_core::{Generator, Result, ensure, try_collect};
use std::sync::atomic::{AtomicU64, Ordering};

/// Every `num_replicas`-th index from `rank` on, of an order that the epoch changes.
///
/// All processes have the same number of samples: the order is repeated from its beginning where
/// it does not divide evenly, or cut with [`drop_last`](Self::drop_last). The numbers are
/// PyTorch's. A loader takes an `Arc` of it, so that the epoch can be set between passes.
///
/// ```
/// use corten::data::{DistributedSampler, Sampler};
///
/// let parts: Vec<Vec<usize>> = (0..2)
///     .map(|rank| DistributedSampler::new(5, 2, rank)?.shuffle(false).indices())
///     .collect::<corten::Result<_>>()?;
/// assert_eq!(parts, [[0, 2, 4], [1, 3, 0]]);
/// # Ok::<(), corten::Error>(())
/// ```
pub struct DistributedSampler {
    samples: usize,
    replicas: usize,
    rank: usize,
    shuffle: bool,
    seed: u64,
    drop_last: bool,
    epoch: AtomicU64,
}

impl DistributedSampler {
    /// The part of process `rank` of `replicas`, shuffled with seed 0.
    ///
    /// # Errors
    /// `Value` for a rank that is not below `replicas`.
    pub fn new(samples: usize, replicas: usize, rank: usize) -> Result<Self> {
        ensure!(
            rank < replicas,
            Value,
            "Invalid rank {rank}, rank should be in the interval [0, {}]",
            replicas as i64 - 1
        );
        let (shuffle, seed, drop_last) = (true, 0, false);
        Ok(Self { samples, replicas, rank, shuffle, seed, drop_last, epoch: AtomicU64::new(0) })
    }

    /// Whether the order is random.
    #[must_use]
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = shuffle;
        self
    }

    /// The seed of the order, the same in all processes.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Leaves out the last samples where they do not divide evenly.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }

    /// Changes the order of the next passes.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }
}

impl Sampler for DistributedSampler {
    type Item = usize;

    fn iter(&self) -> Result<Indices> {
        let (samples, rank, replicas) = (self.samples, self.rank, self.replicas);
        let count = self.len();
        let seed = self.seed.wrapping_add(self.epoch.load(Ordering::Relaxed));
        let shuffle = self.shuffle;
        Ok(lazily(move || {
            let order = if shuffle {
                permutation(samples, &Generator::cpu(seed))?
            } else {
                try_collect(0..samples)?
            };
            Ok((0..count).map(move |turn| order[(rank + turn * replicas) % samples]))
        }))
    }

    fn len(&self) -> usize {
        if self.drop_last {
            self.samples / self.replicas
        } else {
            self.samples.div_ceil(self.replicas)
        }
    }
}
