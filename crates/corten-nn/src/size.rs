//! Sizes of windows in one to three dimensions.

use crate::print::Repr;
use std::ops::Deref;

/// `N` numbers, given as one for all or one for each dimension.
///
/// ```
/// use corten::nn::Size;
///
/// assert_eq!(*Size::<2>::from(3), [3, 3]);
/// assert_eq!(*Size::from([3, 5]), [3, 5]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size<const N: usize> {
    values: [i64; N],
    is_one: bool,
}

impl<const N: usize> From<i64> for Size<N> {
    fn from(value: i64) -> Self {
        Self { values: [value; N], is_one: true }
    }
}

impl<const N: usize> From<[i64; N]> for Size<N> {
    fn from(values: [i64; N]) -> Self {
        Self { values, is_one: false }
    }
}

impl<const N: usize> Deref for Size<N> {
    type Target = [i64; N];

    fn deref(&self) -> &[i64; N] {
        &self.values
    }
}

/// As it was given: PyTorch's pools keep numbers as numbers.
impl<const N: usize> Repr for Size<N> {
    fn repr(&self) -> String {
        if self.is_one { self.values[0].to_string() } else { self.values.repr() }
    }
}
