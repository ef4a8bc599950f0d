//! Activations as integers of 8 bits, for products with blocks.

/// Elements with one scale.
pub(crate) const GROUP: usize = 32;
/// Groups are padded with zeros to a multiple of so many, which kernels read at once.
const PADDED_GROUPS: usize = 8;
/// Vectors that are read across two cache lines take twice the time.
const CACHE_LINE: usize = 64;

/// A row of activations in 8 bits: a scale for each 32 elements, and the sums that zero points and minimums are
/// multiplied with.
///
/// ```
/// use corten_blocks::Activations;
///
/// let row = Activations::of(&[1.0; 64]);
/// assert_eq!(row.len(), 64);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Activations {
    /// Elements without the padding.
    len: usize,
    /// The integers from `start` on, where a cache line begins.
    aligned: Vec<i8>,
    start: usize,
    /// Of each group.
    pub(crate) scales: Vec<f32>,
    /// Sums of four integers each: what a zero point of the weights is multiplied with.
    pub(crate) sums: Vec<i32>,
    /// Sums of 16 integers each.
    pub(crate) half_sums: Vec<i32>,
    /// The sums of 16 elements each.
    pub(crate) halves: Vec<f32>,
    /// The sums of the groups.
    pub(crate) totals: Vec<f32>,
}

impl Activations {
    /// The elements of a row, zeros added up to a whole group.
    pub fn of(row: &[f32]) -> Self {
        let mut made = Self::default();
        made.set(row);
        made
    }

    /// Takes another row, in the memory of the one before.
    pub fn set(&mut self, row: &[f32]) {
        self.aligned.clear();
        self.aligned.reserve(row.len().next_multiple_of(GROUP * PADDED_GROUPS) + CACHE_LINE);
        self.start = self.aligned.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE);
        self.aligned.resize(self.start, 0);
        self.scales.clear();
        self.sums.clear();
        self.half_sums.clear();
        self.halves.clear();
        self.totals.clear();
        for group in row.chunks(GROUP) {
            self.push(group);
        }
        self.len = self.integers().len();
        while !self.scales.len().is_multiple_of(PADDED_GROUPS) {
            self.push(&[]);
        }
    }

    /// The number of elements, those that were added included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The groups that there are all numbers of, those of the padding included.
    pub(crate) fn groups(&self) -> usize {
        let (groups, halves) = (self.integers().len() / GROUP, self.halves.len() / 2);
        groups.min(halves).min(self.scales.len()).min(self.totals.len())
    }

    /// The integers, those of the padding included.
    #[inline(always)]
    pub(crate) fn integers(&self) -> &[i8] {
        &self.aligned[self.start..]
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn push(&mut self, group: &[f32]) {
        let most = group.iter().fold(0.0f32, |most, element| most.max(element.abs()));
        let scale = most / 127.0;
        let factor = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let mut integers = [0i8; GROUP];
        for (to, &element) in integers.iter_mut().zip(group) {
            *to = (element * factor).round_ties_even() as i8;
        }
        let sum = |part: &[i8]| part.iter().map(|&integer| i32::from(integer)).sum::<i32>();
        self.sums.extend(integers.chunks_exact(4).map(sum));
        self.half_sums.extend(integers.chunks_exact(16).map(sum));
        self.halves.extend(integers.chunks_exact(16).map(|half| scale * sum(half) as f32));
        self.totals.push(scale * sum(&integers) as f32);
        self.scales.push(scale);
        self.aligned.extend_from_slice(&integers);
    }
}
