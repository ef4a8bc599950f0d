//! Lists of which the first elements lie in place.
//!
//! The places that nothing lies in yet hold default values, so that an element is filled where it
//! stays, see Note [Nodes in place], and a list is dropped without asking where it lies.

use crate::node::{Edge, InputMetadata};
use crate::saved::Saved;
use corten_core::{Make, TensorBase, make_boxed};
use corten_ops::IValue;
use smallvec::SmallVec;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// An element of a list with `N` places.
pub(crate) trait InPlace<const N: usize>: Default {
    /// Free places. Each is written out: what a loop makes, that of the standard library too, is laid
    /// on the stack whole, with the bytes between the fields, before it is copied.
    fn free() -> [Self; N];
}

macro_rules! in_place {
    ($($element:ty: $count:literal = [$($default:ident),+];)+) => {$(
        impl InPlace<$count> for $element {
            #[inline(always)]
            fn free() -> [Self; $count] {
                [$(Self::$default()),+]
            }
        }
    )+};
}

in_place! {
    Edge: 3 = [default, default, default];
    InputMetadata: 1 = [default];
    IValue: 1 = [default];
    Saved: 2 = [default, default];
    i64: 5 = [default, default, default, default, default];
}

/// A list of which the first `N` elements need no memory of their own.
pub(crate) struct InlineVec<T, const N: usize> {
    len: u32,
    places: [T; N],
    /// All elements, once there are more than `N`.
    more: Option<Box<More<T>>>,
}

/// With room for what most operators save that save many values: one block is enough for them.
struct More<T>(SmallVec<[T; 8]>);

/// Makes a list without elements.
struct NoMore;

impl<T> Make<More<T>> for NoMore {
    #[inline(always)]
    fn make(self) -> More<T> {
        More(SmallVec::new_const())
    }
}

impl<T: InPlace<N>, const N: usize> Default for InlineVec<T, N> {
    #[inline(always)]
    fn default() -> Self {
        Self { len: 0, places: T::free(), more: None }
    }
}

impl<T: Default, const N: usize> InlineVec<T, N> {
    /// Adds a default element, to be filled.
    #[inline(always)]
    pub(crate) fn add(&mut self) -> &mut T {
        let at = self.len as usize;
        if at < N {
            self.len += 1;
            return &mut self.places[at];
        }
        self.add_more()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, element: T) {
        *self.add() = element;
    }

    #[cold]
    #[inline(never)]
    fn add_more(&mut self) -> &mut T {
        let places = &mut self.places;
        let more = self.more.get_or_insert_with(|| {
            let mut more = make_boxed(NoMore);
            more.0.extend(places.iter_mut().map(std::mem::take));
            more
        });
        let at = more.0.len();
        more.0.push(T::default());
        &mut more.0[at]
    }
}

/// The sizes of a tensor.
pub(crate) type Sizes = InlineVec<i64, 5>;

impl Sizes {
    /// Becomes the sizes of a tensor. It must be empty.
    #[inline]
    pub(crate) fn set_to_sizes_of(&mut self, tensor: &TensorBase) {
        match tensor.copy_few_sizes_to(&mut self.places) {
            Some(rank) => self.len = rank as u32,
            None => tensor.sizes().iter().for_each(|&size| self.push(size)),
        }
    }
}

impl<T: InPlace<N> + Clone, const N: usize> Clone for InlineVec<T, N> {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        self.iter().for_each(|element| copy.push(element.clone()));
        copy
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for InlineVec<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T, const N: usize> Deref for InlineVec<T, N> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        match &self.more {
            None => &self.places[..N.min(self.len as usize)],
            Some(more) => &more.0,
        }
    }
}

impl<T, const N: usize> DerefMut for InlineVec<T, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.more {
            None => &mut self.places[..N.min(self.len as usize)],
            Some(more) => &mut more.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    in_place! { Option<Arc<()>>: 2 = [default, default]; }

    #[test]
    fn elements_are_kept_in_order_and_dropped_once() {
        let shared = Arc::new(());
        for count in 0..6 {
            let mut list = InlineVec::<Option<Arc<()>>, 2>::default();
            for n in 0..count {
                assert_eq!(list.len(), n);
                list.push(Some(shared.clone()));
            }
            list.add();
            let present: Vec<bool> = list.iter().map(Option::is_some).collect();
            assert_eq!(present, (0..=count).map(|n| n < count).collect::<Vec<_>>());
            assert_eq!(Arc::strong_count(&shared), 1 + count);
            list[count] = Some(shared.clone());
            drop(std::mem::take(&mut list));
            assert!(list.is_empty());
            assert_eq!(Arc::strong_count(&shared), 1);
        }
    }
}
