//! `tidy`: the layers of `corten-gemm`. A file imports from its own layer and from those below it, and no
//! file imports itself by way of others.

use std::collections::{BTreeMap, BTreeSet};

/// The crate whose files have layers, and its folders from the lowest layer to the highest.
const CRATE: &str = "crates/corten-gemm/src/";
const LAYERS: [&str; 5] = ["types", "simd", "pack", "kernel", "driver"];

/// Files and the files that they import, by paths within the crate and without the extension.
#[derive(Default)]
pub(crate) struct Imports {
    texts: BTreeMap<String, String>,
}

impl Imports {
    /// Keeps a file if it is one of the crate's.
    pub(crate) fn read(&mut self, shown: &str, text: &str) {
        let Some(file) = shown.strip_prefix(CRATE).and_then(|file| file.strip_suffix(".rs")) else {
            return;
        };
        self.texts.insert(file.to_owned(), text.to_owned());
    }

    /// Imports against the order of the layers, files outside them, and import cycles.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let graph: BTreeMap<&str, BTreeSet<&str>> = self
            .texts
            .iter()
            .map(|(file, text)| (file.as_str(), self.imports(file, text)))
            .collect();
        for (file, imports) in graph.iter().filter(|(file, _)| **file != "lib") {
            let Some(own) = layer(file) else {
                complaints.push(format!("{CRATE}{file}.rs: in none of the layers {LAYERS:?}"));
                continue;
            };
            for import in imports.iter().filter(|import| layer(import) > Some(own)) {
                complaints.push(format!("{CRATE}{file}.rs: imports {import}, of a higher layer"));
            }
            if reaches(&graph, file, file) {
                complaints.push(format!("{CRATE}{file}.rs: imports itself by way of other files"));
            }
        }
        complaints
    }

    /// The files that a text names by paths from `crate`, outside comments.
    fn imports(&self, own: &str, text: &str) -> BTreeSet<&str> {
        let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
        let code: String = code.collect::<Vec<_>>().join("\n");
        let mut found = BTreeSet::new();
        for path in code.split("crate::").skip(1) {
            let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let words: Vec<&str> = path[..end.unwrap_or(path.len())].split("::").collect();
            for depth in 1..=words.len() {
                let file = words[..depth].join("/");
                if let Some((file, _)) = self.texts.get_key_value(&file).filter(|_| file != own) {
                    found.insert(file.as_str());
                }
            }
        }
        found
    }
}

/// The place of a file's layer in their order.
fn layer(file: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| file.split('/').next() == Some(layer))
}

/// Whether one file imports another, directly or by way of others.
fn reaches(graph: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = graph[from].iter().copied().collect();
    while let Some(file) = open.pop() {
        if file == to {
            return true;
        }
        if seen.insert(file) {
            open.extend(graph[file].iter().copied());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{CRATE, Imports};

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let mut imports = Imports::default();
        files.iter().for_each(|(file, text)| imports.read(&format!("{CRATE}{file}.rs"), text));
        imports.complaints()
    }

    #[test]
    fn imports_follow_the_layers() {
        let types = ("types/view", "// use crate::driver::gemm::gemm;\npub struct View;");
        let driver = ("driver/gemm", "use crate::types::view::{View, part};");
        assert!(complaints(&[types, driver]).is_empty());
        let upward = ("types/view", "fn f() { crate::driver::gemm::gemm() }");
        let found = complaints(&[upward, ("driver/gemm", "")]);
        assert!(found.len() == 1 && found[0].contains("a higher layer"), "{found:?}");
        assert!(complaints(&[("other", "")])[0].contains("none of the layers"));
    }

    #[test]
    fn circles_are_found() {
        let files = [
            ("pack/a", "use crate::pack::b::B;"),
            ("pack/b", "use crate::pack::c;"),
            ("pack/c", "use crate::pack::a::A;"),
            ("kernel/d", "use crate::pack::a::A;"),
        ];
        let found = complaints(&files);
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
