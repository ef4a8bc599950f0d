//! Elements as bytes of files.

use corten_core::{DType, Device, Error, Result, Storage, err, try_vec};
use corten_ops::{Tensor, op};
use std::io::{ErrorKind, Read};

/// How much is read at once: it stays in the cache until it is copied to its place.
const PIECE: usize = 1 << 18;

/// A storage with the next bytes of a file.
///
/// # Errors
/// `Runtime` where the file ends before, `OutOfMemory`.
pub(crate) fn filled(file: &mut (impl Read + ?Sized), nbytes: usize) -> Result<Storage> {
    let storage = Storage::new(nbytes, Device::CPU)?;
    let mut piece = try_vec(0_u8, nbytes.min(PIECE))?;
    let mut at = 0;
    while at < nbytes {
        let piece = &mut piece[..PIECE.min(nbytes - at)];
        file.read_exact(piece).map_err(|error| unreadable(&error))?;
        storage.write_bytes(at, piece)?;
        at += piece.len();
    }
    Ok(storage)
}

/// What is wrong with data that cannot be read.
pub(crate) fn unreadable(error: &std::io::Error) -> Error {
    match error.to_string().as_str() {
        _ if error.kind() == ErrorKind::UnexpectedEof => err!(Runtime, "unexpected end of file"),
        // As the reader of zip files says it.
        "Invalid checksum" => err!(Runtime, "its checksum is wrong"),
        text => err!(Runtime, "{text}"),
    }
}

/// A storage with a copy of bytes.
pub(crate) fn copied(bytes: &[u8]) -> Result<Storage> {
    let storage = Storage::new(bytes.len(), Device::CPU)?;
    storage.write_bytes(0, bytes)?;
    Ok(storage)
}

/// The elements of a tensor in row-major order as bytes, wherever it is.
pub(crate) fn of(tensor: &Tensor) -> Result<Vec<u8>> {
    let plain = op::resolve_neg(&op::resolve_conj(&op::detach(tensor)?)?)?;
    let plain = op::to_device(&plain, Device::CPU, plain.dtype(), false, false, None)?;
    op::view_dtype(&op::flatten_using_ints(&plain, 0, -1)?, DType::UInt8)?.to_vec()
}

/// Turns elements of the other byte order round.
pub(crate) fn swap(storage: &Storage, dtype: DType) -> Result<()> {
    let width = if dtype.is_complex() { dtype.itemsize() / 2 } else { dtype.itemsize() };
    if width > 1 {
        let mut bytes = storage.read_bytes()?;
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        storage.write_bytes(0, &bytes)?;
    }
    Ok(())
}

/// Bytes of truth values are 0 or 1, whatever a file holds.
pub(crate) fn only_truths(storage: &Storage) -> Result<()> {
    let mut bytes = storage.read_bytes()?;
    if bytes.iter().any(|&byte| byte > 1) {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        storage.write_bytes(0, &bytes)?;
    }
    Ok(())
}
