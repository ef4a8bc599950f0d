//! Any bytes are a file of PyTorch or an error, and what is read of a file lies within it.

#![no_main]

use corten_io::torch::{LoadOptions, UnknownClasses, load_bytes};
use corten_ops::ErrorKind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for unknown in [UnknownClasses::Refuse, UnknownClasses::Keep] {
        match load_bytes(bytes, LoadOptions { unknown, ..Default::default() }) {
            Ok(value) => {
                for (_, tensor) in value.tensors() {
                    if tensor.device().is_cpu() && tensor.numel() < 1 << 16 {
                        let _ = tensor.to_vec::<f64>();
                    }
                }
            }
            Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{error}"),
        }
    }
});
