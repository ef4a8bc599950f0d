//! Partitions of a range.

use std::ops::Range;

/// Some things in groups.
#[derive(Clone, Copy)]
pub(crate) struct Partition {
    pub count: usize,
    /// The things in a group; in so many of the first groups there is one more.
    size: usize,
    larger: usize,
    pub length: usize,
}

impl Partition {
    /// Groups of at most `most`, as equal as can be.
    pub(crate) fn of(length: usize, most: usize) -> Self {
        if length <= most {
            return Self { count: length.min(1), size: length, larger: 0, length };
        }
        let count = length.div_ceil(most);
        Self { count, size: length / count, larger: length % count, length }
    }

    /// Groups of `size`; the last one has what is left.
    pub(crate) fn whole(length: usize, size: usize) -> Self {
        Self { count: length.div_ceil(size), size, larger: 0, length }
    }

    /// The things of a group.
    #[inline]
    pub(crate) fn get(self, index: usize) -> Range<usize> {
        let start = |i: usize| (i * self.size + i.min(self.larger)).min(self.length);
        start(index)..start(index + 1)
    }

    /// How many groups there are of each of the two sizes.
    pub(crate) fn widths(self) -> impl Iterator<Item = (usize, usize)> {
        [(self.larger, self.size + 1), (self.count - self.larger, self.size)].into_iter()
    }

    /// The things of all groups.
    pub(crate) fn all(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.count).map(move |i| self.get(i))
    }
}

pub(crate) fn chunks(length: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(step).map(move |start| start..(start + step).min(length))
}
