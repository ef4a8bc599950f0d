//! Which public types have an example.

/// The crates whose users are Rust programs.
const CRATES: [&str; 5] = [
    "crates/corten-core/src",
    "crates/corten-ops/src",
    "crates/corten-autograd/src",
    "crates/corten-nn/src",
    "crates/corten-data/src",
];

/// The public types of a source file whose documentation has no example.
pub(crate) fn complaints(shown: &str, text: &str) -> Vec<String> {
    if !CRATES.iter().any(|part| shown.starts_with(part)) {
        return Vec::new();
    }
    let (mut found, mut has_example) = (Vec::new(), false);
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() {
            has_example = false;
        } else if line.contains("```") || line.contains("example!(") {
            has_example = true;
        } else if let Some(name) = type_of(line) {
            if !has_example {
                found.push(format!(
                    "{shown}:{}: `{name}` has no example in its documentation",
                    i + 1
                ));
            }
            has_example = false;
        }
    }
    found
}

/// The name of the type that a line declares for everybody.
fn type_of(line: &str) -> Option<&str> {
    let declared = ["pub struct ", "pub enum ", "pub trait ", "pub union "];
    let rest = declared.iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}
