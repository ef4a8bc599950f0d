//! Vectors whose length comes from data or from arguments: memory that cannot be had is an error, where
//! the standard library's own ways end the process. `xtask tidy` refuses those where a length is not
//! said to be bounded.

use super::cpu::out_of_memory;
use crate::Result;

/// An empty vector with room for `count` elements.
///
/// # Errors
/// `Runtime` when there is not as much memory.
#[track_caller]
pub fn try_with_capacity<T>(count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    try_reserve(&mut items, count)?;
    Ok(items)
}

/// Makes room for `count` more elements.
///
/// # Errors
/// As for [`try_with_capacity`].
#[inline]
#[track_caller]
pub fn try_reserve<T>(items: &mut Vec<T>, count: usize) -> Result<()> {
    match items.try_reserve_exact(count) {
        Ok(()) => Ok(()),
        Err(_) => {
            Err(out_of_memory(items.len().saturating_add(count).saturating_mul(size_of::<T>())))
        }
    }
}

/// `count` times a value.
///
/// # Errors
/// As for [`try_with_capacity`].
#[inline]
#[track_caller]
pub fn try_vec<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut items = try_with_capacity(count)?;
    items.resize(count, value);
    Ok(items)
}

/// Makes a vector `count` elements long.
///
/// # Errors
/// As for [`try_with_capacity`].
#[inline]
#[track_caller]
pub fn try_resize<T: Clone>(items: &mut Vec<T>, count: usize, value: T) -> Result<()> {
    try_reserve(items, count.saturating_sub(items.len()))?;
    items.resize(count, value);
    Ok(())
}

/// A vector of what an iterator yields.
///
/// # Errors
/// As for [`try_with_capacity`].
#[inline]
#[track_caller]
pub fn try_collect<T>(source: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut items = Vec::new();
    try_extend(&mut items, source)?;
    Ok(items)
}

/// Appends what an iterator yields.
///
/// # Errors
/// As for [`try_with_capacity`].
#[inline]
#[track_caller]
pub fn try_extend<T>(items: &mut Vec<T>, source: impl IntoIterator<Item = T>) -> Result<()> {
    let mut source = source.into_iter();
    let (least, most) = source.size_hint();
    try_reserve(items, least)?;
    if most == Some(least) {
        items.extend(source);
        return Ok(());
    }
    while let Some(item) = source.next() {
        if items.len() == items.capacity() {
            try_grow(items, source.size_hint().0)?;
        }
        items.push(item);
    }
    Ok(())
}

/// Appends one element.
///
/// # Errors
/// As for [`try_with_capacity`].
#[inline]
#[track_caller]
pub fn try_push<T>(items: &mut Vec<T>, item: T) -> Result<()> {
    if items.len() == items.capacity() {
        try_grow(items, 0)?;
    }
    items.push(item);
    Ok(())
}

/// Room for one element and `least` more, and for a share of those before, so that growing is linear.
#[cold]
#[track_caller]
fn try_grow<T>(items: &mut Vec<T>, least: usize) -> Result<()> {
    let more = least.saturating_add(1);
    match items.try_reserve(more) {
        Ok(()) => Ok(()),
        Err(_) => try_reserve(items, more),
    }
}

/// A copy of a slice.
///
/// # Errors
/// As for [`try_with_capacity`].
#[inline]
#[track_caller]
pub fn try_to_vec<T: Clone>(items: &[T]) -> Result<Vec<T>> {
    let mut copy = try_with_capacity(items.len())?;
    copy.extend_from_slice(items);
    Ok(copy)
}

/// The same inside of loops, jobs and other functions that cannot return an error: memory that cannot be
/// had unwinds with the [`Error`](crate::Error) as payload. Loops on several threads, and the border to
/// another language, turn it into a result again.
pub mod unwinding {
    use crate::{Error, Result};
    use std::any::Any;

    fn unwrapped<T>(result: Result<T>) -> T {
        result.unwrap_or_else(|error| unwind(error))
    }

