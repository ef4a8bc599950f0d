//! PyTorch's files: the zip archive and the older stream, read without running anything, and written.
//!
//! ```
//! use corten::io::{Value, torch};
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let path = std::env::temp_dir().join(format!("corten-doc-{}.pt", std::process::id()));
//! torch::save(&path, &Value::from_tensors([("weight", tensor![[1., 2.], [3., 4.]]?)]))?;
//! let loaded = torch::load(&path)?;
//! let weight = loaded.get("weight").and_then(Value::tensor);
//! assert_eq!(weight.map(|weight| weight.sizes().to_vec()), Some(vec![2, 2]));
//! # std::fs::remove_file(path).ok();
//! # Ok(())
//! # }
//! ```

mod archive;
mod load;
mod quantized;
mod rebuild;
mod save;
mod stream;

pub use archive::Archive;
pub use load::{LoadOptions, UnknownClasses, load, load_bytes, load_with};
pub use save::{save, save_legacy};

use corten_core::DType;

/// The name of the class of storages of a dtype, without the module.
fn storage_class(dtype: DType) -> Option<String> {
    (dtype.number_in_files()).then(|| format!("{}Storage", dtype.type_name()))
}

/// The dtype of a class of storages; `UntypedStorage` has bytes.
fn storage_dtype(class: &str) -> Option<DType> {
    if class == "UntypedStorage" {
        return Some(DType::UInt8);
    }
    let name = class.strip_suffix("Storage")?;
    DType::ALL.iter().copied().find(|&dtype| dtype.number_in_files() && dtype.type_name() == name)
}

/// Which dtypes have a class of storages of their own in PyTorch.
trait InFiles {
    fn number_in_files(self) -> bool;
}

impl InFiles for DType {
    fn number_in_files(self) -> bool {
        use DType::{
            BFloat16, Bool, Complex64, Complex128, Float16, Float32, Float64, Int8, Int16, Int32,
            Int64, QInt8, QInt32, QUInt2x4, QUInt4x2, QUInt8, UInt8,
        };
        matches!(
            self,
            UInt8
                | QInt8
                | QInt32
                | QUInt2x4
                | QUInt4x2
                | QUInt8
                | Int8
                | Int16
                | Int32
                | Int64
                | Float16
                | Float32
                | Float64
                | Complex64
                | Complex128
                | Bool
                | BFloat16
        )
    }
}
