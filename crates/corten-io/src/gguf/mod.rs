//! GGUF, the format of GGML's language models: metadata, a table of tensors, data.
//!
//! Tensors of plain dtypes are tensors; those of quantised types are their bytes, with the name of the type. The
//! format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3, little-endian.
//!
//! ```
//! use corten::io::{Value, gguf};
//! use corten::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let path = std::env::temp_dir().join(format!("corten-doc-{}.gguf", std::process::id()));
//! let metadata = [("general.architecture".to_owned(), Value::Text("llama".to_owned()))];
//! gguf::save(&path, &metadata, &[("token_embd.weight".to_owned(), tensor![[1., 2.]]?)])?;
//! let file = gguf::Opened::new(&path)?;
//! assert_eq!(file.tensor("token_embd.weight")?.sizes().to_vec(), [1, 2]);
//! # std::fs::remove_file(path).ok();
//! # Ok(())
//! # }
//! ```

mod write;

use crate::atomic::io_error;
use crate::value::Value;
use corten_blocks::Format;
use corten_core::{
    Access, AccessSet, DType, Device, LentMemory, Result, Storage, bail, ensure, err,
};
use corten_ops::{Tensor, blocks, op};
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;
pub use write::{save, write, write_like};

const MAGIC: [u8; 4] = *b"GGUF";
const VERSION: u32 = 3;
const ALIGNMENT: u64 = 32;
/// How deep lists of metadata are nested at most.
const DEEPEST: usize = 4;
/// The most entries of metadata, and the most tensors: both are far beyond any model.
const MOST_ENTRIES: u64 = 1 << 20;
/// The most values in lists of metadata.
const MOST_VALUES: u64 = 1 << 23;
/// The most bytes of metadata and table.
const LARGEST_HEAD: u64 = 1 << 26;

/// An element type of GGML: its number, its name, the elements of a block and the bytes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementType {
    /// The number in files.
    pub number: u32,
    /// The name.
    pub name: &'static str,
    /// Elements per block.
    pub block: u64,
    /// Bytes per block.
    pub nbytes: u64,
    /// The dtype, of plain types.
    pub dtype: Option<DType>,
}

const fn unquantised(number: u32, name: &'static str, nbytes: u64, dtype: DType) -> ElementType {
    ElementType { number, name, block: 1, nbytes, dtype: Some(dtype) }
}

/// A type whose weights [`Opened::dequantized`] gives.
const fn of_format(format: Format) -> ElementType {
    let (block, nbytes) = (format.block_elements() as u64, format.block_bytes() as u64);
    quantised(format as u32, format.name(), block, nbytes)
}

const fn quantised(number: u32, name: &'static str, block: u64, nbytes: u64) -> ElementType {
    ElementType { number, name, block, nbytes, dtype: None }
}

/// The element types.
pub const ELEMENT_TYPES: &[ElementType] = &[
    unquantised(0, "F32", 4, DType::Float32),
    unquantised(1, "F16", 2, DType::Float16),
    of_format(Format::Q4_0),
    of_format(Format::Q4_1),
    of_format(Format::Q5_0),
    of_format(Format::Q5_1),
    of_format(Format::Q8_0),
    quantised(9, "Q8_1", 32, 36),
    of_format(Format::Q2K),
    of_format(Format::Q3K),
    of_format(Format::Q4K),
    of_format(Format::Q5K),
    of_format(Format::Q6K),
    quantised(15, "Q8_K", 256, 292),
    quantised(16, "IQ2_XXS", 256, 66),
    quantised(17, "IQ2_XS", 256, 74),
    quantised(18, "IQ3_XXS", 256, 98),
    quantised(19, "IQ1_S", 256, 50),
    of_format(Format::IQ4NL),
    quantised(21, "IQ3_S", 256, 110),
    quantised(22, "IQ2_S", 256, 82),
    of_format(Format::IQ4XS),
    unquantised(24, "I8", 1, DType::Int8),
    unquantised(25, "I16", 2, DType::Int16),
    unquantised(26, "I32", 4, DType::Int32),
    unquantised(27, "I64", 8, DType::Int64),
    unquantised(28, "F64", 8, DType::Float64),
    quantised(29, "IQ1_M", 256, 56),
    unquantised(30, "BF16", 2, DType::BFloat16),
    quantised(34, "TQ1_0", 256, 54),
    quantised(35, "TQ2_0", 256, 66),
    of_format(Format::MXFP4),
];

