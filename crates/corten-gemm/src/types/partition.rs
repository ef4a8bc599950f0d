//! Partitions of a range into parts.

use std::ops::Range;

/// A range in consecutive parts.
#[derive(Clone, Copy)]
pub(crate) struct Partition {
    pub count: usize,
    /// The length of a part; the first `larger` parts have one more.
    size: usize,
    larger: usize,
    pub length: usize,
}

impl Partition {
    /// As few parts of at most `most` as possible, of nearly equal lengths.
    pub(crate) fn of(length: usize, most: usize) -> Self {
        if length <= most {
            return Self { count: length.min(1), size: length, larger: 0, length };
        }
        let count = length.div_ceil(most);
        Self { count, size: length / count, larger: length % count, length }
    }

    /// Parts of `size`; the last one has the remainder.
    pub(crate) fn whole(length: usize, size: usize) -> Self {
        Self { count: length.div_ceil(size), size, larger: 0, length }
    }

    /// The range of a part.
    #[inline]
    pub(crate) fn get(self, index: usize) -> Range<usize> {
        let start = |i: usize| (i * self.size + i.min(self.larger)).min(self.length);
        start(index)..start(index + 1)
    }

    /// The two lengths, and how many parts have each.
    pub(crate) fn widths(self) -> impl Iterator<Item = (usize, usize)> {
        [(self.larger, self.size + 1), (self.count - self.larger, self.size)].into_iter()
    }

    /// The ranges of all parts.
    pub(crate) fn all(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.count).map(move |i| self.get(i))
    }
}

pub(crate) fn chunks(length: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(step).map(move |start| start..(start + step).min(length))
}
