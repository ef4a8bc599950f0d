//! The safetensors format: a JSON header and raw little-endian data.
//!
//! A file is mapped, not read: its tensors share pages with the file until they are written to,
//! and writing to them does not change the file.
//!
//! ```
//! use corten::io::safetensors;
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let path = std::env::temp_dir().join(format!("corten-doc-{}.safetensors", std::process::id()));
//! safetensors::save(&path, [("weight", &tensor![[1., 2.], [3., 4.]]?)], None)?;
//! let file = safetensors::Opened::new(&path)?;
//! assert_eq!(file.info("weight")?.shape(), [2, 2]);
//! assert_eq!(file.tensor("weight")?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # std::fs::remove_file(path).ok();
//! # Ok(())
//! # }
//! ```

mod header;
mod write;

pub use header::TensorInfo;
pub use write::{save, to_bytes, write};

use crate::atomic::io_error;
use crate::bytes::{copied, only_truths};
use corten_core::{DType, LentMemory, Result, Storage, err};
use corten_ops::Tensor;
use header::Header;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// Strings saved beside the tensors.
pub type Metadata = HashMap<String, String>;

/// Reads all tensors of a file, in alphabetical order of their names.
///
/// # Errors
/// `Runtime` when the file cannot be read or does not follow the format.
pub fn load(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    let file = Opened::new(path)?;
    file.names()?.into_iter().map(|name| Ok((name.clone(), file.tensor(&name)?))).collect()
}

/// Reads all tensors in the bytes of a file, in alphabetical order of their names.
///
/// # Errors
/// As [`load`].
pub fn read(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    let header = Header::of_bytes(bytes)?;
    let all = header.tensors.iter().map(|info| {
        let storage = copied(&bytes[info.start..info.start + info.nbytes])?;
        Ok((info.name.clone(), over(storage, info)?))
    });
    all.collect()
}

/// A tensor over the bytes that a file has for it.
fn over(storage: Storage, info: &TensorInfo) -> Result<Tensor> {
    if info.dtype == DType::Bool {
        only_truths(&storage)?;
    }
    let strides = corten_core::geometry::contiguous_strides(&info.shape)?;
    Tensor::from_storage(storage, info.dtype, &info.shape, &strides, 0)
}

/// A mapped file.
pub struct Opened {
    header: Header,
    memory: LentMemory,
}

impl Opened {
    /// Maps a file and checks its header.
    ///
    /// # Errors
    /// `Runtime` when the file cannot be mapped or does not follow the format.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(|error| io_error(path, &error))?;
        let size = file.metadata().map_err(|error| io_error(path, &error))?.len();
        let header = Header::of_file(&mut file, size)?;
        let memory = Storage::of_file(path)?.lend()?;
        Ok(Self { header, memory })
    }

    /// The names of the tensors, in alphabetical order.
    ///
    /// # Errors
    /// None after [`Opened::new`] succeeded.
    pub fn names(&self) -> Result<Vec<String>> {
        Ok(self.header.tensors.iter().map(|info| info.name.clone()).collect())
    }

    /// The strings saved with the tensors.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.header.metadata.as_ref()
    }

    /// What the header says of the tensors, in alphabetical order of their names.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.header.tensors
    }

    /// What the header says of a tensor.
    ///
    /// # Errors
    /// `Index` for an unknown name.
    pub fn info(&self, name: &str) -> Result<&TensorInfo> {
        let tensors = &self.header.tensors;
        let found = tensors.binary_search_by(|info| info.name.as_str().cmp(name));
        let found = found.map_err(|_| err!(Index, "the file has no tensor {name:?}"))?;
        Ok(&tensors[found])
    }

    /// One tensor, over the mapped bytes where their alignment allows, else a copy.
    ///
    /// # Errors
    /// `Index` for an unknown name.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let info = self.info(name)?;
        let mapped = self.memory.slice(info.start, info.nbytes)?;
        let address = self.memory.start().addr() + info.start;
        if address.is_multiple_of(info.dtype.itemsize()) {
            return over(mapped, info);
        }
        over(copied(&mapped.read_bytes()?)?, info)
    }
}
