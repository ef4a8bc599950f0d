//! Tensors from values of Rust and back, and the rows of a tensor.

use crate::{Tensor, op};
use corten_core::{Element, Error, Result, ensure, err};

/// A vector as a tensor of one dimension, without a copy.
impl<T: Element> TryFrom<Vec<T>> for Tensor {
    type Error = Error;

    fn try_from(elements: Vec<T>) -> Result<Self> {
        let count =
            i64::try_from(elements.len()).map_err(|_| err!(Runtime, "too many elements"))?;
        Self::from_vec(elements, &[count])
    }
}

/// A copy of a slice as a tensor of one dimension.
impl<T: Element> TryFrom<&[T]> for Tensor {
    type Error = Error;

    fn try_from(elements: &[T]) -> Result<Self> {
        let count =
            i64::try_from(elements.len()).map_err(|_| err!(Runtime, "too many elements"))?;
        Self::from_slice(elements, &[count])
    }
}

/// A copy of an array as a tensor of one dimension.
impl<T: Element, const N: usize> TryFrom<[T; N]> for Tensor {
    type Error = Error;

    fn try_from(elements: [T; N]) -> Result<Self> {
        Self::try_from(&elements[..])
    }
}

/// The elements of a tensor of any shape in row-major order; the dtypes must be the same, while
/// [`Tensor::to_vec`] converts.
impl<T: Element> TryFrom<&Tensor> for Vec<T> {
    type Error = Error;

    fn try_from(tensor: &Tensor) -> Result<Self> {
        ensure!(
            tensor.dtype() == T::DTYPE,
            Type,
            "expected a tensor of {} but got one of {}",
            T::DTYPE,
            tensor.dtype()
        );
        tensor.to_vec()
    }
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        /// The only element of a tensor, converted.
        impl TryFrom<&Tensor> for $type {
            type Error = Error;

            fn try_from(tensor: &Tensor) -> Result<Self> {
                tensor.to_element()
            }
        }
    )+};
}

numbers!(f64, f32, i64, i32, u8, bool);

/// The rows of a tensor along its first dimension, as views.
///
/// ```
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![[1, 2], [3, 4]]?;
/// let sums = x.rows()?.map(|row| op::sum(&row?, None)?.to_element::<i64>());
/// assert_eq!(sums.collect::<Result<Vec<_>>>()?, [3, 7]);
/// # Ok(())
/// # }
/// ```
pub struct Rows<'a> {
    tensor: &'a Tensor,
    rows: std::ops::Range<i64>,
}

impl Tensor {
    /// The views along the first dimension.
    ///
    /// ```
    /// use corten::prelude::*;
    ///
    /// # fn main() -> Result<()> {
    /// let x = tensor![[1, 2], [3, 4]]?;
    /// let sums: Vec<i64> = x.rows()?.map(|row| row?.sum()?.to_element()).collect::<Result<_>>()?;
    /// assert_eq!(sums, [3, 7]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Type` for a tensor without dimensions.
    pub fn rows(&self) -> Result<Rows<'_>> {
        ensure!(self.dim() > 0, Type, "iteration over a 0-d tensor");
        Ok(Rows { tensor: self, rows: 0..self.size(0)? })
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Tensor>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next().map(|row| op::select_int(self.tensor, 0, row))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl DoubleEndedIterator for Rows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.rows.next_back().map(|row| op::select_int(self.tensor, 0, row))
    }
}
