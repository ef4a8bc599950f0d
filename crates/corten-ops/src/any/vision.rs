//! What torchvision asks of the libraries behind its operators, and the bytes of files.

use crate::Tensor;
use corten_core::{DType, Result, TensorBase, TensorOptions, Writer, ensure, err};
use std::fs::File;
use std::io::Read;

/// The version of CUDA that the operators on regions were compiled for: none.
///
/// # Errors
/// Never.
pub fn cuda_version() -> Result<i64> {
    Ok(-1)
}

/// The version of libjpeg whose files are read and written.
///
/// # Errors
/// Never.
pub fn jpeg_version() -> Result<i64> {
    Ok(80)
}

/// Whether JPEG files are read and written as libjpeg-turbo does.
///
/// # Errors
/// Never.
pub fn is_compiled_against_turbo() -> Result<bool> {
    Ok(true)
}

/// The bytes of a file.
///
/// # Errors
/// `Runtime` for a file that cannot be read or is empty.
pub fn read_file(filename: &str) -> Result<Tensor> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let words = text.split(" (os error").next().unwrap_or_default();
            err!(Runtime, "[Errno {number}] {words}: '{filename}'")
        }
        None => err!(Runtime, "{error}: '{filename}'"),
    };
    let mut file = File::open(filename).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    ensure!(size > 0, Runtime, "Expected a non empty file");
    let options = TensorOptions::new().dtype(DType::UInt8);
    let bytes = TensorBase::empty(&[i64::try_from(size).unwrap_or(i64::MAX)], options)?;
    file.read_exact(&mut Writer::<u8>::new(&bytes)?).map_err(failed)?;
    Ok(bytes.into())
}
