//! Lists of words, texts, and words on the heap: what stands behind the pointers among the words.

use super::create::count;
use super::outcome::{Outcome, guard};
use crate::tensor::{check_place, write_to};
use crate::value::slice_of;
use corten::Result;
use corten::core::{bail, err};
use std::ffi::c_char;

/// A value of 64 bits: see `words.rs`.
pub(super) type Word = u64;

/// A list of an extension. The words of what it holds are not freed with it.
pub(super) type List = Vec<Word>;

/// The list of a handle.
///
/// # Safety
/// The handle must be null or alive, and nobody else may use it as long as the result.
pub(super) unsafe fn list_at<'a>(list: *mut List) -> Result<&'a mut List> {
    // SAFETY: the caller's.
    unsafe { list.as_mut() }.ok_or_else(|| err!(Runtime, "the handle of a list is null"))
}

/// Takes what a handle of a list, a text or another thing of Rust holds.
///
/// # Safety
/// The handle must be null or the caller's, made by `Box::into_raw`, and is not used afterwards.
pub(super) unsafe fn take_box<T>(handle: *mut T, what: &str) -> Result<T> {
    if handle.is_null() {
        bail!(Runtime, "the handle of {what} is null");
    }
    // SAFETY: the caller's.
    Ok(*unsafe { Box::from_raw(handle) })
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn torch_new_list_reserve_size(size: usize, made: *mut *mut List) -> Outcome {
    guard(|| {
        check_place(made)?;
        let mut list = List::new();
        list.try_reserve(size)
            .map_err(|_| err!(OutOfMemory, "a list of {size} values does not fit"))?;
        // SAFETY: the caller's.
        unsafe { write_to(made, Box::into_raw(Box::new(list))) }
    })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn torch_list_size(list: *mut List, size: *mut usize) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(size, list_at(list)?.len()) })
}

fn out_of_range<T>(index: usize, length: usize) -> Result<T> {
    bail!(Index, "index {index} is out of range for a list of {length} values")
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn torch_list_get_item(
    list: *mut List,
    index: usize,
    word: *mut Word,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        let list = list_at(list)?;
        match list.get(index) {
            Some(found) => write_to(word, *found),
            None => out_of_range(index, list.len()),
        }
    })
}

/// # Safety
/// The handle must be alive, and nobody else may use it meanwhile.
unsafe extern "C" fn torch_list_set_item(list: *mut List, index: usize, word: Word) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        let list = unsafe { list_at(list) }?;
        let length = list.len();
        match list.get_mut(index) {
            Some(place) => *place = word,
            None => return out_of_range(index, length),
        }
        Ok(())
    })
}

/// # Safety
/// The handle must be alive, and nobody else may use it meanwhile.
unsafe extern "C" fn torch_list_push_back(list: *mut List, word: Word) -> Outcome {
    guard(|| {
        // SAFETY: the caller's.
        unsafe { list_at(list) }?.push(word);
        Ok(())
    })
}

/// # Safety
/// The handle must be the caller's, and is not used afterwards.
unsafe extern "C" fn torch_delete_list(list: *mut List) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { take_box(list, "a list") }.map(drop))
}

/// A text of an extension: bytes, with a zero byte behind them that does not count.
pub(super) struct Text(Vec<u8>);

impl Text {
    fn new(text: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text);
        bytes.push(0);
        Self(bytes)
    }

    pub(super) fn give(text: &str) -> *mut Self {
        Box::into_raw(Box::new(Self::new(text.as_bytes())))
    }

    pub(super) fn into_string(mut self) -> Result<String> {
        self.0.pop();
        String::from_utf8(self.0).map_err(|_| err!(Value, "a text is not UTF-8"))
    }
}

/// # Safety
/// `data` must be valid for `length` bytes, the place for a write.
unsafe extern "C" fn torch_new_string_handle(
    data: *const c_char,
    length: usize,
    made: *mut *mut Text,
) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe {
        check_place(made)?;
        let text = Text::new(slice_of(data.cast::<u8>(), length)?);
        write_to(made, Box::into_raw(Box::new(text)))
    })
}

/// # Safety
/// The handle must be the caller's, and is not used afterwards.
unsafe extern "C" fn torch_delete_string(text: *mut Text) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { take_box(text, "a text") }.map(drop))
}

/// # Safety
/// The handle must be null or alive as long as the result.
unsafe fn text_at<'a>(text: *const Text) -> Result<&'a Text> {
    // SAFETY: the caller's.
    unsafe { text.as_ref() }.ok_or_else(|| err!(Runtime, "the handle of a text is null"))
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn torch_string_length(text: *const Text, length: *mut usize) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(length, text_at(text)?.0.len() - 1) })
}

/// # Safety
/// The handle must be alive, the place valid for a write.
unsafe extern "C" fn torch_string_c_str(text: *const Text, data: *mut *const c_char) -> Outcome {
    // SAFETY: the caller's.
    guard(|| unsafe { write_to(data, text_at(text)?.0.as_ptr().cast()) })
}

/// A word on the heap, for an optional value that is present. Extensions of versions before 2.13 free it and make
/// it with C++'s `new`, which is `malloc`.
pub(super) fn new_word(word: Word) -> Result<*mut Word> {
    // SAFETY: a size that is not zero.
    let place = unsafe { libc::malloc(size_of::<Word>()) }.cast::<Word>();
    if place.is_null() {
        bail!(OutOfMemory, "a value of {} bytes does not fit", size_of::<Word>());
    }
    // SAFETY: the block is as large as a word and aligned for all types.
    unsafe { place.write(word) };
    Ok(place)
}

/// Reads a word on the heap and frees it.
///
/// # Safety
/// The pointer must come from [`new_word`] or C++'s `new`, and is not used afterwards.
pub(super) unsafe fn take_word(place: *mut Word) -> Word {
    // SAFETY: the caller's.
    unsafe {
        let word = place.read();
        libc::free(place.cast());
        word
    }
}

/// # Safety
/// The place must be valid for a write.
unsafe extern "C" fn torch_new_stable_ivalue(made: *mut *mut Word) -> Outcome {
    guard(|| {
        check_place(made)?;
        // SAFETY: the caller's.
        unsafe { write_to(made, new_word(0)?) }
    })
}

/// # Safety
/// The pointer must be null or the caller's, and is not used afterwards.
unsafe extern "C" fn torch_delete_stable_ivalue(word: *mut Word) -> Outcome {
    guard(|| {
        check_place(word)?;
        // SAFETY: the caller's.
        unsafe { take_word(word) };
        Ok(())
    })
}

/// The words of a list that is taken.
///
/// # Safety
/// As [`take_box`].
pub(super) unsafe fn take_list(list: *mut List) -> Result<List> {
    // SAFETY: the caller's.
    unsafe { take_box(list, "a list") }
}

/// Integers of C as the library has them.
///
/// # Safety
/// `data` must be valid for `length` numbers.
pub(super) unsafe fn numbers<'a>(data: *const i64, length: i64) -> Result<&'a [i64]> {
    // SAFETY: the caller's.
    unsafe { slice_of(data, count(length)?) }
}

super::functions! {
    torch_new_list_reserve_size
    torch_list_size
    torch_list_get_item
    torch_list_set_item
    torch_list_push_back
    torch_delete_list
    torch_new_string_handle
    torch_delete_string
    torch_string_length
    torch_string_c_str
    torch_new_stable_ivalue
    torch_delete_stable_ivalue
}
