//! Arguments and results of the functions that `_distributed_c10d` calls, which gives them in order.

use std::time::Duration;

use corten_ops::Tensor;

use crate::py::errors::type_error;
use crate::py::{Args, Obj, Py};
use crate::tensor;

/// The argument at a place.
pub(super) fn arg<'a>(args: &Args<'a>, index: usize) -> Py<&'a Obj> {
    args.positional
        .get(index)
        .ok_or_else(|| type_error(format!("argument {} is missing", index + 1)))
}

/// The argument at a place, unless it is left out or `None`.
pub(super) fn arg_opt<'a>(args: &Args<'a>, index: usize) -> Option<&'a Obj> {
    args.positional.get(index).filter(|object| !object.is_none())
}

/// A text.
pub(super) fn text(args: &Args<'_>, index: usize) -> Py<String> {
    text_of(arg(args, index)?)
}

fn text_of(object: &Obj) -> Py<String> {
    if !object.is_str() {
        return Err(type_error(format!("a str is expected, not {}", object.type_name())));
    }
    object.as_str().map(str::to_owned)
}

/// The bytes of a text or of bytes.
pub(super) fn bytes(object: &Obj) -> Py<Vec<u8>> {
    if object.is_bytes() {
        return object.as_bytes().map(<[u8]>::to_vec);
    }
    if !object.is_str() {
        return Err(type_error(format!("a str or bytes is expected, not {}", object.type_name())));
    }
    object.as_str().map(|text| text.as_bytes().to_vec())
}

/// A list of texts.
pub(super) fn texts(object: &Obj) -> Py<Vec<String>> {
    object.items()?.iter().map(text_of).collect()
}

/// A time in seconds; nothing for `None` and for what is left out.
pub(super) fn seconds(args: &Args<'_>, index: usize) -> Py<Option<Duration>> {
    let Some(object) = arg_opt(args, index) else { return Ok(None) };
    Ok(Some(Duration::try_from_secs_f64(object.to_f64()?).unwrap_or(Duration::ZERO)))
}

/// A rank, a size, a number of rows.
pub(super) fn count(object: &Obj) -> Py<usize> {
    let number = object.to_i64()?;
    usize::try_from(number).map_err(|_| {
        crate::py::errors::value_error(format!(
            "a number that is not negative is expected, not {number}"
        ))
    })
}

/// A list of such.
pub(super) fn counts(object: &Obj) -> Py<Vec<usize>> {
    object.items()?.iter().map(count).collect()
}

/// A list of tensors.
pub(super) fn tensors(object: &Obj) -> Py<Vec<Tensor>> {
    object.items()?.iter().map(|item| tensor::expect(item).cloned()).collect()
}

/// Tensors as a list.
pub(super) fn tensor_list(tensors: &[Tensor]) -> Py<Obj> {
    Obj::list(tensors.iter().map(tensor::wrap))
}
