//! Guards for a single operand.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use super::{Access, AccessSet};
use crate::{Element, Result, TensorBase};

/// The elements of one contiguous tensor, held for reading.
///
/// ```
/// use corten_core::{Reader, TensorBase, TensorOptions};
///
/// let x = TensorBase::empty(&[4], TensorOptions::default())?;
/// assert_eq!(Reader::<f32>::new(&x)?.len(), 4);
/// assert!(Reader::<i64>::new(&x).is_err(), "its dtype is float32");
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<'a, T> {
    data: NonNull<T>,
    len: usize,
    #[allow(dead_code, reason = "dropping the set releases the storage")]
    set: AccessSet<'a>,
    elements: PhantomData<&'a T>,
}

impl<'a, T: Element> Reader<'a, T> {
    /// Holds `tensor`, which must be contiguous, in host memory and of dtype `T`.
    pub fn new(tensor: &'a TensorBase) -> Result<Self> {
        let set = AccessSet::acquire(&[(tensor, Access::Read)])?;
        let elements = set.read::<T>(0)?;
        let (data, len) = (NonNull::from_ref(elements).cast(), elements.len());
        Ok(Self { data, len, set, elements: PhantomData })
    }
}

impl<T: Element> Deref for Reader<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the slice came from the set, which this guard keeps.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

/// The elements of one contiguous tensor, held for writing.
///
/// ```
/// use corten_core::{Reader, TensorBase, TensorOptions, Writer};
///
/// let x = TensorBase::empty(&[2], TensorOptions::default())?;
/// Writer::<f32>::new(&x)?.copy_from_slice(&[1.0, 2.0]);
/// assert_eq!(Reader::<f32>::new(&x)?[..], [1.0, 2.0]);
/// # Ok::<(), corten_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer<'a, T> {
    data: NonNull<T>,
    len: usize,
    #[allow(dead_code, reason = "dropping the set releases the storage")]
    set: AccessSet<'a>,
    elements: PhantomData<&'a mut T>,
}

impl<'a, T: Element> Writer<'a, T> {
    /// Holds `tensor`, which must be contiguous, in host memory and of dtype `T`.
    pub fn new(tensor: &'a TensorBase) -> Result<Self> {
        let set = AccessSet::acquire(&[(tensor, Access::Write)])?;
        let elements = set.write::<T>(0)?;
        let (data, len) = (NonNull::from_mut(elements).cast(), elements.len());
        Ok(Self { data, len, set, elements: PhantomData })
    }
}

impl<T: Element> Deref for Writer<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the slice came from the set, which this guard keeps.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl<T: Element> DerefMut for Writer<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the storage is held for writing and this is its only slice.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}