/// What the table says of a tensor.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// The name.
    pub name: String,
    /// The shape, slowest dimension first, as of a tensor.
    pub shape: Vec<i64>,
    /// The element type.
    pub element_type: ElementType,
    start: usize,
    nbytes: usize,
}

impl TensorInfo {
    /// Bytes of the data.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }
}

/// A mapped file: data are read when they are used, and writing to tensors does not change the file. A build
/// without `mmap` reads it whole.
pub struct Opened {
    memory: LentMemory,
    metadata: Vec<(String, Value)>,
    /// Where the type and the value of each entry of metadata are.
    encoded: Vec<Range<usize>>,
    tensors: Vec<TensorInfo>,
}

impl Opened {
    /// Maps a file and reads its metadata and its table of tensors.
    ///
    /// # Errors
    /// `Runtime` where the file cannot be mapped, is damaged, or is of another version.
    pub fn new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| io_error(path, &error))?;
        let size = file.metadata().map_err(|error| io_error(path, &error))?.len();
        let (metadata, encoded, tensors) = Head::new(BufReader::new(file), size).read(size)?;
        let memory = Storage::of_file(path)?.lend()?;
        Ok(Self { memory, metadata, encoded, tensors })
    }

    /// Copies a file that is in memory and reads its metadata and its table of tensors.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let size = bytes.len() as u64;
        let (metadata, encoded, tensors) = Head::new(bytes, size).read(size)?;
        let storage = Storage::new(bytes.len(), Device::CPU)?;
        storage.write_bytes(0, bytes)?;
        Ok(Self { memory: storage.lend()?, metadata, encoded, tensors })
    }

    /// The metadata in the order of the file.
    pub fn metadata(&self) -> &[(String, Value)] {
        &self.metadata
    }

    /// The metadata of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.metadata.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The bytes of the type and the value of an entry of metadata, as the file has them.
    ///
    /// # Errors
    /// `Index` for an unknown name.
    pub fn encoded(&self, name: &str) -> Result<Vec<u8>> {
        let found = self.metadata.iter().position(|(known, _)| known == name);
        let place = found.ok_or_else(|| err!(Index, "the file has no metadata {name:?}"))?;
        let Range { start, end } = self.encoded[place].clone();
        let storage = self.memory.slice(start, end - start)?;
        let bytes = Tensor::from_storage(storage, DType::UInt8, &[(end - start) as i64], &[1], 0)?;
        let set = AccessSet::acquire(&[(&bytes, Access::Read)])?;
        Ok(set.read::<u8>(0)?.to_vec())
    }

    /// The table of tensors in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// What the table says of a tensor.
    ///
    /// # Errors
    /// `Index` for an unknown name.
    pub fn info(&self, name: &str) -> Result<&TensorInfo> {
        let found = self.tensors.iter().find(|info| info.name == name);
        found.ok_or_else(|| err!(Index, "the file has no tensor {name:?}"))
    }

    /// A tensor over the mapped data: of a plain type as it is, of a quantised one its bytes, in rows of the
    /// last dimension.
    ///
    /// # Errors
    /// `Index` for an unknown name.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let info = self.info(name)?;
        let storage = self.memory.slice(info.start, info.nbytes)?;
        let (dtype, mut shape) = (info.element_type.dtype, info.shape.clone());
        if dtype.is_none()
            && let Some(last) = shape.last_mut()
        {
            let blocks = *last / info.element_type.block as i64;
            *last = blocks * info.element_type.nbytes as i64;
        }
        let strides = corten_core::geometry::contiguous_strides(&shape)?;
        Tensor::from_storage(storage, dtype.unwrap_or(DType::UInt8), &shape, &strides, 0)
    }

    /// A tensor of weights over the mapped data: a quantised one as a block-quantised tensor
    /// ([`corten_ops::blocks`]), one of a plain type as [`tensor`](Self::tensor) gives it.
    ///
    /// # Errors
    /// `Index` for an unknown name, `NotImplemented` for formats that [`Format`] does not have.
    pub fn weights(&self, name: &str) -> Result<Tensor> {
        let info = self.info(name)?;
        let bytes = self.tensor(name)?;
        if info.element_type.dtype.is_some() {
            return Ok(bytes);
        }
        blocks::from_bytes(format_of(info)?, &bytes, &info.shape)
    }

    /// A tensor of weights: a quantised one in `float32`, one of a plain type as [`tensor`](Self::tensor) gives it.
    ///
    /// # Errors
    /// `Index` for an unknown name, `NotImplemented` for formats that [`Format`] does not have.
    pub fn dequantized(&self, name: &str) -> Result<Tensor> {
        let info = self.info(name)?;
        let bytes = self.tensor(name)?;
        if info.element_type.dtype.is_some() {
            return Ok(bytes);
        }
        let weights = blocks::from_bytes(format_of(info)?, &bytes, &info.shape)?;
        op::to_dense(&weights, None, None)
    }
}

