//! Any bytes are an array of NumPy, an archive of arrays, or an error.
//!
//! Pieces are headers and data by turns: each pair is an array, and all of them together an archive.

#![no_main]

mod built;
#[allow(dead_code)]
#[path = "../../crates/corten/tests/all/mutations/zips.rs"]
mod zips;

use corten_io::npy;
use corten_ops::{ErrorKind, Tensor};
use libfuzzer_sys::fuzz_target;

fn check(read: corten_ops::Result<Vec<Tensor>>) {
    match read {
        Ok(tensors) => {
            for tensor in tensors.iter().filter(|tensor| tensor.numel() < 1 << 12) {
                if let Err(error) = tensor.to_vec::<f64>() {
                    assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
                }
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Value, "{error}"),
    }
}

fn array(pair: &[&[u8]]) -> Vec<u8> {
    let length = (pair[0].len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], pair[0], pair.get(1).copied().unwrap_or_default()].concat()
}

fn check_archive(bytes: &[u8]) {
    check(npy::read_npz(bytes).map(|all| all.into_iter().map(|(_, tensor)| tensor).collect()));
}

fuzz_target!(init: {
    // Nothing else refers to the crate that registers kernels.
    corten::init().unwrap_or_else(|error| panic!("{error}"));
}, |bytes: &[u8]| {
    let Some(pieces) = built::pieces(bytes) else {
        check(npy::read(bytes).map(|tensor| vec![tensor]));
        return check_archive(bytes);
    };
    let arrays: Vec<Vec<u8>> = pieces.chunks(2).map(array).collect();
    arrays.iter().for_each(|bytes| check(npy::read(bytes).map(|tensor| vec![tensor])));
    let named = arrays.into_iter().enumerate().take(20);
    check_archive(&zips::write(&named.map(|(at, bytes)| (format!("{at}.npy"), bytes)).collect()));
});
