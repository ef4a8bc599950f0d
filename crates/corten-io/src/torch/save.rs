//! Writing.

use super::storage_class;
use super::stream::{MAGIC, PROTOCOL};
use crate::atomic;
use crate::pickle::Writer;
use crate::value::Value;
use corten_blocks::Format;
use corten_core::{DType, Error, ErrorKind, Layout, MemoryFormat, Result, Storage, bail};
use corten_ops::sparse::{Compressed, Coo};
use corten_ops::{Tensor, blocks, op};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Seek, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Data of storages begin at multiples of this, so that files can be mapped.
const ALIGNMENT: u16 = 64;

/// Writes a value as `torch.save` does: a zip archive, which PyTorch and [`load`](super::load) read. Tensors that
/// share a storage share it in the file, and views stay views. The file appears when it is complete.
///
/// # Errors
/// `Runtime` where the file cannot be written, for objects of unknown classes and for one storage under two
/// dtypes; `NotImplemented` for tensors without a storage.
pub fn save(path: impl AsRef<Path>, value: &Value) -> Result<()> {
    let path = path.as_ref();
    let folder = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("archive").to_owned();
    let (pickle, storages) = pickled(value, false)?;
    atomic::write(path, |file| write_archive(file, &folder, &pickle, &storages))
}

/// Writes a value as PyTorch before 1.6 did: a stream.
///
/// # Errors
/// As [`save`].
pub fn save_legacy(path: impl AsRef<Path>, value: &Value) -> Result<()> {
    let (pickle, storages) = pickled(value, true)?;
    let plain = |value: &Value| Writer::new(|_, _| Ok(())).pickle(value);
    let sizes =
        [("short", 2), ("int", 4), ("long", 4)].map(|(name, size)| (name, Value::Int(size)));
    let info = Value::from_pairs([
        ("protocol_version", Value::Int(PROTOCOL)),
        ("little_endian", Value::Bool(true)),
        ("type_sizes", Value::from_pairs(sizes)),
    ]);
    let keys = (0..storages.len()).map(|key| Value::Text(key.to_string())).collect();
    let head =
        [plain(&Value::BigInt(MAGIC.to_vec()))?, plain(&Value::Int(PROTOCOL))?, plain(&info)?];
    let head = [head.concat(), pickle, plain(&Value::List(keys))?].concat();
    atomic::write(path, |file| {
        let told = |error: std::io::Error| Error::new(ErrorKind::Runtime, error.to_string());
        file.write_all(&head).map_err(told)?;
        for (storage, dtype) in &storages {
            let bytes = host_bytes(storage)?;
            let width = storage_class(*dtype).map_or(1, |_| dtype.itemsize());
            let count = (bytes.len() / width) as i64;
            file.write_all(&count.to_le_bytes()).map_err(told)?;
            file.write_all(&bytes).map_err(told)?;
        }
        Ok(())
    })
}

fn write_archive<W: Write + Seek>(
    file: W,
    folder: &str,
    pickle: &[u8],
    storages: &[(Storage, DType)],
) -> Result<()> {
    let told = |error: zip::result::ZipError| Error::new(ErrorKind::Runtime, error.to_string());
    let failed = |error: std::io::Error| Error::new(ErrorKind::Runtime, error.to_string());
    let mut zip = ZipWriter::new(file);
    let mut record = |name: &str, bytes: &[u8]| {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(u32::try_from(bytes.len()).is_err())
            .with_alignment(ALIGNMENT);
        zip.start_file(format!("{folder}/{name}"), options).map_err(told)?;
        zip.write_all(bytes).map_err(failed)
    };
    record("data.pkl", pickle)?;
    record(".format_version", b"1")?;
    record(".storage_alignment", ALIGNMENT.to_string().as_bytes())?;
    record("byteorder", b"little")?;
    for (key, (storage, _)) in storages.iter().enumerate() {
        record(&format!("data/{key}"), &host_bytes(storage)?)?;
    }
    record("version", b"3\n")?;
    record(".data/serialization_id", b"0000000000000000000000000000000000000000")?;
    zip.finish().map_err(told)?.flush().map_err(failed)
}

/// The bytes of a storage, wherever it is.
fn host_bytes(storage: &Storage) -> Result<Vec<u8>> {
    if storage.device().is_cpu() {
        return storage.read_bytes();
    }
    let count = storage.nbytes() as i64;
    Tensor::from_storage(storage.clone(), DType::UInt8, &[count], &[1], 0)?.to_vec()
}

/// The storages of a file in the order of their keys, with the dtypes of their elements.
type Storages = Vec<(Storage, DType)>;

/// The pickle of a value, and the storages that it refers to.
fn pickled(value: &Value, is_stream: bool) -> Result<(Vec<u8>, Storages)> {
    let saved = RefCell::new(Saved { is_stream, ..Saved::default() });
    let writer = Writer::new(|writer, tensor| saved.borrow_mut().write(writer, tensor));
    let pickle = writer.pickle(value)?;
    Ok((pickle, saved.into_inner().found))
}

/// The storages of tensors that were written.
#[derive(Default)]
pub(super) struct Saved {
    found: Storages,
    keys: HashMap<usize, usize>,
    is_stream: bool,
}