/// The format of a quantised tensor.
fn format_of(info: &TensorInfo) -> Result<Format> {
    let (name, kind) = (&info.name, info.element_type.name);
    let format = Format::of_number(info.element_type.number);
    format.ok_or_else(|| err!(NotImplemented, "{name}: weights of the format {kind} are not known"))
}

/// Data of tensors begin at multiples of this.
fn alignment_of(metadata: &[(String, Value)]) -> Result<u64> {
    let given = metadata.iter().find(|(name, _)| name == "general.alignment");
    let alignment = match given {
        Some((_, Value::Int(value))) => u64::try_from(*value).unwrap_or(0),
        _ => ALIGNMENT,
    };
    ensure!(
        alignment.is_power_of_two() && alignment <= 1 << 20,
        Runtime,
        "general.alignment is {alignment}"
    );
    Ok(alignment)
}

/// Reads what is before the data.
struct Head<R> {
    file: R,
    at: u64,
    size: u64,
    /// How many values metadata may still have.
    values_left: u64,
}

/// Metadata, where their values are, and the table.
type Parsed = (Vec<(String, Value)>, Vec<Range<usize>>, Vec<TensorInfo>);

impl<R: Read> Head<R> {
    fn new(file: R, size: u64) -> Self {
        Self { file, at: 0, size: size.min(LARGEST_HEAD), values_left: MOST_VALUES }
    }

    fn read(&mut self, file_size: u64) -> Result<Parsed> {
        ensure!(self.take::<4>()? == MAGIC, Runtime, "the file is not in GGUF format");
        let version = self.u32()?;
        ensure!(
            (2..=VERSION).contains(&version),
            Runtime,
            "GGUF version {version} is not read (big-endian files are not, either)"
        );
        let (tensors, entries) = (self.u64()?, self.u64()?);
        ensure!(
            tensors <= MOST_ENTRIES && entries <= MOST_ENTRIES,
            Runtime,
            "the file says that it has {tensors} tensors and {entries} entries of metadata"
        );
        let (mut metadata, mut encoded) = (Vec::new(), Vec::new());
        for _ in 0..entries {
            let (name, start) = (self.text()?, self.at as usize);
            let kind = self.u32()?;
            metadata.push((name, self.value(kind, 0)?));
            encoded.push(start..self.at as usize);
        }
        let mut infos = Vec::new();
        for _ in 0..tensors {
            infos.push(self.info()?);
        }
        let alignment = alignment_of(&metadata)?;
        let start = self.at.next_multiple_of(alignment);
        for (info, offset) in &mut infos {
            let end = start.checked_add(*offset);
            let begin = end.filter(|&begin| {
                begin.checked_add(info.nbytes as u64).is_some_and(|end| end <= file_size)
            });
            let Some(begin) = begin else {
                bail!(Runtime, "the tensor {:.80} reaches beyond the file", info.name)
            };
            let elements = info.element_type.dtype.map_or(1, DType::itemsize) as u64;
            ensure!(
                begin.is_multiple_of(elements),
                Runtime,
                "the tensor {:.80} is not aligned",
                info.name
            );
            info.start = begin as usize;
        }
        Ok((metadata, encoded, infos.into_iter().map(|(info, _)| info).collect()))
    }

