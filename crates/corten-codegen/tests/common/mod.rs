//! What the tests of this crate share.

#![allow(dead_code, unreachable_pub, reason = "every test file compiles this by itself")]
#![allow(clippy::unwrap_used, reason = "a test")]

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

/// What the fixtures declare.
#[cfg(feature = "generate")]
pub fn fixtures() -> corten_codegen::Sources {
    use corten_codegen::Sources;
    use corten_codegen::formula::{Functions, pointwise::Vocabulary};
    use corten_codegen::registry::Registry;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = |name: &str| std::fs::read_to_string(here.join(name)).unwrap();
    let registry = Registry::read(&here.join("ops"))
        .unwrap_or_else(|mistakes| panic!("{}", listed(&mistakes)));
    let mut functions = Functions::default();
    functions.source(&text("formulas.rs"), "formulas::all").unwrap();
    Sources { registry, vocabulary: Vocabulary::read(&text("expr.rs")).unwrap(), functions }
}

/// Mistakes one per line.
#[cfg(feature = "generate")]
pub fn listed(mistakes: &[corten_codegen::registry::Mistake]) -> String {
    mistakes.iter().map(|mistake| format!("{mistake}\n")).collect()
}
