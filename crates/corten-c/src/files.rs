//! Tensors in files.

use crate::status::{CortenStatus, guard, guard_value, without_nul};
use crate::tensor::{CortenTensor, check_place, give, write_to};
use crate::value::{slice_of, tensors_of, text_of};
use corten::core::bail;
use corten::io::{Value, npy, safetensors, torch};
use corten::{Result, Tensor};
use std::ffi::{CString, c_char};
use std::path::Path;
use std::ptr;

/// Named tensors that were read from a file.
pub struct CortenTensors {
    entries: Vec<(CString, Tensor)>,
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Writes `count` named tensors to a file, which appears when it is complete: `….safetensors` in the format of
/// that name, any other as PyTorch writes a state dict.
///
/// # Safety
/// `path` must be text, the lists must be valid for `count` texts and handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_save(
    path: *const c_char,
    names: *const *const c_char,
    tensors: *const *mut CortenTensor,
    count: usize,
) -> CortenStatus {
    guard(|| {
        // SAFETY: the caller's.
        let (path, names, tensors) = unsafe {
            let path = text_of("a path", path)?;
            (path, slice_of(names, count)?, tensors_of(tensors, count)?)
        };
        // SAFETY: the caller's.
        let name = |name: &*const c_char| unsafe { text_of("the name of a tensor", *name) };
        let names = names.iter().map(name).collect::<Result<Vec<_>>>()?;
        let named = names.into_iter().zip(&tensors);
        match has_extension(path, "safetensors") {
            true => safetensors::save(path, named, None),
            false => {
                let entries = named.map(|(name, tensor)| (name, tensor.clone()));
                torch::save(path, &Value::from_tensors(entries))
            }
        }
    })
}

/// Reads the named tensors of a file: `….safetensors` and `….npz` in these formats, any other as PyTorch's, of
/// which nothing is run. Of a dictionary in a dictionary the tensors have both keys with a dot between them.
///
/// # Safety
/// `path` must be text, `tensors` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_load(
    path: *const c_char,
    tensors: *mut *mut CortenTensors,
) -> CortenStatus {
    guard(|| {
        check_place(tensors)?;
        // SAFETY: the caller's.
        let path = unsafe { text_of("a path", path) }?;
        let named = match path {
            _ if has_extension(path, "safetensors") => safetensors::load(path)?,
            _ if has_extension(path, "npz") => npy::load_npz(path)?,
            _ => {
                let mut found = Vec::new();
                collect(&torch::load(path)?, "", &mut found);
                found
            }
        };
        let entries = named.into_iter().map(|(name, tensor)| (without_nul(&name), tensor));
        let found = CortenTensors { entries: entries.collect() };
        // SAFETY: the caller's.
        unsafe { write_to(tensors, Box::into_raw(Box::new(found))) }
    })
}

fn collect(value: &Value, name: &str, found: &mut Vec<(String, Tensor)>) {
    match value {
        Value::Tensor(tensor) => found.push((name.to_owned(), tensor.clone())),
        Value::Dict(_) => {
            for (key, value) in value.entries().unwrap_or_default() {
                let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                collect(&value, &name, found);
            }
        }
        _ => {}
    }
}

/// # Safety
/// `tensors` must be null or alive.
unsafe fn entries<'a>(tensors: *const CortenTensors) -> Result<&'a [(CString, Tensor)]> {
    // SAFETY: the caller's.
    match unsafe { tensors.as_ref() } {
        Some(found) => Ok(&found.entries),
        None => bail!(Value, "a list of tensors is null"),
    }
}

/// How many tensors there are.
///
/// # Safety
/// `tensors` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensors_count(tensors: *const CortenTensors) -> usize {
    // SAFETY: the caller's.
    guard_value(0, || Ok(unsafe { entries(tensors) }?.len()))
}

/// The name of a tensor, which lives as long as the list; null beyond the end.
///
/// # Safety
/// `tensors` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensors_name(
    tensors: *const CortenTensors,
    index: usize,
) -> *const c_char {
    // SAFETY: the caller's.
    guard_value(ptr::null(), || match unsafe { entries(tensors) }?.get(index) {
        Some((name, _)) => Ok(name.as_ptr()),
        None => bail!(Index, "there is no tensor {index}"),
    })
}

/// A tensor, a new reference; null beyond the end.
///
/// # Safety
/// `tensors` must be null or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensors_get(
    tensors: *const CortenTensors,
    index: usize,
) -> *mut CortenTensor {
    // SAFETY: the caller's.
    guard_value(ptr::null_mut(), || match unsafe { entries(tensors) }?.get(index) {
        Some((_, tensor)) => Ok(give(tensor.clone())),
        None => bail!(Index, "there is no tensor {index}"),
    })
}

/// The tensor of a name, a new reference; null if there is none.
///
/// # Safety
/// `tensors` must be null or alive, `name` text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensors_find(
    tensors: *const CortenTensors,
    name: *const c_char,
) -> *mut CortenTensor {
    guard_value(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let (all, name) = unsafe { (entries(tensors)?, text_of("a name", name)?) };
        match all.iter().find(|(known, _)| known.to_bytes() == name.as_bytes()) {
            Some((_, tensor)) => Ok(give(tensor.clone())),
            None => bail!(Index, "there is no tensor '{name}'"),
        }
    })
}

/// Gives a list back; null is allowed.
///
/// # Safety
/// `tensors` must be null or alive, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corten_tensors_free(tensors: *mut CortenTensors) {
    guard(|| {
        if !tensors.is_null() {
            // SAFETY: the caller's.
            drop(unsafe { Box::from_raw(tensors) });
        }
        Ok(())
    });
}
