//! The safetensors format.
//!
//! A file is mapped, not read: its tensors share pages with the file until they are written to,
//! and writing to them does not change the file.

use crate::atomic::{self, io_error};
use crate::bytes::only_truths;
use corten_core::{DType, Error, ErrorKind, Result, Storage, bail, ensure, try_to_vec};
use corten_ops::{Tensor, op};
use memmap2::{MmapMut, MmapOptions};
use safetensors::tensor::{Dtype, Metadata as Header, SafeTensors};
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
    let dense: Vec<(String, Dense)> = tensors
        .into_iter()
        .map(|(name, tensor)| Ok((name.into(), Dense::new(tensor)?)))
        .collect::<Result<_>>()?;
    let views = dense.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let bytes = safetensors::serialize(views, metadata).map_err(|error| format_error(&error))?;
    atomic::write(path, |file| file.write_all(&bytes).map_err(|error| io_error(path, &error)))
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
    let file = Opened::new(path)?;
    let names = file.names()?;
    names.into_iter().map(|name| Ok((name.clone(), file.tensor(&name)?))).collect()
}

/// A mapped file.
///
/// ```
/// use corten::io::safetensors::{self, Opened};
/// use corten::prelude::*;
///
/// let path = std::env::temp_dir().join(format!("corten-doc-{}.safetensors", std::process::id()));
/// let metadata = [("format".to_owned(), "pt".to_owned())].into();
/// safetensors::save(&path, [("weight", &tensor![1.0, 2.0]?)], Some(metadata))?;
/// let file = Opened::new(&path)?;
/// assert_eq!((file.names()?, file.metadata()["format"].as_str()), (vec!["weight".to_owned()], "pt"));
/// assert_eq!(file.tensor("weight")?.to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), corten::Error>(())
/// ```
pub struct Opened {
    storage: Storage,
    /// What the tensors lie in, behind the header.
    data: *const u8,
    start: usize,
    header: Header,
    metadata: Metadata,
}

// SAFETY: the bytes belong to a mapping that `storage` keeps alive and that nobody resizes.
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
        let file = File::open(path).map_err(|error| io_error(path, &error))?;
        // SAFETY: the mapping is private, so what tensors write stays in this process. That the
        // file is not shortened meanwhile is asked of the user, as by every program that maps.
        let map = unsafe { MmapOptions::new().map_copy(&file) };
        let mut map: MmapMut = map.map_err(|error| io_error(path, &error))?;
        let (size, header) =
            SafeTensors::read_metadata(&map).map_err(|error| format_error(&error))?;
        // The length of the header stands before it.
        let start = size + size_of::<u64>();
        let metadata = header.metadata().clone().unwrap_or_default();
        let (pointer, len) = (map.as_mut_ptr(), map.len());
        let data = map[start..].as_ptr();
        // SAFETY: the storage owns the mapping, which is `len` bytes at `pointer` while it lives.
        let storage = unsafe { Storage::from_owner(Box::new(map), pointer, len) };
        Ok(Self { storage, data, start, header, metadata })
    }

    /// The strings saved beside the tensors.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The names of the tensors, in alphabetical order.
    ///
    /// # Errors
    /// None after [`Opened::new`] succeeded.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.header.tensors().into_keys().collect();
        names.sort();
        Ok(names)
    }

    /// One tensor, over the mapped bytes where their alignment allows, else a copy.
    ///
    /// # Errors
    /// `Index` for an unknown name, `Type` for an unknown dtype.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let Some(info) = self.header.info(name) else {
            bail!(Index, "the file has no tensor {name:?}")
        };
        let (from, to) = info.data_offsets;
        // SAFETY: the mapping lives as long as `storage`, hence as `self`; that the offsets lie in it was
        // checked when the header was read.
        let bytes = unsafe { std::slice::from_raw_parts(self.data.add(from), to - from) };
        let dtype = from_file_dtype(info.dtype)?;
        let sizes: Vec<i64> = info.shape.iter().map(|size| *size as i64).collect();
        let offset = self.start + from;
        let empty = op::empty_memory_format(&[0], Some(dtype), None, None, None, None)?;
        let strides = corten_core::geometry::contiguous_strides(&sizes)?;
        let is_valid = dtype != DType::Bool || bytes.iter().all(|&byte| byte <= 1);
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
        copied(bytes, &empty, &sizes, &strides)
    }
}

fn copied(bytes: &[u8], empty: &Tensor, sizes: &[i64], strides: &[i64]) -> Result<Tensor> {
    let storage = Storage::from_vec(try_to_vec(bytes)?);
    ensure!(storage.nbytes() == bytes.len(), Internal, "a copied storage has another size");
    if empty.dtype() == DType::Bool {
        only_truths(&storage)?;
    }
    op::set__source_storage_storage_offset(empty, &storage, 0, sizes, strides)
}
