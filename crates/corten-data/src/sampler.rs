//! The order in which samples are taken.

use crate::dataset::permutation;
use corten_core::{
    DType, Generator, Result, default_cpu_generator, ensure, try_collect, try_push, try_to_vec,
};
use corten_ops::{Tensor, op};
use std::iter;
use std::sync::Arc;

/// Indices of one pass, drawn as they are asked for.
pub type Indices<T = usize> = Box<dyn Iterator<Item = Result<T>> + Send>;

/// Gives the indices of one pass: those of samples, or, with `Item = Vec<usize>`, those of batches.
///
/// ```
/// use corten::data::{Indices, Sampler};
/// use corten::prelude::*;
///
/// /// Every second sample.
/// struct Even(usize);
///
/// impl Sampler for Even {
///     type Item = usize;
///
///     fn iter(&self) -> Result<Indices> {
///         Ok(Box::new((0..self.0).step_by(2).map(Ok)))
///     }
///
///     fn len(&self) -> usize {
///         self.0.div_ceil(2)
///     }
/// }
///
/// assert_eq!(Even(5).indices()?, [0, 2, 4]);
/// # Ok::<(), corten::Error>(())
/// ```
pub trait Sampler: Send + Sync {
    /// An index, or the indices of a batch.
    type Item: Send + 'static;

    /// Begins a pass. Random numbers are drawn when the first index is asked for.
    ///
    /// # Errors
    /// `Value` for settings that cannot be, such as none to draw from.
    fn iter(&self) -> Result<Indices<Self::Item>>;

    /// How many items one pass has.
    fn len(&self) -> usize;

    /// Whether a pass is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All items of one pass.
    ///
    /// # Errors
    /// Those of beginning the pass and of drawing random numbers.
    fn indices(&self) -> Result<Vec<Self::Item>> {
        let mut found = Vec::new();
        for item in self.iter()? {
            try_push(&mut found, item?)?;
        }
        Ok(found)
    }
}

macro_rules! sampler_behind {
    ($($pointer:ty),+) => {$(
        impl<S: Sampler + ?Sized> Sampler for $pointer {
            type Item = S::Item;

            fn iter(&self) -> Result<Indices<S::Item>> {
                (**self).iter()
            }

            fn len(&self) -> usize {
                (**self).len()
            }
        }
    )+};
}

sampler_behind!(&S, Box<S>, Arc<S>);

/// An iterator that is made when its first item is asked for.
pub(crate) fn lazily<T, I, F>(make: F) -> Indices<T>
where
    T: Send + 'static,
    I: Iterator<Item = T> + Send + 'static,
    F: FnOnce() -> Result<I> + Send + 'static,
{
    Box::new(iter::once_with(make).flat_map(|made| {
        let (items, error) = match made {
            Ok(items) => (Some(items), None),
            Err(error) => (None, Some(Err(error))),
        };
        items.into_iter().flatten().map(Ok).chain(error)
    }))
}

/// 0, 1, 2, …
///
/// ```
/// use corten::data::{Sampler, SequentialSampler};
///
/// assert_eq!(SequentialSampler(3).indices()?, [0, 1, 2]);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SequentialSampler(pub usize);

impl Sampler for SequentialSampler {
    type Item = usize;

    fn iter(&self) -> Result<Indices> {
        Ok(Box::new((0..self.0).map(Ok)))
    }

    fn len(&self) -> usize {
        self.0
    }
}

/// All indices in random order, or indices drawn with replacement.
///
/// Without a generator each pass has a generator of its own, seeded from the default one. The
/// numbers are PyTorch's for the same seed.
///
/// ```
/// use corten::data::{RandomSampler, Sampler};
/// use corten::Generator;
///
/// let all = RandomSampler::new(10).generator(Generator::cpu(0)).indices()?;
/// assert_eq!(all, [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]);
/// let drawn = RandomSampler::new(10).replacement(true).num_samples(25).indices()?;
/// assert_eq!(drawn.len(), 25);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct RandomSampler {
    source: usize,
    replacement: bool,
    num_samples: Option<usize>,
    generator: Option<Generator>,
}

impl RandomSampler {
    /// Orders of the indices below `len`.
    pub fn new(len: usize) -> Self {
        Self { source: len, replacement: false, num_samples: None, generator: None }
    }