impl Saved {
    pub(super) fn write(&mut self, writer: &mut Writer<'_>, tensor: &Tensor) -> Result<()> {
        let tensor = op::resolve_neg(&op::resolve_conj(&op::detach(tensor)?)?)?;
        if let Some(parts) = Compressed::of(&tensor) {
            return self.write_compressed(writer, &parts, &tensor.sizes());
        }
        if let Some(parts) = Coo::of(&tensor) {
            return self.write_coordinates(writer, &parts, &tensor.sizes());
        }
        if let Some(format) = blocks::format_of(&tensor) {
            return self.write_blocks(writer, &tensor, format);
        }
        if tensor.storage().is_err() {
            bail!(
                NotImplemented,
                "tensors of the layout torch.{} are not saved",
                tensor.layout().name()
            );
        }
        // Readers know no negative strides.
        let tensor = if tensor.strides().iter().any(|&stride| stride < 0) {
            op::contiguous(&tensor, MemoryFormat::Contiguous)?
        } else {
            tensor
        };
        let storage = tensor.storage()?.clone();
        let found = &mut self.found;
        let key = *self.keys.entry(storage.key()).or_insert_with(|| {
            found.push((storage.clone(), tensor.dtype()));
            found.len() - 1
        });
        if found[key].1 != tensor.dtype() {
            bail!(
                Runtime,
                "Cannot save multiple tensors or storages that view the same data as different types"
            );
        }
        write_tensor(writer, &tensor, &storage, key, self)
    }

    /// A tensor in coordinate format, as its parts.
    fn write_coordinates(
        &mut self,
        writer: &mut Writer<'_>,
        parts: &Coo,
        sizes: &[i64],
    ) -> Result<()> {
        writer.global("torch._utils", "_rebuild_sparse_tensor");
        writer.raw(b"(");
        writer.value(&Value::Layout(Layout::Sparse))?;
        writer.raw(b"(");
        self.write(writer, &parts.indices)?;
        self.write(writer, &parts.values)?;
        writer.value(&Value::Size(sizes.to_vec()))?;
        writer.value(&Value::Bool(parts.coalesced))?;
        writer.raw(b"ttR");
        Ok(())
    }

    /// A block-quantised tensor, as the name of its format, its bytes, its shape, and whether it is a transpose.
    fn write_blocks(
        &mut self,
        writer: &mut Writer<'_>,
        tensor: &Tensor,
        format: Format,
    ) -> Result<()> {
        let Some((rows, is_transposed)) = blocks::stored(tensor) else { return Ok(()) };
        writer.global("torch._utils", "_rebuild_block_tensor");
        writer.raw(b"(");
        writer.value(&Value::Text(format.name().to_owned()))?;
        self.write(writer, rows.bytes())?;
        writer.value(&Value::Size(rows.sizes().to_vec()))?;
        writer.value(&Value::Bool(is_transposed))?;
        writer.value(&Value::Bool(false))?;
        writer.raw(b"tR");
        Ok(())
    }

    /// A tensor whose rows or columns are compressed, as its parts.
    fn write_compressed(
        &mut self,
        writer: &mut Writer<'_>,
        parts: &Compressed,
        sizes: &[i64],
    ) -> Result<()> {
        writer.global("torch._utils", "_rebuild_sparse_tensor");
        writer.raw(b"(");
        writer.value(&Value::Layout(parts.layout))?;
        writer.raw(b"(");
        for part in [&parts.compressed_indices, &parts.plain_indices, &parts.values] {
            self.write(writer, part)?;
        }
        writer.value(&Value::Size(sizes.to_vec()))?;
        writer.raw(b"ttR");
        Ok(())
    }
}

fn write_tensor(
    writer: &mut Writer<'_>,
    tensor: &Tensor,
    storage: &Storage,
    key: usize,
    saved: &mut Saved,
) -> Result<()> {
    let dtype = tensor.dtype();
    let class = storage_class(dtype);
    let is_typed = class.is_some();
    let quantizer = tensor.is_quantized().then(|| tensor.known_quantizer()).transpose()?;
    let function = if quantizer.is_some() {
        "_rebuild_qtensor"
    } else if is_typed {
        "_rebuild_tensor_v2"
    } else {
        "_rebuild_tensor_v3"
    };
    writer.global("torch._utils", function);
    writer.raw(b"(");
    // The reference to the storage.
    writer.raw(b"(");
    writer.value(&Value::Text("storage".to_owned()))?;
    match &class {
        Some(class) => writer.global("torch", class),
        None => writer.global("torch.storage", "UntypedStorage"),
    }
    writer.value(&Value::Text(key.to_string()))?;
    writer.value(&Value::Text(tensor.device().to_string()))?;
    let count = storage.nbytes() / if is_typed { dtype.itemsize() } else { 1 };
    writer.value(&Value::Int(count as i64))?;
    if saved.is_stream {
        writer.value(&Value::None)?;
    }
    writer.raw(b"tQ");
    let ints = |values: &[i64]| values.iter().copied().map(Value::Int).collect::<Vec<_>>();
    writer.value(&Value::Int(tensor.storage_offset()))?;
    writer.tuple(&ints(&tensor.sizes()))?;
    writer.tuple(&ints(&tensor.strides()))?;
    if let Some(quantizer) = quantizer {
        saved.write_quantizer(writer, &quantizer)?;
    }
    writer.value(&Value::Bool(false))?;
    writer.call("collections", "OrderedDict", &[])?;
    if !is_typed {
        writer.value(&Value::DType(dtype))?;
    }
    writer.raw(b"tR");
    Ok(())
}
