//! Names that docs/GLOSSARY.md says are not used: of files, modules, types and functions.

use crate::root;
use std::collections::BTreeSet;

const PAGE: &str = "docs/GLOSSARY.md";
const SECTION: &str = "## Names that are not used";
const KEYWORDS: [&str; 7] = ["struct", "enum", "trait", "type", "mod", "fn", "macro_rules!"];

/// The names in backquotes of the first column of the section's table.
pub(crate) struct Banned(BTreeSet<String>);

impl Banned {
    /// Reads the page.
    pub(crate) fn read() -> Self {
        let page = std::fs::read_to_string(root().join(PAGE)).unwrap_or_default();
        let section = page.split_once(SECTION).map_or("", |(_, section)| section);
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
        let names = rows.flat_map(|(names, _)| names.split(',').map(str::trim));
        Self(names.map(|name| name.trim_matches('`').to_owned()).collect())
    }

    /// What is wrong with a file's name and with the names that it defines.
    pub(crate) fn complaints(&self, shown: &str, text: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        let stem = shown.rsplit('/').next().unwrap_or(shown).split('.').next().unwrap_or_default();
        let words = stem.split('_').filter(|word| self.0.contains(*word));
        complaints.extend(
            words.map(|word| format!("{shown}: `{word}` is no name for a file, see {PAGE}")),
        );
        if !shown.ends_with(".rs") {
            return complaints;
        }
        for (i, line) in text.lines().enumerate() {
            if let Some(name) = defined(line).filter(|name| self.0.contains(*name)) {
                complaints.push(format!("{shown}:{}: `{name}` is not used, see {PAGE}", i + 1));
            }
        }
        complaints
    }
}

/// The name that a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || ["unsafe", "const", "extern", "\"C\""].contains(word)
    });
    words.next().filter(|word| KEYWORDS.contains(word))?;
    let rest = words.next()?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    rest.get(..end)
}

/// Where words are banned, and the words, as whole identifiers.
const REPLACED: [(&str, &[&str]); 1] = [(
    "crates/corten-gemm/",
    &[
        "Ahead",
        "Apart",
        "ask_for",
        "CONFLICT",
        "FewSet",
        "Groups",
        "Job",
        "Kind",
        "Lines",
        "Little",
        "Lying",
        "MOST_ROWS",
        "Pair",
        "Panels",
        "put_turned",
        "Quad",
        "quads",
        "Room",
        "Scratch",
        "SLACK",
        "Strips",
        "TileSet",
        "turned",
        "Way",
        "Widened",
    ],
)];

/// The banned words of a line of a file.
pub(crate) fn banned(shown: &str, line: &str) -> Vec<&'static str> {
    let rows = REPLACED.iter().filter(|(folder, _)| shown.starts_with(folder));
    let words = rows.flat_map(|(_, words)| words.iter().copied());
    words.filter(|word| has_word(line, word)).collect()
}

/// Whether a line has a word between characters that are in no identifier.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(part_of_word) && !after.starts_with(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::banned;

    #[test]
    fn whole_words_are_banned_where_the_table_says() {
        assert_eq!(banned("crates/corten-gemm/src/a.rs", "pub struct Job;"), ["Job"]);
        assert!(
            banned("crates/corten-gemm/src/a.rs", "struct Jobs; let a_Way = Waypoint;").is_empty()
        );
        assert!(banned("crates/corten-cpu/src/a.rs", "pub struct Job;").is_empty());
    }
}
