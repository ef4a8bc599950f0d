//! Any bytes are a GGUF file or an error, and what is read of a file lies within it.

#![no_main]

use corten_io::gguf::Opened;
use corten_ops::ErrorKind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: {
    // Nothing else refers to the crate that registers kernels.
    corten::init().unwrap_or_else(|error| panic!("{error}"));
}, |bytes: &[u8]| {
    let file = match Opened::from_bytes(bytes) {
        Ok(file) => file,
        Err(error) => return assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
    };
    for info in file.tensors().iter().take(64) {
        assert!(info.nbytes() <= bytes.len(), "{} is larger than its file", info.name);
        match file.tensor(&info.name) {
            Ok(tensor) if tensor.numel() < 1 << 12 => drop(tensor.to_vec::<f64>()),
            Ok(_) => {}
            Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
        }
    }
});
