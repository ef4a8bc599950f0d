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
        let groups = row.len().div_ceil(GROUP).next_multiple_of(PADDED_GROUPS);
        emptied(&mut self.scales, groups);
        emptied(&mut self.sums, groups * GROUP / 4);
        emptied(&mut self.half_sums, groups * 2);
        emptied(&mut self.halves, groups * 2);
        emptied(&mut self.totals, groups);
        let (whole, rest) = row.as_chunks::<GROUP>();
        for group in whole {
            self.push(group);
        }
        if !rest.is_empty() {
            let mut group = [0.0; GROUP];
            group[..rest.len()].copy_from_slice(rest);
            self.push(&group);
        }
        self.len = self.integers().len();
        while self.scales.len() < groups {
            self.push(&[0.0; GROUP]);
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

    /// Adds a group. Loops are those of vectors of any width; a group with an infinity or NaN has the scale NaN.
    fn push(&mut self, group: &[f32; GROUP]) {
        // The bits of positive floats are in the order of the floats, and those of NaN above all.
        let most =
            group.iter().fold(0, |most, element| (element.to_bits() as i32 & i32::MAX).max(most));
        let most = f32::from_bits(most as u32);
        let scale = if most.is_finite() { most / 127.0 } else { f32::NAN };
        let inverse = 1.0 / scale;
        let (scale, factor) = match inverse.is_infinite() {
            true => (0.0, 0.0),
            false if scale.is_nan() => (scale, 0.0),
            false => (scale, inverse),
        };
        let mut integers = [0i8; GROUP];
        for (to, &element) in integers.iter_mut().zip(group) {
            *to = rounded(element * factor);
        }
        let mut sums = [0i32; GROUP / 4];
        for (to, four) in sums.iter_mut().zip(integers.as_chunks::<4>().0) {
            *to = four.iter().map(|&integer| i32::from(integer)).sum();
        }
        let halves = [0, 1].map(|half| sums[4 * half..][..4].iter().sum::<i32>());
        self.sums.extend_from_slice(&sums);
        self.half_sums.extend_from_slice(&halves);
        self.halves.extend(halves.map(|half| scale * half as f32));
        self.totals.push(scale * (halves[0] + halves[1]) as f32);
        self.scales.push(scale);
        self.aligned.extend_from_slice(&integers);
    }
}

/// Empties a vector, which then has memory for so many elements.
fn emptied<T>(of: &mut Vec<T>, room: usize) {
    of.clear();
    of.reserve(room);
}

/// The nearest integer, half to even, of a number below 2^22: in this sum the unit of the last place is 1.
#[inline(always)]
fn rounded(number: f32) -> i8 {
    const SHIFT: f32 = 12_582_912.0;
    (number + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) as i8
}
