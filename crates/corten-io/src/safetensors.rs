//! The safetensors format.
//!
//! A file is mapped, not read: its tensors share pages with the file until they are written to,
//! and writing to them does not change the file. A build without `mmap` reads it whole.
//!
//! ```
//! use corten::io::safetensors;
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let weight = tensor![[1., 2.], [3., 4.]]?;
//! let bytes = safetensors::to_bytes([("weight", &weight)], None)?;
//! let (name, read) = safetensors::load_bytes(&bytes)?.remove(0);
//! assert_eq!((name.as_str(), read.to_vec::<f32>()?), ("weight", vec![1.0, 2.0, 3.0, 4.0]));
//! # Ok(())
//! # }
//! ```

use crate::atomic::{self, io_error};
use crate::bytes::only_truths;
use corten_core::{DType, Device, Error, ErrorKind, Result, Storage, bail, ensure, try_to_vec};
use corten_ops::{Tensor, op};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Strings saved beside the tensors.
pub type Metadata = HashMap<String, String>;

fn format_error(error: &safetensors::SafeTensorError) -> Error {
    Error::new(ErrorKind::Runtime, format!("safetensors: {error}"))
}

/// The dtypes that the format names with [`DType::file_name`].
const DTYPES: [Dtype; 17] = [
    Dtype::BOOL,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::C64,
    Dtype::F64,
    Dtype::I64,
    Dtype::U64,
];

fn to_file_dtype(dtype: DType) -> Result<Dtype> {
    match DTYPES.iter().find(|file| file.to_string() == dtype.file_name()) {
        Some(file) => Ok(*file),
        None => bail!(Type, "safetensors has no dtype for {}", dtype.name()),
    }
}

fn from_file_dtype(dtype: Dtype) -> Result<DType> {
    let name = dtype.to_string();
    match DType::ALL.iter().find(|own| own.file_name() == name) {
        Some(own) => Ok(*own),
        None => bail!(Type, "dtype {dtype:?} of a safetensors file is not supported"),
    }
}

/// Writes named tensors to a file, which appears under its name only when it is complete.
///
/// # Errors
/// `Type` for a dtype that the format lacks, `Runtime` when the file cannot be written.
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (impl Into<String>, &'a Tensor)>,
    metadata: Option<Metadata>,
) -> Result<()> {
    let path = path.as_ref();
    let bytes = to_bytes(tensors, metadata)?;
    atomic::write(path, |file| file.write_all(&bytes).map_err(|error| io_error(path, &error)))
}

/// The bytes of the file that [`save`] writes.
///
/// # Errors
/// `Type` for a dtype that the format lacks.
pub fn to_bytes<'a>(
    tensors: impl IntoIterator<Item = (impl Into<String>, &'a Tensor)>,
    metadata: Option<Metadata>,
) -> Result<Vec<u8>> {
    let dense: Vec<(String, Dense)> = tensors
        .into_iter()
        .map(|(name, tensor)| Ok((name.into(), Dense::new(tensor)?)))
        .collect::<Result<_>>()?;
    let views = dense.iter().map(|(name, tensor)| (name.as_str(), tensor));
    safetensors::serialize(views, metadata).map_err(|error| format_error(&error))
}

