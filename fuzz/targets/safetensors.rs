//! Any bytes are a safetensors file or an error, and what is read of a file lies within it.
//!
//! Of pieces the first is the header and the second the data.

#![no_main]

mod built;

use corten_io::safetensors;
use corten_ops::ErrorKind;
use libfuzzer_sys::fuzz_target;

fn check(bytes: &[u8]) {
    let tensors = match safetensors::read(bytes) {
        Ok(tensors) => tensors,
        Err(error) => return assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
    };
    for (name, tensor) in tensors {
        assert!(tensor.nbytes() <= bytes.len(), "{name} is larger than its file");
        if tensor.dtype().is_floating_point() || tensor.dtype().is_integral(true) {
            let _ = tensor.to_vec::<f64>();
        }
    }
}

fuzz_target!(init: {
    // Nothing else refers to the crate that registers kernels.
    corten::init().unwrap_or_else(|error| panic!("{error}"));
}, |bytes: &[u8]| {
    let Some(pieces) = built::pieces(bytes) else { return check(bytes) };
    let Some(header) = pieces.first() else { return };
    let length = (header.len() as u64).to_le_bytes();
    check(&[&length, *header, pieces.get(1).copied().unwrap_or_default()].concat());
});
