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
use crate::bytes::{filled, only_truths, swap};
use crate::records::Records;
use corten_core::{DType, Error, ErrorKind, Result, bail, ensure, err};
use corten_ops::{Tensor, op};
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const MAGIC: &[u8] = b"\x93NUMPY";
const LARGEST_HEADER: usize = 10_000;
/// Data begin at a multiple of this.
const ALIGNMENT: usize = 64;
/// Compressed arrays of up to this many bytes are read, however small they are in the file: zeros shrink a
/// thousandfold.
const LARGEST_INFLATED: u64 = 1 << 32;
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
    let file = File::open(path).map_err(|error| io_error(path, &error))?;
    let size = file.metadata().map_err(|error| io_error(path, &error))?.len();
    read_array(&mut BufReader::new(file), size).map_err(|error| named(path, error))
}

/// An error about what a file holds, with its name.
fn named(path: &Path, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Value | ErrorKind::Runtime => {
            err!(Value, "{}: {}", path.display(), error.message())
        }
        _ => error,
    }
}

/// The arrays of a `.npz` file with their names.
///
/// # Errors
/// As [`load`].
pub fn load_npz(path: impl AsRef<Path>) -> Result<Vec<(String, Tensor)>> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|error| io_error(path, &error))?;
    read_arrays(BufReader::new(file)).map_err(|error| named(path, error))
}

/// The arrays in the bytes of a `.npz` file with their names.
///
/// # Errors
/// `Value` as [`load`].
pub fn read_npz(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
    read_arrays(Cursor::new(bytes))
}

fn read_arrays(file: impl Read + Seek) -> Result<Vec<(String, Tensor)>> {
    let broken = |why: String| err!(Value, "the file is not an archive of arrays: {why}");
    let mut archive = Records::new(file, LARGEST_INFLATED).map_err(broken)?;
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
    read_array(&mut Cursor::new(bytes), bytes.len() as u64)
}

/// The array of a file of `size` bytes.
fn read_array(file: &mut impl Read, size: u64) -> Result<Tensor> {
    let (Header { dtype, is_big_endian, is_fortran, mut shape }, start) = header(file)?;
    let count = shape.iter().try_fold(1_i64, |count, &size| count.checked_mul(size));
    let nbytes = count.and_then(|count| count.checked_mul(dtype.itemsize() as i64));
    let nbytes = nbytes.and_then(|nbytes| usize::try_from(nbytes).ok());
    let nbytes = nbytes.ok_or_else(|| err!(Value, "the shape in the header is impossible"))?;
    ensure!(
        nbytes as u64 <= size.saturating_sub(start),
        Value,
        "the file is shorter than the array that its header describes"
    );
    let storage = filled(file, nbytes)?;
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

/// The header, and where the data begin.
fn header(file: &mut impl Read) -> Result<(Header, u64)> {
    let mut start = [0; 8];
    let is_whole = file.read_exact(&mut start).is_ok();
    ensure!(
        is_whole && start.starts_with(MAGIC) && (1..=3).contains(&start[6]),
        Value,
        "the file is not an array file of NumPy"
    );
    let end = |_| err!(Value, "the file ends within its header");
    let width = if start[6] == 1 { 2 } else { 4 };
    let mut size = [0; 4];
    file.read_exact(&mut size[..width]).map_err(end)?;
    let size = u32::from_le_bytes(size) as usize;
    ensure!(
        size <= LARGEST_HEADER,
        Value,
        "the header has {size} bytes: more than {LARGEST_HEADER} are not read"
    );
    // Bounded: by `LARGEST_HEADER`.
    let mut text = vec![0; size];
    file.read_exact(&mut text).map_err(end)?;
    let text = std::str::from_utf8(&text).map_err(|_| err!(Value, "cannot parse header"))?;
    Ok((HeaderText(text.trim()).parse()?, (start.len() + width + size) as u64))
}

/// What is left of the text of a header: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
struct HeaderText<'a>(&'a str);

impl<'a> HeaderText<'a> {
    fn parse(mut self) -> Result<Header> {
        let (mut descr, mut order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.eat("}") {
            let key = self.quoted();
            self.expect(":")?;
            let is_new = match key {
                Some("descr") => descr.replace(self.dtype()?).is_none(),
                Some("fortran_order") => order.replace(self.truth()?).is_none(),
                Some("shape") => shape.replace(self.shape()?).is_none(),
                _ => false,
            };
            ensure!(is_new, Value, "the header does not contain the correct keys");
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        ensure!(self.0.is_empty(), Value, "cannot parse header");
        let (Some((dtype, is_big_endian)), Some(is_fortran), Some(shape)) = (descr, order, shape)
        else {
            bail!(Value, "the header does not contain the correct keys")
        };
        Ok(Header { dtype, is_big_endian, is_fortran, shape })
    }

    /// Moves past a token and the white space behind it, if it comes next.
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.0.strip_prefix(token);
        self.0 = rest.map_or(self.0, str::trim_start);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        ensure!(self.eat(token), Value, "cannot parse header");
        Ok(())
    }

    fn quoted(&mut self) -> Option<&'a str> {
        let quote = self.0.chars().next().filter(|&first| first == '\'' || first == '"')?;
        let (text, rest) = self.0[1..].split_once(quote)?;
        self.0 = rest.trim_start();
        Some(text)
    }

    /// The dtype of a description such as `'<f4'`, and whether it is big-endian.
    fn dtype(&mut self) -> Result<(DType, bool)> {
        let no = || err!(Value, "arrays of that dtype cannot be tensors");
        let (order, name) =
            self.quoted().and_then(|text| text.split_at_checked(1)).ok_or_else(no)?;
        ensure!(
            !name.starts_with('O'),
            Value,
            "Object arrays cannot be loaded: they hold programs"
        );
        let found = DTYPES.iter().find(|(known, _)| *known == name);
        let found = found.filter(|_| "<>|=".contains(order)).ok_or_else(no)?;
        Ok((found.1, order == ">"))
    }

    fn truth(&mut self) -> Result<bool> {
        let is_true = self.eat("True");
        ensure!(is_true || self.eat("False"), Value, "the header has values of wrong types");
        Ok(is_true)
    }

    fn shape(&mut self) -> Result<Vec<i64>> {
        let wrong = || err!(Value, "the shape in the header is not valid");
        ensure!(self.eat("("), Value, "the header has values of wrong types");
        let mut shape = Vec::new();
        while !self.eat(")") {
            let digits =
                self.0.len() - self.0.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (size, rest) = self.0.split_at(digits);
            self.0 = rest.trim_start();
            // Python 2 wrote long numbers so.
            self.eat("L");
            shape.push(size.parse().map_err(|_| wrong())?);
            if !self.eat(",") {
                // A number in parentheses is no tuple.
                ensure!(shape.len() > 1 && self.eat(")"), Value, "{}", wrong().message());
                break;
            }
        }
        ensure!(shape.len() <= MOST_DIMENSIONS, Value, "the shape in the header is not valid");
        Ok(shape)
    }
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
