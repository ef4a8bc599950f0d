//! What an index is made of, and how Rust values become one.

use crate::Tensor;
use corten_core::DType;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

/// One item of an index.
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
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// The type whose `None` inserts a dimension.
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
