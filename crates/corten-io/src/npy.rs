//! NumPy's files: `.npy`, an array, and `.npz`, a zip file of arrays.
//!
//! ```
//! use corten::io::npy;
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let path = std::env::temp_dir().join(format!("corten-doc-{}.npy", std::process::id()));
//! npy::save(&path, &tensor![[1., 2.], [3., 4.]]?)?;
//! assert_eq!(npy::load(&path)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # std::fs::remove_file(path).ok();
//! # Ok(())
//! # }
//! ```

use crate::atomic::{self, io_error};
use crate::bytes::{only_truths, swap};
use crate::records::Records;
use corten_core::{DType, Error, Result, Storage, bail, ensure, err, try_to_vec};
use corten_ops::{Tensor, op};
use std::io::{Cursor, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const MAGIC: &[u8] = b"\x93NUMPY";
const LARGEST_HEADER: usize = 10_000;
/// Data begin at a multiple of this.
const ALIGNMENT: usize = 64;
/// A compressed array that grows more than a hundredfold, to more than this, is refused.
const LARGEST_INFLATED: u64 = 1 << 28;
/// NumPy's arrays have up to this many dimensions.
const MOST_DIMENSIONS: usize = 64;

/// Descriptions of dtypes, without the byte order.
const DTYPES: [(&str, DType); 14] = [
    ("b1", DType::Bool),
    ("i1", DType::Int8),
    ("i2", DType::Int16),
    ("i4", DType::Int32),
    ("i8", DType::Int64),
    ("u1", DType::UInt8),
    ("u2", DType::UInt16),
    ("u4", DType::UInt32),
    ("u8", DType::UInt64),
    ("f2", DType::Float16),
    ("f4", DType::Float32),
    ("f8", DType::Float64),
    ("c8", DType::Complex64),
    ("c16", DType::Complex128),
];

/// The array of a `.npy` file. An array in Fortran's order is a transposed view.
///
/// # Errors
/// `Runtime` where the file cannot be read; `Value` where it is no such file, or holds objects or a dtype that no
/// tensor can hold.
pub fn load(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    read(&std::fs::read(path).map_err(|error| io_error(path, &error))?)
}

/// The arrays of a `.npz` file with their names.
///
/// # Errors
/// As [`load`].
pub fn load_npz(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| io_error(path, &error))?;
    read_npz(&bytes).map_err(|error| err!(Value, "{}: {}", path.display(), error.message()))
}

/// The arrays in the bytes of a `.npz` file with their names.
///
/// # Errors
/// `Value` as [`load`].
pub fn read_npz(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    let broken = |why: String| err!(Value, "the file is not an archive of arrays: {why}");
    let mut archive = Records::new(Cursor::new(bytes)).map_err(broken)?;
    let mut found = Vec::new();
    for (at, name) in archive.names().map_err(broken)?.into_iter().enumerate() {
        let name = name.strip_suffix(".npy").map_or(name.clone(), str::to_owned);
        let failed =
            |error: Error| err!(Value, "the array {name:.80} is damaged: {}", error.message());
        let array = archive.read(at, LARGEST_INFLATED).map_err(failed)?;
        found.push((name, read(&array)?));
    }
    Ok(found)
}

/// The array in the bytes of a `.npy` file.
///
/// # Errors
/// `Value` as [`load`].
pub fn read(bytes: &[u8]) -> Result<Tensor> {
    let (header, data) = header(bytes)?;
    let Header { dtype, is_big_endian, is_fortran, mut shape } = header;
    let count = shape.iter().try_fold(1_i64, |count, &size| count.checked_mul(size));
    let nbytes = count.and_then(|count| count.checked_mul(dtype.itemsize() as i64));
    let nbytes = nbytes.and_then(|nbytes| usize::try_from(nbytes).ok());
    let nbytes = nbytes.ok_or_else(|| err!(Value, "the shape in the header is impossible"))?;
    let Some(data) = data.get(..nbytes) else {
        bail!(Value, "the file is shorter than the array that its header describes")
    };
    let storage = Storage::from_vec(try_to_vec(data)?);
    if is_big_endian {
        swap(&storage, dtype)?;
    }
    if dtype == DType::Bool {
        only_truths(&storage)?;
    }
    if is_fortran {
        shape.reverse();
    }
    let strides = corten_core::geometry::contiguous_strides(&shape)?;
    let tensor = Tensor::from_storage(storage, dtype, &shape, &strides, 0)?;
    match is_fortran {
        true => op::permute(&tensor, &(0..shape.len() as i64).rev().collect::<Vec<_>>()),
        false => Ok(tensor),
    }
}

struct Header {
    dtype: DType,
    is_big_endian: bool,
    is_fortran: bool,
    shape: Vec<i64>,
}

