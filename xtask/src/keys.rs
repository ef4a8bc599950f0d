//! `keys`: ops/README.md, the table of the keys of an operator's block, from the structure that reads them.

use crate::{Outcome, root};

/// Where the keys are declared, each with its documentation.
const SOURCE: &str = "crates/corten-codegen/src/registry/file.rs";
const PAGE: &str = "ops/README.md";

const HEAD: &str = "\
# The operator registry

One file per family, one block `[[op]]` per operator; docs/ADDING.md says how to add one, and `cargo xtask show X`
prints everything that follows from a block. A file may begin with `feature = \"fft\"` (kernels that are in builds
with that feature only) and `cost = \"product\"` (for blocks that say nothing else).

`cargo xtask keys` writes this table from `corten-codegen/src/registry/file.rs`.

| key | meaning |
|---|---|
";

/// Writes the page.
pub(crate) fn run() -> Outcome {
    let page = page()?;
    std::fs::write(root().join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// What is wrong with the page that is there.
pub(crate) fn complaint() -> Option<String> {
    let found = std::fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    match page() {
        Ok(page) if page == found => None,
        Ok(_) => Some(format!("{PAGE}: not what `cargo xtask keys` writes")),
        Err(message) => Some(message),
    }
}

fn page() -> Result<String, String> {
    let text = std::fs::read_to_string(root().join(SOURCE))
        .map_err(|error| format!("{SOURCE}: {error}"))?;
    let (_, fields) = text.split_once("struct OpBlock {").ok_or("no `OpBlock` in the source")?;
    let (fields, _) = fields.split_once("\n}").ok_or("`OpBlock` does not end")?;
    let mut page = HEAD.to_owned();
    let mut doc = Vec::new();
    for line in fields.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("/// ") {
            doc.push(words);
        } else if let Some((name, _)) =
            line.strip_prefix("pub(super) ").and_then(|rest| rest.split_once(':'))
        {
            if doc.is_empty() {
                return Err(format!("{SOURCE}: the key `{name}` has no documentation"));
            }
            page.push_str(&format!("| `{name}` | {} |\n", doc.join(" ").replace('|', "\\|")));
            doc.clear();
        }
    }
    Ok(page)
}
