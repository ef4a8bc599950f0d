//! Any bytes are an array of NumPy, an archive of arrays, or an error.

#![no_main]

use corten_io::npy;
use corten_ops::{ErrorKind, Tensor};
use libfuzzer_sys::fuzz_target;

fn check(read: corten_ops::Result<Vec<Tensor>>) {
    match read {
        Ok(tensors) => {
            for tensor in tensors.iter().filter(|tensor| tensor.numel() < 1 << 16) {
                assert!(tensor.to_vec::<f64>().is_ok());
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Value, "{error}"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(npy::read(bytes).map(|tensor| vec![tensor]));
    check(npy::read_npz(bytes).map(|all| all.into_iter().map(|(_, tensor)| tensor).collect()));
});
