//! Any bytes are a safetensors file or an error, and what is read of a file lies within it.

#![no_main]

use corten_io::safetensors::Opened;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let path = std::env::temp_dir().join(format!("corten-fuzz-{}.safetensors", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return Corpus::Reject;
    }
    let Ok(file) = Opened::new(&path) else { return Corpus::Keep };
    for name in file.names().into_iter().flatten() {
        let Ok(tensor) = file.tensor(&name) else { continue };
        assert!(tensor.nbytes() <= bytes.len(), "{name} is larger than its file");
        if tensor.dtype().is_floating_point() || tensor.dtype().is_integral(true) {
            let _ = tensor.to_vec::<f64>();
        }
    }
    Corpus::Keep
});