    /// A line of the table, and where its data begin behind the table.
    fn info(&mut self) -> Result<(TensorInfo, u64)> {
        let name = self.text()?;
        let rank = self.u32()?;
        ensure!(rank <= 8, Runtime, "the tensor {name:.80} has {rank} dimensions");
        let mut shape = (0..rank)
            .map(|_| {
                let size = i64::try_from(self.u64()?);
                size.map_err(|_| err!(Runtime, "the tensor {name:.80} has an impossible shape"))
            })
            .collect::<Result<Vec<i64>>>()?;
        // The format has the fastest dimension first.
        shape.reverse();
        let number = self.u32()?;
        let element_type = ELEMENT_TYPES.iter().find(|known| known.number == number).copied();
        let Some(element_type) = element_type else {
            bail!(Runtime, "the tensor {name:.80} is of the unknown element type {number}")
        };
        let offset = self.u64()?;
        let last = shape.last().map_or(1, |&last| last as u64);
        ensure!(
            last.is_multiple_of(element_type.block),
            Runtime,
            "rows of the tensor {name:.80} are no whole blocks of {}",
            element_type.name
        );
        let count = shape.iter().try_fold(1_u64, |count, &size| count.checked_mul(size as u64));
        let nbytes = count.map(|count| count / element_type.block);
        let nbytes = nbytes.and_then(|blocks| blocks.checked_mul(element_type.nbytes));
        let nbytes = nbytes.and_then(|nbytes| usize::try_from(nbytes).ok());
        let nbytes =
            nbytes.ok_or_else(|| err!(Runtime, "the tensor {name:.80} has an impossible shape"))?;
        Ok((TensorInfo { name, shape, element_type, start: 0, nbytes }, offset))
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value> {
        Ok(match kind {
            0 => Value::Int(i64::from(self.take::<1>()?[0])),
            1 => Value::Int(i64::from(i8::from_le_bytes(self.take()?))),
            2 => Value::Int(i64::from(u16::from_le_bytes(self.take()?))),
            3 => Value::Int(i64::from(i16::from_le_bytes(self.take()?))),
            4 => Value::Int(i64::from(self.u32()?)),
            5 => Value::Int(i64::from(i32::from_le_bytes(self.take()?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.take()?))),
            7 => Value::Bool(self.take::<1>()?[0] != 0),
            8 => Value::Text(self.text()?),
            9 => self.list(depth)?,
            10 => {
                let value = self.u64()?;
                match i64::try_from(value) {
                    Ok(value) => Value::Int(value),
                    Err(_) => Value::BigInt([&value.to_le_bytes()[..], &[0]].concat()),
                }
            }
            11 => Value::Int(i64::from_le_bytes(self.take()?)),
            12 => Value::Float(f64::from_le_bytes(self.take()?)),
            other => bail!(Runtime, "metadata of the unknown type {other}"),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Value> {
        ensure!(depth < DEEPEST, Runtime, "lists of metadata are nested too deep");
        let (kind, count) = (self.u32()?, self.u64()?);
        // Every element takes at least a byte of the file.
        ensure!(count <= self.size - self.at, Runtime, "the file is shorter than its metadata say");
        // A list of bytes takes forty times its size in memory.
        let left = self.values_left.checked_sub(count);
        self.values_left =
            left.ok_or_else(|| err!(Runtime, "metadata of more than {MOST_VALUES} values"))?;
        let values = (0..count).map(|_| self.value(kind, depth + 1));
        Ok(Value::List(values.collect::<Result<_>>()?))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        ensure!(
            bytes.len() as u64 <= self.size - self.at,
            Runtime,
            "the file ends within its metadata"
        );
        let filled = self.file.read_exact(bytes);
        filled.map_err(|error| err!(Runtime, "the file ends within its metadata: {error}"))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn text(&mut self) -> Result<String> {
        let count = self.u64()?;
        ensure!(count <= self.size - self.at, Runtime, "the file ends within its metadata");
        let mut bytes = corten_core::try_vec(0, count as usize)?;
        self.fill(&mut bytes)?;
        // Tokens of vocabularies need not be text.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