    /// Not a panic, of which the hook would hear.
    #[cold]
    fn unwind(error: Error) -> ! {
        std::panic::resume_unwind(Box::new(error))
    }

    /// The error that a payload is, or the payload.
    ///
    /// # Errors
    /// What is no error, the payload of a panic.
    pub fn error_of(payload: Box<dyn Any + Send>) -> Result<Error, Box<dyn Any + Send>> {
        payload.downcast::<Error>().map(|error| *error)
    }

    /// As [`try_vec`](super::try_vec).
    #[inline]
    #[track_caller]
    pub fn vec<T: Clone>(value: T, count: usize) -> Vec<T> {
        unwrapped(super::try_vec(value, count))
    }

    /// As [`try_with_capacity`](super::try_with_capacity).
    #[inline]
    #[track_caller]
    pub fn with_capacity<T>(count: usize) -> Vec<T> {
        unwrapped(super::try_with_capacity(count))
    }

    /// As [`try_resize`](super::try_resize).
    #[inline]
    #[track_caller]
    pub fn resize<T: Clone>(items: &mut Vec<T>, count: usize, value: T) {
        unwrapped(super::try_resize(items, count, value));
    }

    /// As [`try_collect`](super::try_collect).
    #[inline]
    #[track_caller]
    pub fn collect<T>(source: impl IntoIterator<Item = T>) -> Vec<T> {
        unwrapped(super::try_collect(source))
    }

    /// As [`try_extend`](super::try_extend).
    #[inline]
    #[track_caller]
    pub fn extend<T>(items: &mut Vec<T>, source: impl IntoIterator<Item = T>) {
        unwrapped(super::try_extend(items, source));
    }

    /// As [`try_push`](super::try_push).
    #[inline]
    #[track_caller]
    pub fn push<T>(items: &mut Vec<T>, item: T) {
        unwrapped(super::try_push(items, item));
    }

    /// As [`try_to_vec`](super::try_to_vec).
    #[inline]
    #[track_caller]
    pub fn to_vec<T: Clone>(items: &[T]) -> Vec<T> {
        unwrapped(super::try_to_vec(items))
    }
}

/// Fails unless as much memory can be had, for libraries that allocate without asking.
///
/// # Errors
/// As for [`try_with_capacity`].
#[track_caller]
pub fn check_memory(nbytes: usize) -> Result<()> {
    try_with_capacity::<u8>(nbytes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        let most = isize::MAX as usize;
        for count in [1 << 45, most / 8, most, usize::MAX] {
            let error = try_vec(1.5f64, count).unwrap_err();
            assert!(
                error.message().contains("DefaultCPUAllocator: can't allocate memory"),
                "{error}"
            );
            assert!(try_with_capacity::<[u8; 3]>(count.max(1 << 47)).is_err());
            assert!(try_collect(0..count).is_err());
            assert!(try_resize(&mut vec![1u64, 2], count, 3).is_err());
        }
        assert!(try_collect((0u64..1 << 50).map(|i| i * 2)).is_err());
    }

    #[test]
    fn an_error_travels_as_a_payload() {
        let payload = std::panic::catch_unwind(|| unwinding::vec(0u64, usize::MAX)).unwrap_err();
        let error = unwinding::error_of(payload).unwrap();
        assert!(error.message().contains("can't allocate memory"), "{error}");
        assert!(unwinding::error_of(Box::new("a panic")).is_err());
    }

    #[test]
    fn vectors_hold_what_they_were_made_of() {
        assert_eq!(try_vec('a', 3).unwrap(), ['a'; 3]);
        assert_eq!(try_collect((0..1000).filter(|i| i % 7 == 0)).unwrap().len(), 143);
        let mut items = try_to_vec(&[1, 2]).unwrap();
        try_extend(&mut items, 3..6).unwrap();
        try_push(&mut items, 6).unwrap();
        try_resize(&mut items, 8, 9).unwrap();
        assert_eq!(items, [1, 2, 3, 4, 5, 6, 9, 9]);
        try_resize(&mut items, 1, 0).unwrap();
        assert_eq!(items, [1]);
    }
}
