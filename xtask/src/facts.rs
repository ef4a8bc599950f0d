//! `tidy`: facts about operators stand in their blocks of `ops/*.toml`, not in lists of their names.
//!
//! A list is three string literals or more in a row, most of them names of operators. Looked at are the sources of
//! the crates, the binding and the Python package. Not looked at is what computes operators, since a name there
//! stands beside its computation: kernels and loops of the CPU, rules of batches and of distributed tensors, the
//! formula language, decompositions, functions of symbolic numbers, and the Python modules that are functions of that
//! name; nor tests, documentation and lists of public names (`__all__`).

use crate::root;
use corten_codegen::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};

/// At most so many names stand in such lists.
const BOUND: usize = 60;
const LOOKED_AT: [&str; 2] = ["crates/", "python/"];
const COMPUTES: [&str; 15] = [
    "crates/corten-cpu/",
    "crates/corten-ops/src/batched/rules/",
    "crates/corten-ops/src/sparse/",
    "crates/corten-codegen/src/formula/",
    "crates/corten-autograd/src/formulas/",
    "python/corten/_decomp/",
    "python/corten/_symbolic_",
    "python/corten/fx/experimental/",
    "python/corten/nn/",
    "python/corten/distributed/tensor/_ops/",
    "python/corten/onnx/_translations/",
    "python/corten/sparse/",
    "python/corten/array_api/",
    "python/corten/_absent/",
    "python/tools/",
];

/// The names of operators that stand in lists, by file.
#[derive(Default)]
pub(crate) struct Lists(BTreeMap<String, Vec<String>>);

impl Lists {
    /// Reads a file.
    pub(crate) fn read(&mut self, shown: &str, text: &str, operators: &BTreeSet<String>) {
        let source = shown.ends_with(".rs") || shown.ends_with(".py");
        let test = shown.contains("/tests/") || shown.ends_with("tests.rs");
        if !source
            || test
            || !LOOKED_AT.iter().any(|folder| shown.starts_with(folder))
            || COMPUTES.iter().any(|folder| shown.starts_with(folder))
        {
            return;
        }
        let found = listed(&code_of(shown, text), operators);
        if !found.is_empty() {
            self.0.insert(shown.to_owned(), found);
        }
    }

    /// Prints the lists, and complains about too many names.
    pub(crate) fn complaint(&self) -> Option<String> {
        let total: usize = self.0.values().map(Vec::len).sum();
        for (file, names) in &self.0 {
            println!("{:4} names in lists: {file}: {}", names.len(), names.join(" "));
        }
        println!("{total:4} names of operators in lists, at most {BOUND}");
        (total > BOUND).then(|| {
            format!(
                "{total} names of operators in lists, more than {BOUND}: use keys of ops/*.toml"
            )
        })
    }
}

/// All names of operators, their in-place forms included.
pub(crate) fn operators() -> BTreeSet<String> {
    let (registry, _) = Registry::read_sound(&root().join("ops"));
    let forms =
        registry.ops.iter().flat_map(|op| op.forms().map(|(_, schema)| schema.name.clone()));
    forms.collect()
}

/// A file without comments, documentation, tests and lists of public names.
fn code_of(shown: &str, text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut code = String::new();
    let (mut documented, mut public) = (false, false);
    for line in text.lines() {
        let trimmed = line.trim_start();
        if shown.ends_with(".py") {
            if trimmed.matches("\"\"\"").count() == 1 {
                documented = !documented;
                continue;
            }
            public |= trimmed.starts_with("__all__");
        }
        let skipped = documented || public || trimmed.starts_with("//") || trimmed.starts_with('#');
        public &= !trimmed.ends_with([']', ')', '}']);
        if !skipped {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The names of operators in rows of literals.
fn listed(code: &str, operators: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut row: Vec<&str> = Vec::new();
    // Odd pieces lie between quotation marks.
    for (i, piece) in code.split('"').enumerate() {
        if i % 2 == 1 {
            row.push(piece);
        } else if i > 0 && !is_separator(piece) {
            found.extend(names_of(&row, operators));
            row.clear();
        }
    }
    found.extend(names_of(&row, operators));
    found
}

fn is_separator(piece: &str) -> bool {
    piece.chars().all(|c| c.is_whitespace() || matches!(c, ',' | '|'))
}

/// The operators of a row, where it is a list of them.
fn names_of(row: &[&str], operators: &BTreeSet<String>) -> Vec<String> {
    let name = |literal: &&str| {
        let bare = literal.strip_prefix("aten::").unwrap_or(literal);
        let bare = bare.split('.').next().unwrap_or_default();
        operators.contains(bare).then(|| bare.to_owned())
    };
    let names: Vec<String> = row.iter().filter_map(name).collect();
    if names.len() >= 3 && names.len() * 2 >= row.len() { names } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let operators = ["add", "mul", "sum", "add_"].map(str::to_owned).into();
        listed(&code_of("python/corten/x.py", text), &operators)
    }

    #[test]
    fn lists_are_found() {
        assert_eq!(
            found("x = (\"add\", \"aten::mul.Tensor\",\n    \"add_\")"),
            ["add", "mul", "add_"]
        );
        assert_eq!(found("match name { \"add\" | \"mul\" | \"sum\" => 1 }").len(), 3);
    }

    #[test]
    fn single_names_and_documentation_are_not() {
        assert!(found("call(\"add\"); call(\"mul\"); call(\"sum\")").is_empty());
        assert!(found("# \"add\", \"mul\", \"sum\"").is_empty());
        assert!(found("__all__ = [\n    \"add\", \"mul\", \"sum\",\n]").is_empty());
        assert!(found("\"\"\"Text.\n\n\"add\", \"mul\", \"sum\"\n\"\"\"").is_empty());
        assert!(found("(\"add\", \"mul\", \"sum\", \"a\", \"b\", \"c\", \"d\")").is_empty());
    }
}
