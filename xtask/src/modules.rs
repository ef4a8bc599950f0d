//! `modules`: docs/modules.md, PyTorch's modules, losses, optimizers, schedules and files beside those of the Python
//! package and of Rust.

use crate::{Outcome, root, training};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/modules.md";
/// PyTorch's names, one a line.
const NAMES: &str = "tests/goldens/module_names.txt";
const PYTHON: [&str; 2] = ["python/corten/nn/modules", "python/corten/nn/parallel"];
const RUST: &str = "crates/corten-nn/src";

const HEAD: &str = "\
# Modules, optimizers and files in both languages

PyTorch's, those of the Python package, and those of Rust. Rust writes acronyms as words: `LSTM` is `Lstm`. What is
printed and the names in state dicts are PyTorch's.

`cargo xtask modules` writes these tables from the sources of both.

## Modules and losses

Python: `corten.nn`; Rust: `corten::nn`.

| PyTorch | Python | Rust |
|---|---|---|
";

/// Why Rust has no type of a name.
const REASONS: [(&str, &str); 6] = [
    ("Container", "an empty class that PyTorch has deprecated"),
    (
        "DataParallel",
        "copies modules between devices in threads of Python; PyTorch advises against it",
    ),
    ("NLLLoss2d", "an older name of `NLLLoss`"),
    ("RNNBase", "a base class; `Rnn`, `Gru` and `Lstm` share their code without one"),
    ("RNNCellBase", "a base class"),
    ("SyncBatchNorm", "needs processes that exchange statistics"),
];

/// Writes the page.
pub(crate) fn run() -> Outcome {
    fs::write(root().join(PAGE), page()?).map_err(|error| format!("{PAGE}: {error}"))
}

/// What is wrong with the page that is there.
pub(crate) fn complaint() -> Option<String> {
    let found = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    match page() {
        Ok(page) if page == found => None,
        Ok(_) => Some(format!("{PAGE}: not what `cargo xtask modules` writes")),
        Err(message) => Some(message),
    }
}

fn page() -> Result<String, String> {
    let names = read(&root().join(NAMES))?;
    let (python, rust) = (python_classes()?, rust_types()?);
    let reasons = BTreeMap::from(REASONS);
    let mut page = HEAD.to_owned();
    for name in names.lines() {
        let type_name = rust_name(name);
        let of_rust = match (rust.contains(&type_name), reasons.get(name)) {
            (true, None) => format!("`{type_name}`"),
            (false, Some(reason)) => format!("– ({reason})"),
            (true, Some(_)) => return Err(format!("{name}: there, and with a reason not to be")),
            (false, None) => return Err(format!("{name}: neither in {RUST} nor with a reason")),
        };
        if !python.contains(name) {
            return Err(format!("{name}: not in the Python package"));
        }
        page.push_str(&format!("| `{name}` | `corten.nn.{name}` | {of_rust} |\n"));
    }
    page.push_str(&training::sections()?);
    Ok(page)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The files below a folder with this end.
pub(crate) fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, end)?);
        } else if path.extension().is_some_and(|extension| extension == end) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The classes of the Python package's modules.
fn python_classes() -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for folder in PYTHON {
        for file in files(&root().join(folder), "py")? {
            let text = read(&file)?;
            let classes = text.lines().filter_map(|line| line.strip_prefix("class "));
            found.extend(
                classes.filter_map(|rest| rest.split(['(', ':']).next()).map(str::to_owned),
            );
        }
    }
    Ok(found)
}

/// The types of the Rust crate: those of items, and those that its macros are called with.
fn rust_types() -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for file in files(&root().join(RUST), "rs")? {
        let text = read(&file)?;
        let mut in_call = false;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("pub struct ") {
                found.extend(words(rest).next().map(str::to_owned));
            }
            let begins =
                !line.starts_with(' ') && line.contains(['!']) && line.contains(['(', '{']);
            in_call |= begins && !line.starts_with("macro_rules!") && !line.starts_with('/');
            if in_call
                && !line.trim_start().starts_with("//")
                && !line.trim_start().starts_with('#')
            {
                let types = words(line).filter(|word| word.starts_with(char::is_uppercase));
                found.extend(types.map(str::to_owned));
            }
            in_call &= !(line.starts_with([')', '}']) || begins && line.ends_with(");"));
        }
    }
    Ok(found)
}

pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// PyTorch's name with its acronyms as words: `BCEWithLogitsLoss` as `BceWithLogitsLoss`.
pub(crate) fn rust_name(name: &str) -> String {
    // Words of mixed letters that count as one.
    let name = name.replace("PReLU", "PRelu").replace("RReLU", "RRelu").replace("ReLU", "Relu");
    let name = name.replace("SiLU", "Silu");
    let letters: Vec<char> = name.chars().collect();
    let is_upper = |i: usize| letters.get(i).is_some_and(|c: &char| c.is_uppercase());
    let is_lower = |i: usize| letters.get(i).is_some_and(|c: &char| c.is_lowercase());
    let mut made = String::new();
    for (i, letter) in letters.iter().enumerate() {
        // The last of several capitals begins the next word, unless the word ends there.
        let inside = i > 0 && is_upper(i - 1) && is_upper(i) && !is_lower(i + 1);
        made.push(if inside { letter.to_ascii_lowercase() } else { *letter });
    }
    made
}

#[cfg(test)]
mod tests {
    use super::rust_name;

    #[test]
    fn acronyms_are_words() {
        for (name, expected) in [
            ("LSTMCell", "LstmCell"),
            ("BCEWithLogitsLoss", "BceWithLogitsLoss"),
            ("L1Loss", "L1Loss"),
            ("CrossMapLRN2d", "CrossMapLrn2d"),
            ("LPPool2d", "LpPool2d"),
            ("ReLU6", "Relu6"),
            ("LeakyReLU", "LeakyRelu"),
            ("PReLU", "PRelu"),
            ("SiLU", "Silu"),
            ("GELU", "Gelu"),
            ("Conv2d", "Conv2d"),
            ("MultiLabelSoftMarginLoss", "MultiLabelSoftMarginLoss"),
        ] {
            assert_eq!(rust_name(name), expected);
        }
    }
}