/// A tensor on the CPU whose elements lie in order.
struct Dense {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Dense {
    fn new(tensor: &Tensor) -> Result<Self> {
        let dtype = to_file_dtype(tensor.dtype())?;
        let bytes = crate::bytes::of(tensor)?;
        let shape = tensor.sizes().iter().map(|size| *size as usize).collect();
        Ok(Self { dtype, shape, bytes })
    }
}

impl safetensors::View for &Dense {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        (&self.bytes).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Reads all tensors of a file, in alphabetical order of their names.
///
/// # Errors
/// `Runtime` when the file cannot be read or does not follow the format.
pub fn load(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    Opened::new(path)?.tensors()
}

/// [`load`] of a file that is in memory.
///
/// # Errors
/// `Runtime` for bytes that do not follow the format.
pub fn load_bytes(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    Opened::from_bytes(bytes)?.tensors()
}

/// A file whose tensors are made when they are asked for.
pub struct Opened {
    storage: Storage,
    bytes: *const u8,
    len: usize,
}

// SAFETY: the bytes belong to memory that `storage` keeps alive and that nobody resizes.
unsafe impl Send for Opened {}
// SAFETY: as above; tensors made from it lock the storage themselves.
unsafe impl Sync for Opened {}

impl Opened {
    /// Maps a file and checks its header.
    ///
    /// # Errors
    /// `Runtime` when the file cannot be mapped or does not follow the format.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        File::open(path).map_err(|error| io_error(path, &error))?;
        Self::of_storage(Storage::of_file(path)?)
    }

    /// Copies a file that is in memory and checks its header.
    ///
    /// # Errors
    /// `Runtime` for bytes that do not follow the format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let storage = Storage::new(bytes.len(), Device::CPU)?;
        storage.write_bytes(0, bytes)?;
        Self::of_storage(storage)
    }

    fn of_storage(storage: Storage) -> Result<Self> {
        // The size of its memory is not to change, as the header is read from it.
        storage.forbid_resizing();
        let (bytes, len) = (storage.data_ptr().cast_const(), storage.nbytes());
        let opened = Self { storage, bytes, len };
        opened.header()?;
        Ok(opened)
    }

    fn header(&self) -> Result<SafeTensors<'_>> {
        if self.len == 0 {
            return SafeTensors::deserialize(&[]).map_err(|error| format_error(&error));
        }
        // SAFETY: the memory lives as long as `storage`, hence as `self`. Tensors may write to
        // its data but not to the header, which is all that is read here.
        let bytes = unsafe { std::slice::from_raw_parts(self.bytes, self.len) };
        SafeTensors::deserialize(bytes).map_err(|error| format_error(&error))
    }

    /// The names of the tensors, in alphabetical order.
    ///
    /// # Errors
    /// None after [`Opened::new`] succeeded.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> =
            self.header()?.names().into_iter().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    fn tensors(&self) -> Result<Vec<(String, Tensor)>> {
        let names = self.names()?;
        names.into_iter().map(|name| Ok((name.clone(), self.tensor(&name)?))).collect()
    }

    /// One tensor, over the file's bytes where their alignment allows, else a copy.
    ///
    /// # Errors
    /// `Index` for an unknown name, `Type` for an unknown dtype.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let header = self.header()?;
        let view = match header.tensor(name) {
            Ok(view) => view,
            Err(_) => bail!(Index, "the file has no tensor {name:?}"),
        };
        let dtype = from_file_dtype(view.dtype())?;
        let sizes: Vec<i64> = view.shape().iter().map(|size| *size as i64).collect();
        let offset = view.data().as_ptr().addr() - self.bytes.addr();
        let empty = op::empty_memory_format(&[0], Some(dtype), None, None, None, None)?;
        let strides = corten_core::geometry::contiguous_strides(&sizes)?;
        let is_valid = dtype != DType::Bool || view.data().iter().all(|&byte| byte <= 1);
        if is_valid && offset.is_multiple_of(dtype.itemsize()) {
            let at = (offset / dtype.itemsize()) as i64;
            return op::set__source_storage_storage_offset(
                &empty,
                &self.storage,
                at,
                &sizes,
                &strides,
            );
        }
        copied(&view, &empty, &sizes, &strides)
    }
}

fn copied(view: &TensorView<'_>, empty: &Tensor, sizes: &[i64], strides: &[i64]) -> Result<Tensor> {
    let storage = Storage::from_vec(try_to_vec(view.data())?);
    ensure!(storage.nbytes() == view.data().len(), Internal, "a copied storage has another size");
    if view.dtype() == Dtype::BOOL {
        only_truths(&storage)?;
    }
    op::set__source_storage_storage_offset(empty, &storage, 0, sizes, strides)
}