/// The header, and the bytes behind it.
fn header(bytes: &[u8]) -> Result<(Header, &[u8])> {
    let version = bytes.get(6).copied().unwrap_or(0);
    ensure!(
        bytes.starts_with(MAGIC) && (1..=3).contains(&version),
        Value,
        "the file is not an array file of NumPy"
    );
    let width = if version == 1 { 2 } else { 4 };
    let end = || err!(Value, "the file ends within its header");
    let mut size = [0; 4];
    size[..width].copy_from_slice(bytes.get(8..8 + width).ok_or_else(end)?);
    let size = u32::from_le_bytes(size) as usize;
    ensure!(
        size <= LARGEST_HEADER,
        Value,
        "the header has {size} bytes: more than {LARGEST_HEADER} are not read"
    );
    let start = 8 + width;
    let text = bytes.get(start..start + size).ok_or_else(end)?;
    let text = std::str::from_utf8(text).map_err(|_| err!(Value, "cannot parse header"))?;
    Ok((parse(text)?, &bytes[start + size..]))
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse(text: &str) -> Result<Header> {
    let wrong = || err!(Value, "the header does not contain the correct keys");
    let behind = |key: &str| {
        let rest = text.split_once(&format!("'{key}'")).map(|(_, rest)| rest.trim_start());
        rest.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start).ok_or_else(wrong)
    };
    let (dtype, is_big_endian) = dtype(behind("descr")?)?;
    let order = behind("fortran_order")?;
    let is_fortran = order.starts_with("True");
    ensure!(
        is_fortran || order.starts_with("False"),
        Value,
        "the header has values of wrong types"
    );
    let shape = behind("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (shape, _) = shape.ok_or_else(|| err!(Value, "the shape in the header is not valid"))?;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let sizes = sizes.map(|size| size.trim_end_matches('L').parse::<u32>().map(i64::from));
    let shape: Result<Vec<i64>, _> = sizes.collect();
    let shape = shape.map_err(|_| err!(Value, "the shape in the header is not valid"))?;
    ensure!(shape.len() <= MOST_DIMENSIONS, Value, "the shape in the header is not valid");
    Ok(Header { dtype, is_big_endian, is_fortran, shape })
}

/// The dtype of a description such as `'<f4'`, and whether it is big-endian.
fn dtype(descr: &str) -> Result<(DType, bool)> {
    let no = || err!(Value, "arrays of that dtype cannot be tensors: {descr:.40}");
    let quoted = descr.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
    let (name, _) = quoted.ok_or_else(no)?;
    let (order, name) = name.split_at_checked(1).ok_or_else(no)?;
    ensure!(!name.starts_with('O'), Value, "Object arrays cannot be loaded: they hold programs");
    ensure!("<>|=".contains(order), Value, "arrays of that dtype cannot be tensors: {descr:.40}");
    let found = DTYPES.iter().find(|(known, _)| *known == name);
    Ok((found.ok_or_else(no)?.1, order == ">"))
}

/// Writes a tensor as a `.npy` file.
///
/// # Errors
/// `Type` for a dtype that NumPy does not have; `Runtime` where the file cannot be written.
pub fn save(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let bytes = write(tensor)?;
    let path = path.as_ref();
    atomic::write(path, |file| file.write_all(&bytes).map_err(|error| io_error(path, &error)))
}

/// Writes named tensors as a `.npz` file, compressed or not.
///
/// # Errors
/// As [`save`].
pub fn save_npz<'a, N: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (N, &'a Tensor)>,
    is_compressed: bool,
) -> Result<()> {
    let path = path.as_ref();
    let method =
        if is_compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    let told = |error: zip::result::ZipError| err!(Runtime, "{}: {error}", path.display());
    atomic::write(path, |file| {
        let mut zip = ZipWriter::new(file);
        for (name, tensor) in tensors {
            let bytes = write(tensor)?;
            let options = SimpleFileOptions::default()
                .compression_method(method)
                .large_file(u32::try_from(bytes.len()).is_err());
            zip.start_file(format!("{}.npy", name.as_ref()), options).map_err(told)?;
            zip.write_all(&bytes).map_err(|error| io_error(path, &error))?;
        }
        zip.finish().map_err(told)?;
        Ok(())
    })
}

/// The bytes of a `.npy` file.
///
/// # Errors
/// `Type` for a dtype that NumPy does not have.
pub fn write(tensor: &Tensor) -> Result<Vec<u8>> {
    let dtype = tensor.dtype();
    let Some((name, _)) = DTYPES.iter().find(|(_, known)| *known == dtype) else {
        bail!(Type, "NumPy has no dtype for {}", dtype.name())
    };
    let order = if dtype.itemsize() == 1 { '|' } else { '<' };
    let sizes: Vec<String> = tensor.sizes().iter().map(ToString::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let mut header = format!(
        "{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        sizes.join(", ")
    );
    let used = MAGIC.len() + 4 + header.len() + 1;
    header.extend(std::iter::repeat_n(' ', used.next_multiple_of(ALIGNMENT) - used));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(crate::bytes::of(tensor)?);
    Ok(bytes)
}
