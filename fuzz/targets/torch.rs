//! Any bytes are a file of PyTorch or an error, and what is read of a file lies within it.
//!
//! Pieces become an archive: the first its pickle, the second its byte order, the others the data of its storages.

#![no_main]

mod built;
#[allow(dead_code)]
#[path = "../../crates/corten/tests/all/mutations/zips.rs"]
mod zips;

use corten_io::torch::{LoadOptions, UnknownClasses, load_bytes};
use corten_ops::ErrorKind;
use libfuzzer_sys::fuzz_target;

fn archive(pieces: &[&[u8]]) -> Vec<u8> {
    let name = |at: usize| match at {
        0 => "archive/data.pkl".to_owned(),
        1 => "archive/byteorder".to_owned(),
        _ => format!("archive/data/{}", at - 2),
    };
    let records = pieces.iter().enumerate().take(40);
    zips::write(&records.map(|(at, bytes)| (name(at), bytes.to_vec())).collect())
}

fn check(bytes: &[u8]) {
    let unknown = match bytes.len() % 2 {
        0 => UnknownClasses::Refuse,
        _ => UnknownClasses::Keep,
    };
    match load_bytes(bytes, LoadOptions { unknown, ..Default::default() }) {
        Ok(value) => {
            for (_, tensor) in value.tensors() {
                if tensor.device().is_cpu() && tensor.numel() < 1 << 12 {
                    let _ = tensor.to_vec::<f64>();
                }
            }
        }
        Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
    }
}

fuzz_target!(init: {
    // Nothing else refers to the crate that registers kernels.
    corten::init().unwrap_or_else(|error| panic!("{error}"));
}, |bytes: &[u8]| {
    match built::pieces(bytes) {
        Some(pieces) => check(&archive(&pieces)),
        None => check(bytes),
    }
});
