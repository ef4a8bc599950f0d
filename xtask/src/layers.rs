//! `tidy`: the layers of crates. A file imports from its own layer and from those below it; in `corten-gemm` no
//! file imports itself by way of others.

use std::collections::{BTreeMap, BTreeSet};

/// A crate whose files have layers.
struct Layered {
    source: &'static str,
    /// Its folders from the lowest layer to the highest.
    layers: &'static [&'static str],
    /// Whether files of one layer may import each other in a circle.
    circles: bool,
}

const CRATES: [Layered; 2] = [
    Layered {
        source: "crates/corten-gemm/src/",
        layers: &["types", "simd", "pack", "kernel", "driver"],
        circles: false,
    },
    Layered {
        source: "crates/corten-cpu/src/",
        layers: &[
            "special",
            "vec",
            "parallel",
            "rows",
            "copy",
            "pointwise",
            "reduce",
            "gemm",
            "kernels",
        ],
        circles: true,
    },
];

/// The files of the crates, by crate and by path within it without the extension.
#[derive(Default)]
pub(crate) struct Imports {
    texts: [BTreeMap<String, String>; CRATES.len()],
}

impl Imports {
    /// Keeps a file if it is one of such a crate's.
    pub(crate) fn read(&mut self, shown: &str, text: &str) {
        for (layered, texts) in CRATES.iter().zip(&mut self.texts) {
            let file = shown.strip_prefix(layered.source);
            if let Some(file) = file.and_then(|file| file.strip_suffix(".rs")) {
                let file = file.strip_suffix("/mod").unwrap_or(file);
                texts.insert(file.to_owned(), text.to_owned());
            }
        }
    }

    /// Imports against the order of the layers, files outside them, and import cycles.
    pub(crate) fn complaints(&self) -> Vec<String> {
        CRATES
            .iter()
            .zip(&self.texts)
            .flat_map(|(layered, texts)| layered.complaints(texts))
            .collect()
    }
}

impl Layered {
    fn complaints(&self, texts: &BTreeMap<String, String>) -> Vec<String> {
        let Self { source, layers, circles } = self;
        let mut complaints = Vec::new();
        let imports = |(file, text): (&String, &String)| imports(texts, file, text);
        let graph: BTreeMap<&str, BTreeSet<&str>> =
            texts.iter().map(|entry| (entry.0.as_str(), imports(entry))).collect();
        for (file, imports) in graph.iter().filter(|(file, _)| **file != "lib") {
            let Some(own) = self.layer(file) else {
                complaints.push(format!("{source}{file}.rs: in none of the layers {layers:?}"));
                continue;
            };
            for import in imports.iter().filter(|import| self.layer(import) > Some(own)) {
                complaints.push(format!("{source}{file}.rs: imports {import}, of a higher layer"));
            }
            if !circles && reaches(&graph, file, file) {
                complaints.push(format!("{source}{file}.rs: imports itself by way of other files"));
            }
        }
        complaints
    }

    /// The place of a file's layer in their order.
    fn layer(&self, file: &str) -> Option<usize> {
        self.layers.iter().position(|layer| file.split('/').next() == Some(layer))
    }
}

/// The files that a text names by paths from `crate`, outside comments.
fn imports<'a>(texts: &'a BTreeMap<String, String>, own: &str, text: &str) -> BTreeSet<&'a str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    let code: String = code.collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for path in code.split("crate::").skip(1) {
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let words: Vec<&str> = path[..end.unwrap_or(path.len())].split("::").collect();
        for depth in 1..=words.len() {
            let file = words[..depth].join("/");
            if let Some((file, _)) = texts.get_key_value(&file).filter(|_| file != own) {
                found.insert(file.as_str());
            }
        }
    }
    found
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
    use super::{CRATES, Imports};

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let mut imports = Imports::default();
        let source = CRATES[0].source;
        files.iter().for_each(|(file, text)| imports.read(&format!("{source}{file}.rs"), text));
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
