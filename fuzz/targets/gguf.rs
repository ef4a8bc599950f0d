//! Any bytes are a GGUF file or an error, and what is read of a file lies within it.

#![no_main]

use corten_io::gguf::Opened;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let path = std::env::temp_dir().join(format!("corten-fuzz-{}.gguf", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return Corpus::Reject;
    }
    let Ok(file) = Opened::new(&path) else { return Corpus::Keep };
    for info in file.tensors() {
        assert!(info.nbytes() <= bytes.len(), "{} is larger than its file", info.name);
        if let Ok(tensor) = file.tensor(&info.name) {
            let _ = tensor.to_vec::<f64>();
        }
    }
    Corpus::Keep
});
