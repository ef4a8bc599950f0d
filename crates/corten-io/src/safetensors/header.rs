//! The header: what a file says of its tensors is checked before anything of it is used.

use super::Metadata;
use corten_core::{DType, Error, ErrorKind, Result, ensure, err, try_vec, try_with_capacity};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use std::io::Read;

/// The bytes of the number before the header.
const LENGTH: usize = 8;
/// The shortest header is `{}`.
const SMALLEST: usize = 2;
const LARGEST: usize = 100_000_000;
/// How much of a name is shown.
const SHOWN: usize = 100;
/// The key of the strings beside the tensors.
pub(super) const METADATA: &str = "__metadata__";

/// What a header says of a tensor.
///
/// ```
/// use corten::io::safetensors;
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let path = std::env::temp_dir().join(format!("corten-info-{}.safetensors", std::process::id()));
/// safetensors::save(&path, [("bias", &tensor![0.5; DType::Float64]?)], None)?;
/// let file = safetensors::Opened::new(&path)?;
/// assert_eq!((file.info("bias")?.dtype(), file.info("bias")?.nbytes()), (DType::Float64, 8));
/// # std::fs::remove_file(path).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TensorInfo {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<i64>,
    /// Where the data begin in the file.
    pub(super) start: usize,
    pub(super) nbytes: usize,
}

impl TensorInfo {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Where the data begin in the file.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes of the data.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }
}

/// The parts of a header.
pub(super) struct Header {
    /// In alphabetical order.
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) metadata: Option<Metadata>,
}

fn invalid(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Runtime, format!("Error while deserializing header: {what}"))
}

impl Header {
    /// The header of a file that is in memory.
    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let size = header_size(bytes.get(..LENGTH))?;
        let text =
            bytes.get(LENGTH..LENGTH + size).ok_or_else(|| invalid("invalid header length"))?;
        Self::parse(text, bytes.len())
    }

    /// The header of a file of `total` bytes.
    pub(super) fn of_file(file: &mut impl Read, total: u64) -> Result<Self> {
        let total = usize::try_from(total).map_err(|_| invalid("invalid header length"))?;
        let mut first = [0; LENGTH];
        let is_whole = total >= LENGTH && file.read_exact(&mut first).is_ok();
        let size = header_size(is_whole.then_some(&first[..]))?;
        ensure!(
            size <= total - LENGTH,
            Runtime,
            "Error while deserializing header: invalid header length"
        );
        let mut text = try_vec(0_u8, size)?;
        file.read_exact(&mut text).map_err(invalid)?;
        Self::parse(&text, total)
    }

    fn parse(text: &[u8], total: usize) -> Result<Self> {
        let start = LENGTH + text.len();
        let text = std::str::from_utf8(text)
            .map_err(|error| invalid(format_args!("invalid UTF-8 in header: {error}")))?;
        let parsed: Parsed = serde_json::from_str(text)
            .map_err(|error| invalid(format_args!("invalid JSON in header: {error}")))?;
        let mut entries = parsed.entries;
        entries.sort_by_key(|(_, entry)| entry.data_offsets);
        let (mut end, mut tensors) = (0, try_with_capacity(entries.len())?);
        for (name, entry) in entries {
            let (from, to) = entry.data_offsets;
            let info = entry.checked(name, start)?;
            if from != end || to.checked_sub(from) != Some(info.nbytes as u64) {
                let name = shown(&info.name);
                return Err(invalid(format_args!("invalid offset for tensor `{name}`")));
            }
            end = to;
            tensors.push(info);
        }
        if end != (total - start) as u64 {
            return Err(invalid("incomplete metadata, file not fully covered"));
        }
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { tensors, metadata: parsed.metadata })
    }
}

/// The length of the header by the first bytes of a file, which are missing where it is shorter.
fn header_size(first: Option<&[u8]>) -> Result<usize> {
    let first = first.and_then(|first| <[u8; LENGTH]>::try_from(first).ok());
    let size = first.map_or(0, u64::from_le_bytes);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size < SMALLEST {
        return Err(invalid("header too small"));
    }
    if size > LARGEST {
        return Err(invalid("header too large"));
    }
    Ok(size)
}

fn shown(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}

/// The JSON of a header: every name comes up once.
struct Parsed {
    entries: Vec<(String, Entry)>,
    metadata: Option<Metadata>,
}

/// The JSON of a tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Entry {
    /// What the entry says, with the offset of the data from the start of the file.
    fn checked(self, name: String, start: usize) -> Result<TensorInfo> {
        let named = DType::ALL.iter().find(|dtype| dtype.file_name() == self.dtype);
        let dtype = named
            .filter(|_| !self.dtype.is_empty())
            .copied()
            .ok_or_else(|| invalid(format_args!("unknown dtype of tensor `{}`", shown(&name))))?;
        let overflow = || invalid(format_args!("the shape of tensor `{}` overflows", shown(&name)));
        let shape: Result<Vec<i64>, _> =
            self.shape.iter().map(|&size| i64::try_from(size)).collect();
        let shape = shape.map_err(|_| overflow())?;
        // Strides are products of sizes, of which one may be zero.
        let mut sizes = shape.iter().filter(|&&size| size != 0);
        let whole = sizes.try_fold(1_i64, |whole, &size| whole.checked_mul(size));
        whole.ok_or_else(overflow)?;
        let count: i64 = shape.iter().product();
        let nbytes = count.checked_mul(dtype.itemsize() as i64).ok_or_else(overflow)?;
        let offset = usize::try_from(self.data_offsets.0).ok().and_then(|at| at.checked_add(start));
        let offset = offset
            .ok_or_else(|| invalid(format_args!("invalid offset for tensor `{}`", shown(&name))))?;
        Ok(TensorInfo { dtype, shape, start: offset, nbytes: nbytes as usize, name })
    }
}

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Parsed;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
        let (mut entries, mut metadata, mut seen) = (Vec::new(), None, HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom("a name occurs twice"));
            }
            if name == METADATA {
                metadata = map.next_value::<Option<Metadata>>()?;
            } else {
                entries.push((name, map.next_value()?));
            }
        }
        Ok(Parsed { entries, metadata })
    }
}

/// The start of a file: the length of the header and the header, padded to a multiple of eight.
pub(super) fn encoded(
    tensors: &[(&str, DType, &[i64])],
    metadata: Option<&Metadata>,
) -> Result<Vec<u8>> {
    let quoted = |text: &str| {
        serde_json::to_string(text).map_err(|error| err!(Runtime, "safetensors: {error}"))
    };
    let mut parts = Vec::new();
    if let Some(metadata) = metadata.filter(|metadata| !metadata.is_empty()) {
        let mut pairs: Vec<_> = metadata.iter().collect();
        pairs.sort();
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| Ok(format!("{}:{}", quoted(key)?, quoted(value)?)));
        parts.push(format!("\"{METADATA}\":{{{}}}", pairs.collect::<Result<Vec<_>>>()?.join(",")));
    }
    let mut end = 0;
    for &(name, dtype, shape) in tensors {
        let start = end;
        end += shape.iter().product::<i64>() as usize * dtype.itemsize();
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        parts.push(format!(
            "{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{start},{end}]}}",
            quoted(name)?,
            dtype.file_name(),
            shape.join(",")
        ));
    }
    let mut text = format!("{{{}}}", parts.join(",")).into_bytes();
    text.resize(text.len().next_multiple_of(LENGTH), b' ');
    ensure!(text.len() <= LARGEST, Runtime, "safetensors: header too large");
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}
