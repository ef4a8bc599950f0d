//! `tidy`: the rules of style that a program can check.

use crate::{Outcome, allocation, examples, facts, keys, layers, modules, names, root, words};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A file longer than this is two files.
const MAX_LINES: usize = 600;

/// Directories that hold nothing written by hand.
const SKIPPED: [&str; 7] = ["target", ".git", ".venv", "dist", "out", "node_modules", "goldens"];

/// Runs every rule and prints the totals.
pub(crate) fn run() -> Outcome {
    let mut files = Vec::new();
    collect(&root(), &mut files);
    files.sort();
    let mut complaints = Vec::new();
    let mut notes = Notes::default();
    let banned = words::Banned::read();
    let (mut lists, operators) = (facts::Lists::default(), facts::operators());
    let mut imports = layers::Imports::default();
    let mut totals: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for path in &files {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let shown = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        let lines = text.lines().count();
        let depth =
            if shown.starts_with("crates/") || shown.starts_with("python/") { 2 } else { 1 };
        let part = shown.split('/').take(depth).collect::<Vec<_>>().join("/");
        let total = totals.entry(part).or_default();
        *total = (total.0 + 1, total.1 + lines);
        complaints.extend(file(&shown, &text, lines));
        complaints.extend(banned.complaints(&shown, &text));
        notes.read(&shown, &text);
        imports.read(&shown, &text);
        lists.read(&shown, &text, &operators);
    }
    complaints.extend(notes.complaints());
    complaints.extend(keys::complaint());
    complaints.extend(modules::complaint());
    complaints.extend(names::complaint());
    complaints.extend(imports.complaints());
    complaints.extend(lists.complaint());
    for (part, (count, lines)) in &totals {
        println!("{part:36} {count:4} files {lines:7} lines");
    }
    let lines: usize = totals.values().map(|total| total.1).sum();
    println!("{:36} {:4} files {lines:7} lines", "total", files.len());
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) && !name.starts_with(".venv") {
                collect(&path, files);
            }
        } else if ["rs", "py", "toml", "md", "cu", "cuh", "pyi"]
            .iter()
            .any(|ending| path.extension().is_some_and(|found| found == *ending))
        {
            files.push(path);
        }
    }
}

fn file(shown: &str, text: &str, lines: usize) -> Vec<String> {
    let mut complaints = Vec::new();
    let source = shown.ends_with(".rs") || shown.ends_with(".py");
    if source && lines > MAX_LINES && !is_exempt(shown, text) {
        complaints.push(format!("{shown}: {lines} lines, more than {MAX_LINES}"));
    }
    for (i, line) in text.lines().enumerate() {
        for complaint in line_complaints(shown, line) {
            complaints.push(format!("{shown}:{}: {complaint}", i + 1));
        }
    }
    complaints.extend(allocation::complaints(shown, text));
    complaints.extend(examples::complaints(shown, text));
    if source && !text.is_empty() && !text.ends_with('\n') {
        complaints.push(format!("{shown}: no line break at the end"));
    }
    complaints
}

/// Tests and tables may be long. A table says so in its first lines.
fn is_exempt(shown: &str, text: &str) -> bool {
    let test = shown.contains("/tests/") || shown.starts_with("tests/");
    let name = shown.rsplit('/').next().unwrap_or(shown);
    let test = test || name == "tests.rs" || name.starts_with("test_");
    test || text.lines().take(10).any(|line| line.contains("tidy: table"))
}

fn line_complaints(shown: &str, line: &str) -> Vec<&'static str> {
    let mut complaints = Vec::new();
    // Spelled in parts, so that this file does not hold what it forbids.
    let unfinished =
        [["TO", "DO"], ["FIX", "ME"], ["X", "XX:"], ["HA", "CK:"], ["unimple", "mented!("]]
            .map(|parts| parts.concat());
    if unfinished.iter().any(|word| line.contains(word.as_str())) {
        complaints.push("unfinished: do it, or leave it out");
    }
    let machine = [["/", "root/"], ["/", "home/"], ["/wo", "rk/"]].map(|parts| parts.concat());
    if machine.iter().any(|path| line.contains(path.as_str())) {
        complaints.push("a path of one machine");
    }
    if line.ends_with([' ', '\t']) && !shown.ends_with(".md") {
        complaints.push("blanks at the end of the line");
    }
    if shown.ends_with(".rs") && line.contains('\t') {
        complaints.push("a tab");
    }
    complaints
}

/// Names of notes: where each is defined and where it is referred to.
#[derive(Default)]
struct Notes {
    defined: BTreeMap<String, String>,
    referred: BTreeSet<(String, String)>,
    twice: Vec<String>,
}

impl Notes {
    fn read(&mut self, shown: &str, text: &str) {
        let code = [".rs", ".py", ".cu", ".cuh"].iter().any(|ending| shown.ends_with(ending));
        if !code || shown.ends_with("tidy.rs") {
            return;
        }
        let mut rest = text;
        while let Some(at) = rest.find("Note [") {
            let before = rest[..at].trim_end();
            rest = &rest[at + "Note [".len()..];
            let Some(end) = rest.find(']').filter(|end| *end < 80) else { continue };
            let name = rest[..end].to_owned();
            let refers =
                ["See", "see", "(see", "and", "of"].iter().any(|word| before.ends_with(word));
            if refers || before.ends_with('"') {
                self.referred.insert((name, shown.to_owned()));
            } else if let Some(other) = self.defined.insert(name.clone(), shown.to_owned()) {
                self.twice.push(format!("{shown}: Note [{name}] is also in {other}"));
            }
        }
    }

    fn complaints(self) -> Vec<String> {
        let undefined = self.referred.iter().filter(|(name, _)| !self.defined.contains_key(name));
        let undefined = undefined.map(|(name, file)| format!("{file}: there is no Note [{name}]"));
        undefined.chain(self.twice.iter().cloned()).collect()
    }
}