    /// Whether an index may be drawn more than once.
    #[must_use]
    pub fn replacement(mut self, replacement: bool) -> Self {
        self.replacement = replacement;
        self
    }

    /// How many indices one pass has; all of them unless given. Beyond the number of samples,
    /// passes without replacement are one permutation after another.
    #[must_use]
    pub fn num_samples(mut self, count: usize) -> Self {
        self.num_samples = Some(count);
        self
    }

    /// Draws from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }
}

/// With replacement this many indices are drawn at once, as PyTorch draws them.
const DRAWN_AT_ONCE: usize = 32;

impl Sampler for RandomSampler {
    type Item = usize;

    fn iter(&self) -> Result<Indices> {
        let (source, wanted) = (self.source, self.len());
        ensure!(
            wanted > 0,
            Value,
            "num_samples should be a positive integer value, but got num_samples={wanted}"
        );
        ensure!(source > 0, Value, "there are no samples to draw from");
        let (given, replacement) = (self.generator.clone(), self.replacement);
        let chunk = if replacement { DRAWN_AT_ONCE } else { source };
        // Without replacement a last permutation is drawn even where none of it is left to give.
        let rounds = if replacement { wanted.div_ceil(chunk) } else { wanted / chunk + 1 };
        let passes = lazily(move || {
            let generator = match given {
                Some(generator) => generator,
                None => Generator::cpu(draw_seed(default_cpu_generator())?),
            };
            Ok((0..rounds).map(move |round| {
                let count = chunk.min(wanted - round * chunk);
                let mut drawn = if replacement {
                    integers(source, count, &generator)?
                } else {
                    permutation(source, &generator)?
                };
                drawn.truncate(count);
                Ok(drawn)
            }))
        });
        Ok(Box::new(passes.flat_map(|round| each(round.and_then(|drawn| drawn)))))
    }

    fn len(&self) -> usize {
        self.num_samples.unwrap_or(self.source)
    }
}

/// The indices, or the error.
fn each(drawn: Result<Vec<usize>>) -> impl Iterator<Item = Result<usize>> {
    let (indices, error) = match drawn {
        Ok(indices) => (indices, None),
        Err(error) => (Vec::new(), Some(Err(error))),
    };
    indices.into_iter().map(Ok).chain(error)
}

/// A seed as PyTorch draws it: one integer of the full range.
pub(crate) fn draw_seed(generator: &Generator) -> Result<u64> {
    let drawn = op::empty_memory_format(&[], Some(DType::Int64), None, None, None, None)?;
    Ok(op::random_(&drawn, Some(generator))?.to_element::<i64>()? as u64)
}

/// `count` integers from 0 to `high` − 1.
pub(crate) fn integers(high: usize, count: usize, generator: &Generator) -> Result<Vec<usize>> {
    let size = [count as i64];
    let drawn = op::randint_generator(high as i64, &size, Some(generator), None, None, None, None)?;
    indices_of(&drawn)
}

/// The elements of a tensor as indices.
pub(crate) fn indices_of(drawn: &Tensor) -> Result<Vec<usize>> {
    try_collect(drawn.to_vec::<i64>()?.into_iter().map(|index| index as usize))
}

/// Given indices in random order.
///
/// ```
/// use corten::Generator;
/// use corten::data::{Sampler, SubsetRandomSampler};
///
/// let sampler = SubsetRandomSampler::new(vec![5, 7, 9]).generator(Generator::cpu(0));
/// let mut order = sampler.indices()?;
/// order.sort();
/// assert_eq!(order, [5, 7, 9]);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct SubsetRandomSampler {
    indices: Arc<[usize]>,
    generator: Option<Generator>,
}

impl SubsetRandomSampler {
    /// Orders of these indices, drawn from the default generator.
    pub fn new(indices: Vec<usize>) -> Self {
        Self { indices: indices.into(), generator: None }
    }

    /// Draws from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }
}

impl Sampler for SubsetRandomSampler {
    type Item = usize;

