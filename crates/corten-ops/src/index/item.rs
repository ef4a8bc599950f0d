//! What an index is made of, and how Rust values become one.

use crate::Tensor;
use corten_core::DType;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

/// One item of an index.
///
/// ```
/// use corten::ops::index::IndexItem;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![[1, 2, 3], [4, 5, 6]]?;
/// let index = vec![IndexItem::Ellipsis, IndexItem::Int(-1)];
/// assert_eq!(x.i(index)?.to_vec::<i64>()?, [3, 6]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub enum IndexItem {
    /// Selects one position; the dimension goes.
    Int(i64),
    /// Keeps a range.
    Slice(Slice),
    /// Inserts a dimension of size 1.
    None,
    /// Stands for as many whole dimensions as are left.
    Ellipsis,
    /// Inserts a dimension and keeps everything or nothing.
    Bool(bool),
    /// Integers that pick positions, or a mask.
    Tensor(Tensor),
}

impl IndexItem {
    /// A range with another step; other items as they are.
    #[must_use]
    pub fn step(self, step: i64) -> Self {
        match self {
            Self::Slice(slice) => Self::Slice(Slice { step: Some(step), ..slice }),
            other => other,
        }
    }

    /// The number of dimensions of the tensor that the item is for.
    pub(crate) fn dimensions(&self) -> usize {
        match self {
            Self::Int(_) | Self::Slice(_) => 1,
            Self::None | Self::Ellipsis | Self::Bool(_) => 0,
            Self::Tensor(tensor) => match tensor.dtype() {
                DType::Bool | DType::UInt8 => tensor.dim(),
                _ => 1,
            },
        }
    }
}

/// A range of positions with a step; negative bounds count from the end.
///
/// ```
/// use corten::ops::index::Slice;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![0, 1, 2, 3, 4]?;
/// let odd = Slice { start: Some(1), step: Some(2), ..Default::default() };
/// assert_eq!(x.i(odd)?.to_vec::<i64>()?, [1, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The first position.
    pub start: Option<i64>,
    /// The position after the last.
    pub stop: Option<i64>,
    /// The distance between positions.
    pub step: Option<i64>,
}

/// Stands for as many whole dimensions as are left.
///
/// ```
/// use corten::ops::index::Ellipsis;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = Tensor::zeros([2, 3, 4])?;
/// assert_eq!(x.i((Ellipsis, 0))?.sizes().to_vec(), [2, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// The type whose `None` inserts a dimension.
///
/// ```
/// use corten::ops::index::NewAxis;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let none: Option<NewAxis> = None;
/// assert_eq!(tensor![1, 2]?.i((.., none))?.sizes().to_vec(), [2, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum NewAxis {}

impl From<Ellipsis> for IndexItem {
    fn from(_: Ellipsis) -> Self {
        Self::Ellipsis
    }
}

impl From<Option<NewAxis>> for IndexItem {
    fn from(_: Option<NewAxis>) -> Self {
        Self::None
    }
}

impl From<bool> for IndexItem {
    fn from(chosen: bool) -> Self {
        Self::Bool(chosen)
    }
}

impl From<Tensor> for IndexItem {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<&Tensor> for IndexItem {
    fn from(tensor: &Tensor) -> Self {
        Self::Tensor(tensor.clone())
    }
}

impl From<Slice> for IndexItem {
    fn from(slice: Slice) -> Self {
        Self::Slice(slice)
    }
}

impl From<RangeFull> for IndexItem {
    fn from(_: RangeFull) -> Self {
        Self::Slice(Slice::default())
    }
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl From<$type> for IndexItem {
            fn from(index: $type) -> Self {
                Self::Int(index as i64)
            }
        }

        impl From<Range<$type>> for IndexItem {
            fn from(range: Range<$type>) -> Self {
                slice(Some(range.start as i64), Some(range.end as i64))
            }
        }

        impl From<RangeFrom<$type>> for IndexItem {
            fn from(range: RangeFrom<$type>) -> Self {
                slice(Some(range.start as i64), None)
            }
        }

        impl From<RangeTo<$type>> for IndexItem {
            fn from(range: RangeTo<$type>) -> Self {
                slice(None, Some(range.end as i64))
            }
        }

        impl From<RangeInclusive<$type>> for IndexItem {
            fn from(range: RangeInclusive<$type>) -> Self {
                let end = *range.end() as i64;
                // The position after -1 is the end itself.
                slice(Some(*range.start() as i64), (end != -1).then_some(end + 1))
            }
        }
    )+};
}

integers!(i32, i64, usize);

fn slice(start: Option<i64>, stop: Option<i64>) -> IndexItem {
    IndexItem::Slice(Slice { start, stop, step: None })
}

/// A single item or a tuple of items.
///
/// ```
/// use corten::ops::index::IntoIndex;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// /// The first two columns, whatever is said of the rows.
/// fn columns(x: &Tensor, rows: i64) -> Result<Tensor> {
///     x.i((rows, 0..2).into_index())
/// }
/// assert_eq!(columns(&tensor![[1, 2, 3], [4, 5, 6]]?, 1)?.to_vec::<i64>()?, [4, 5]);
/// # Ok(())
/// # }
/// ```
pub trait IntoIndex {
    /// The items, left to right.
    fn into_index(self) -> Vec<IndexItem>;
}

impl<T: Into<IndexItem>> IntoIndex for T {
    fn into_index(self) -> Vec<IndexItem> {
        vec![self.into()]
    }
}

impl IntoIndex for Vec<IndexItem> {
    fn into_index(self) -> Self {
        self
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))+) => {$(
        impl<$($name: Into<IndexItem>),+> IntoIndex for ($($name,)+) {
            #[allow(non_snake_case)]
            fn into_index(self) -> Vec<IndexItem> {
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    )+};
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
