//! What a backend declares not to have: `missing.toml` beside its `Cargo.toml`.

use super::{Body, Location, Mistake, Registry};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The operators without a kernel, each with the reason.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Names with overload, such as `pow.Tensor_Tensor`.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
}

/// Reads the file of a backend; nothing is missing where there is none.
///
/// # Errors
/// When the file is not what it should be.
pub fn missing(file: &Path) -> Result<Missing, Vec<Mistake>> {
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(Missing::default()) };
    toml::from_str(&text).map_err(|error| {
        let before = &text[..error.span().map_or(0, |span| span.start).min(text.len())];
        let location =
            Location { file: file.display().to_string(), line: 1 + before.matches('\n').count() };
        vec![Mistake { location, schema: String::new(), message: error.message().to_owned() }]
    })
}

impl Registry {
    /// Drops what a backend does not have, from the registry of its own generated file.
    ///
    /// # Errors
    /// Names that do not exist or need no kernel.
    pub fn without_kernels(&mut self, missing: &Missing) -> Result<(), Vec<Mistake>> {
        let needed = |name: &String| {
            self.ops.iter().any(|op| {
                let kernel = op.is_iterator() || matches!(op.body, Body::Kernel { .. });
                kernel && op.schema.full_name() == *name
            })
        };
        let mistake = |name: &String| Mistake {
            location: Location { file: "missing.toml".to_owned(), line: 1 },
            schema: String::new(),
            message: format!("no operator `{name}` needs a kernel"),
        };
        let mistakes: Vec<Mistake> =
            missing.missing.keys().filter(|name| !needed(name)).map(mistake).collect();
        self.ops.retain(|op| !missing.missing.contains_key(&op.schema.full_name()));
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }
}