    fn iter(&self) -> Result<Indices> {
        let sampler = self.clone();
        Ok(lazily(move || {
            let generator = sampler.generator.as_ref().unwrap_or(default_cpu_generator());
            let order = permutation(sampler.indices.len(), generator)?;
            Ok(order.into_iter().map(move |place| sampler.indices[place]))
        }))
    }

    fn len(&self) -> usize {
        self.indices.len()
    }
}

/// Indices drawn with given weights.
///
/// ```
/// use corten::data::{Sampler, WeightedRandomSampler};
/// use corten::prelude::*;
///
/// let sampler = WeightedRandomSampler::new(&tensor![0.0, 1.0, 0.0]?, 4)?;
/// assert_eq!(sampler.indices()?, [1, 1, 1, 1]);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct WeightedRandomSampler {
    weights: Tensor,
    count: usize,
    replacement: bool,
    generator: Option<Generator>,
}

impl WeightedRandomSampler {
    /// `count` indices a pass, drawn with replacement.
    ///
    /// # Errors
    /// `Value` unless the weights are one-dimensional and `count` is positive.
    pub fn new(weights: &Tensor, count: usize) -> Result<Self> {
        ensure!(
            count > 0,
            Value,
            "num_samples should be a positive integer value, but got num_samples=0"
        );
        ensure!(
            weights.dim() == 1,
            Value,
            "weights should be a 1d sequence but given weights have shape {:?}",
            weights.sizes().as_slice()
        );
        let weights = op::to_dtype(weights, DType::Float64, false, false, None)?;
        Ok(Self { weights, count, replacement: true, generator: None })
    }

    /// Whether an index may be drawn more than once.
    #[must_use]
    pub fn replacement(mut self, replacement: bool) -> Self {
        self.replacement = replacement;
        self
    }

    /// Draws from this generator.
    #[must_use]
    pub fn generator(mut self, generator: Generator) -> Self {
        self.generator = Some(generator);
        self
    }
}

impl Sampler for WeightedRandomSampler {
    type Item = usize;

    fn iter(&self) -> Result<Indices> {
        let sampler = self.clone();
        Ok(lazily(move || {
            let (count, generator) = (sampler.count as i64, sampler.generator.as_ref());
            let drawn = op::multinomial(&sampler.weights, count, sampler.replacement, generator)?;
            Ok(indices_of(&drawn)?.into_iter())
        }))
    }

    fn len(&self) -> usize {
        self.count
    }
}

/// Lists of indices of another sampler.
///
/// ```
/// use corten::data::{BatchSampler, Sampler, SequentialSampler};
///
/// let batches = BatchSampler::new(SequentialSampler(5), 2, false)?;
/// assert_eq!(batches.indices()?, [vec![0, 1], vec![2, 3], vec![4]]);
/// # Ok::<(), corten::Error>(())
/// ```
#[derive(Clone)]
pub struct BatchSampler<S> {
    sampler: S,
    size: usize,
    drop_last: bool,
}

impl<S: Sampler<Item = usize>> BatchSampler<S> {
    /// Batches of `size`, of which the last may be shorter unless `drop_last`.
    ///
    /// # Errors
    /// `Value` for size 0.
    pub fn new(sampler: S, size: usize, drop_last: bool) -> Result<Self> {
        ensure!(
            size > 0,
            Value,
            "batch_size should be a positive integer value, but got batch_size=0"
        );
        Ok(Self { sampler, size, drop_last })
    }
}

impl<S: Sampler<Item = usize>> Sampler for BatchSampler<S> {
    type Item = Vec<usize>;

    fn iter(&self) -> Result<Indices<Vec<usize>>> {
        // Asked again after its end, which an iterator need not repeat.
        let mut indices = self.sampler.iter()?.fuse();
        let (size, drop_last) = (self.size, self.drop_last);
        let mut batch = Vec::new();
        Ok(Box::new(iter::from_fn(move || {
            batch.clear();
            for index in indices.by_ref().take(size) {
                match index.and_then(|index| try_push(&mut batch, index)) {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
            let short = batch.len() < size && drop_last;
            (!batch.is_empty() && !short).then(|| try_to_vec(&batch))
        })))
    }

    fn len(&self) -> usize {
        let samples = self.sampler.len();
        if self.drop_last { samples / self.size } else { samples.div_ceil(self.size) }
    }
}
