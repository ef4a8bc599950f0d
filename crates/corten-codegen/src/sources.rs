//! What the generators read: declarations and the parts of hand-written code they refer to.

use crate::formula::Functions;
use crate::formula::pointwise::Vocabulary;
use crate::registry::{Location, Mistake, Registry};
use std::path::Path;

/// The registry with what its expressions and formulas can call.
#[derive(Debug, Default)]
pub struct Sources {
    /// The operators.
    pub registry: Registry,
    /// The functions of pointwise expressions.
    pub vocabulary: Vocabulary,
    /// The functions of gradient formulas.
    pub functions: Functions,
}

/// The directory of the declarations, below the root of the repository.
pub(crate) const OPS: &str = "ops";
/// The source of the vocabulary of pointwise expressions.
pub(crate) const EXPR: &str = "crates/corten-cpu/src/vec/expr.rs";
/// The operators that the CPU declares not to have.
pub(crate) const CPU_MISSING: &str = "crates/corten-cpu/missing.toml";
/// The crate of the functions of gradient formulas.
const AUTOGRAD: &str = "crates/corten-autograd/src";
/// The sources of the functions of gradient formulas.
pub(crate) const FORMULAS: &str = "crates/corten-autograd/src/formulas";

impl Sources {
    /// Reads everything below the root of the repository; declarations with mistakes are left
    /// out.
    ///
    /// # Errors
    /// A source that is not Rust.
    pub fn read_sound(root: &Path) -> Result<Self, Vec<Mistake>> {
        let registry = Registry::read_sound(&root.join(OPS)).0;
        Ok(Self { registry, vocabulary: vocabulary(root)?, functions: functions(root)? })
    }
}

/// The vocabulary of pointwise expressions.
pub(crate) fn vocabulary(root: &Path) -> Result<Vocabulary, Vec<Mistake>> {
    let text = std::fs::read_to_string(root.join(EXPR)).unwrap_or_default();
    Vocabulary::read(&text).map_err(|message| vec![trouble(EXPR, message)])
}

/// The functions of gradient formulas.
pub(crate) fn functions(root: &Path) -> Result<Functions, Vec<Mistake>> {
    Functions::read(&root.join(AUTOGRAD)).map_err(|message| vec![trouble(FORMULAS, message)])
}

fn trouble(file: &str, message: String) -> Mistake {
    Mistake {
        location: Location { file: file.to_owned(), line: 1 },
        schema: String::new(),
        message,
    }
}
