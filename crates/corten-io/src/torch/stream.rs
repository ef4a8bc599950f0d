//! The stream of PyTorch before 1.6: pickles, and the data of storages behind them.

use super::load::{LoadOptions, parts_allowed};
use super::rebuild::{Found, Storages, TensorHost};
use crate::bytes::{only_truths, swap};
use crate::pickle;
use crate::value::Value;
use corten_core::{DType, Device, Result, Storage, bail, ensure, err, try_vec};
use corten_ops::op;
use std::cell::RefCell;
use std::collections::HashMap;

/// The first number of a file, 0x1950a86a20f9469cfc6c, as a pickle holds it.
pub(super) const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
pub(super) const PROTOCOL: i64 = 1001;

/// Reads a stream.
pub(super) fn read(bytes: &[u8], options: LoadOptions) -> Result<Value> {
    ensure!(
        bytes.get(257..262) != Some(b"ustar"),
        Runtime,
        "files in the legacy .tar format are not read: load the file with PyTorch and save it again"
    );
    let (magic, at) = without_tensors(bytes, 0)?;
    let is_magic = matches!(&magic, Value::BigInt(number) if number[..] == MAGIC);
    ensure!(is_magic, Runtime, "Invalid magic number; corrupt file?");
    let (protocol, at) = without_tensors(bytes, at)?;
    ensure!(matches!(protocol, Value::Int(PROTOCOL)), Runtime, "Invalid protocol version");
    let (info, at) = without_tensors(bytes, at)?;
    let Some(Value::Bool(is_little)) = info.get("little_endian") else {
        bail!(Runtime, "the file does not say its byte order")
    };
    read_object(bytes, at, options, !is_little)
}

/// A pickle without tensors.
fn without_tensors(bytes: &[u8], at: usize) -> Result<(Value, usize)> {
    let mut read = |_: &str, _: usize| bail!(Runtime, "unsupported persistent id encountered");
    let mut host = TensorHost::new(Storages::new(&mut read, false), LoadOptions::default());
    let (arena, root, at) = pickle::read(bytes, at, &mut host)?;
    Ok((arena.value(root, &mut (1 << 16))?, at))
}

fn read_object(bytes: &[u8], at: usize, options: LoadOptions, is_big: bool) -> Result<Value> {
    // Memory is reserved when a storage is asked for, and filled when its data come; a file cannot ask for more
    // than it has bytes.
    let reserved: RefCell<HashMap<String, Storage>> = RefCell::default();
    let mut room = bytes.len();
    let mut read = |key: &str, nbytes: usize| {
        let mut reserved = reserved.borrow_mut();
        if let Some(storage) = reserved.get(key) {
            ensure!(storage.nbytes() == nbytes, Runtime, "the storage {key:.80} has two sizes");
            return Ok(storage.clone());
        }
        let left = room.checked_sub(nbytes);
        room = left.ok_or_else(|| {
            err!(Runtime, "unexpected end of file: it is shorter than its storages")
        })?;
        let storage = Storage::from_vec(try_vec(0_u8, nbytes)?);
        reserved.insert(key.to_owned(), storage.clone());
        Ok(storage)
    };
    let here = LoadOptions { map_location: Some(Device::CPU), ..options };
    let mut host = TensorHost::new(Storages::new(&mut read, false), here);
    let (arena, root, at) = pickle::read(bytes, at, &mut host)?;
    let value = arena.value(root, &mut parts_allowed(at))?;
    let (keys, at) = without_tensors(bytes, at)?;
    fill(bytes, at, &keys, host.storages.found(), is_big)?;
    host.check_sparse()?;
    match options.map_location {
        Some(device) if !device.is_cpu() => moved(value, device),
        _ => Ok(value),
    }
}

/// Reads the data of all storages.
fn fill(bytes: &[u8], mut at: usize, keys: &Value, found: &[Found], is_big: bool) -> Result<()> {
    let keys = keys.elements().unwrap_or_default();
    let mut left: HashMap<&str, &Found> = found.iter().map(|one| (&*one.key, one)).collect();
    for key in keys {
        let Some(one) = key.text().and_then(|key| left.remove(key)) else {
            bail!(Runtime, "the file's list of storages is not that of its tensors")
        };
        let short = || err!(Runtime, "unexpected end of file within a storage");
        let head = bytes.get(at..at + 8).and_then(|head| <[u8; 8]>::try_from(head).ok());
        let count = i64::from_le_bytes(head.ok_or_else(short)?);
        let nbytes = one.storage.nbytes();
        ensure!(
            i128::from(count) * one.dtype.itemsize() as i128 == nbytes as i128,
            Runtime,
            "storage has wrong byte size: expected {nbytes} got {count} elements"
        );
        let data = bytes.get(at + 8..at + 8 + nbytes).ok_or_else(short)?;
        one.storage.write_bytes(0, data)?;
        at += 8 + nbytes;
        if is_big {
            swap(&one.storage, one.dtype)?;
        }
        if one.dtype == DType::Bool {
            only_truths(&one.storage)?;
        }
    }
    ensure!(left.is_empty(), Runtime, "the file's list of storages is not that of its tensors");
    Ok(())
}

/// The value with its tensors on another device.
fn moved(value: Value, device: Device) -> Result<Value> {
    let all = |values: Vec<Value>| -> Result<Vec<Value>> {
        values.into_iter().map(|value| moved(value, device)).collect()
    };
    Ok(match value {
        Value::Tensor(tensor) => {
            let there = op::to_device(&tensor, device, tensor.dtype(), false, false, None)?;
            Value::Tensor(there)
        }
        Value::Tuple(values) => Value::Tuple(all(values)?),
        Value::List(values) => Value::List(all(values)?),
        Value::Dict(entries) => {
            let entries = entries.into_iter().map(|(key, value)| Ok((key, moved(value, device)?)));
            Value::Dict(entries.collect::<Result<_>>()?)
        }
        other => other,
    })
}
