//! Writing.

use super::Metadata;
use super::header::{METADATA, encoded};
use crate::atomic::{self, io_error};
use corten_core::{DType, Result, bail, ensure, try_extend};
use corten_ops::Tensor;
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

/// Writes named tensors to a file, which appears under its name only when it is complete.
///
/// # Errors
/// `Type` for a dtype that the format lacks, `Value` for a name that comes up twice, `Runtime` when the file cannot
/// be written.
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl Into<String>, &'a Tensor)>,
    metadata: Option<Metadata>,
) -> Result<()> {
    let path = path.as_ref();
    let plan = Plan::new(tensors, metadata.as_ref())?;
    atomic::write(path, |file| {
        plan.write(|bytes| file.write_all(bytes).map_err(|error| io_error(path, &error)))
    })
}

/// Gives the bytes of a file of named tensors to a function, piece by piece: the header, and the data of one tensor
/// after the other.
///
/// # Errors
/// As [`save`], and those of the function.
pub fn write<'a>(
    tensors: impl IntoIterator<Item = (impl Into<String>, &'a Tensor)>,
    metadata: Option<&Metadata>,
    put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    Plan::new(tensors, metadata)?.write(put)
}

/// The bytes of a file of named tensors.
///
/// # Errors
/// As [`save`].
pub fn to_bytes<'a>(
    tensors: impl IntoIterator<Item = (impl Into<String>, &'a Tensor)>,
    metadata: Option<&Metadata>,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write(tensors, metadata, |piece| try_extend(&mut bytes, piece.iter().copied()))?;
    Ok(bytes)
}

/// What comes where in a file.
struct Plan<'a> {
    head: Vec<u8>,
    tensors: Vec<(String, &'a Tensor)>,
}

impl<'a> Plan<'a> {
    fn new(
        tensors: impl IntoIterator<Item = (impl Into<String>, &'a Tensor)>,
        metadata: Option<&Metadata>,
    ) -> Result<Self> {
        let mut tensors: Vec<(String, &Tensor)> =
            tensors.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
        // Wide dtypes first keeps every tensor aligned.
        let width = |tensor: &Tensor| std::cmp::Reverse(tensor.dtype().itemsize());
        tensors.sort_by(|a, b| (width(a.1), &a.0).cmp(&(width(b.1), &b.0)));
        let mut names = HashSet::new();
        for (name, tensor) in &tensors {
            ensure!(
                name != METADATA && names.insert(name),
                Value,
                "safetensors: two tensors, or a tensor and the metadata, have the name {name:?}"
            );
            if tensor.dtype().file_name().is_empty() {
                bail!(Type, "safetensors has no dtype for {}", tensor.dtype().name())
            }
        }
        let shapes: Vec<_> = tensors.iter().map(|(_, tensor)| tensor.sizes().to_vec()).collect();
        let entries: Vec<(&str, DType, &[i64])> = tensors
            .iter()
            .zip(&shapes)
            .map(|((name, tensor), shape)| (name.as_str(), tensor.dtype(), shape.as_slice()))
            .collect();
        let head = encoded(&entries, metadata)?;
        Ok(Self { head, tensors })
    }

    fn write(&self, mut put: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        put(&self.head)?;
        // Elements are copied one tensor at a time, so that a file takes no more memory than its largest.
        self.tensors.iter().try_for_each(|(_, tensor)| put(&crate::bytes::of(tensor)?))
    }
}
