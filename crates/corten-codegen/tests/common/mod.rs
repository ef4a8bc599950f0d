//! What the tests of this crate share.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every `aten::` schema that PyTorch registers (made by tests/goldens/make/schemas.py).
pub fn torch_schemas() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("tests/goldens/schemas.txt")).unwrap();
    text.lines().map(str::to_owned).collect()
}
