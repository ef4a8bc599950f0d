//! Names that docs/GLOSSARY.md says are not used: of files, modules, types and functions.

use crate::root;
use std::collections::BTreeSet;

const PAGE: &str = "docs/GLOSSARY.md";
const SECTION: &str = "## Names that are not used";
const KEYWORDS: [&str; 7] = ["struct", "enum", "trait", "type", "mod", "fn", "macro_rules!"];

/// The rows of the section's table, each with names in backquotes in its first column.
#[derive(Default)]
pub(crate) struct Banned {
    /// Names that nothing is defined by.
    defined: BTreeSet<String>,
    /// Words that are not used in a folder, with that folder.
    used: Vec<(String, String)>,
}

impl Banned {
    /// Reads the page.
    pub(crate) fn read() -> Self {
        Self::parse(&std::fs::read_to_string(root().join(PAGE)).unwrap_or_default())
    }

    fn parse(page: &str) -> Self {
        let mut banned = Self::default();
        let section = page.split_once(SECTION).map_or("", |(_, section)| section);
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let columns: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
            let [names, _, place] = columns[..] else { continue };
            let names = names.split(',').map(|name| name.trim().trim_matches('`').to_owned());
            match place.strip_prefix('`') {
                None => banned.defined.extend(names),
                Some(folder) => {
                    let folder = folder.trim_end_matches('`');
                    banned.used.extend(names.map(|name| (folder.to_owned(), name)));
                }
            }
        }
        banned
    }

    /// What is wrong with a file's name, with the names that it defines, and with its words.
    pub(crate) fn complaints(&self, shown: &str, text: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        let stem = shown.rsplit('/').next().unwrap_or(shown).split('.').next().unwrap_or_default();
        let words = stem.split('_').filter(|word| self.defined.contains(*word));
        complaints.extend(
            words.map(|word| format!("{shown}: `{word}` is no name for a file, see {PAGE}")),
        );
        for (i, line) in text.lines().enumerate() {
            let defined = defined(line).filter(|name| self.defined.contains(*name));
            let defined = defined.filter(|_| shown.ends_with(".rs"));
            for word in defined.into_iter().chain(self.words(shown, line)) {
                complaints.push(format!("{shown}:{}: `{word}` is not used, see {PAGE}", i + 1));
            }
        }
        complaints
    }

    /// The words of a line of a file that are not used in its folder.
    fn words<'a>(&'a self, shown: &str, line: &str) -> impl Iterator<Item = &'a str> {
        let here = self.used.iter().filter(move |(folder, _)| shown.starts_with(folder.as_str()));
        here.map(|(_, word)| word.as_str()).filter(move |word| has_word(line, word))
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
    use super::Banned;

    #[test]
    fn whole_words_are_banned_where_the_table_says() {
        let table =
            "## Names that are not used\n\n| `Job`, `Way` | others | `crates/corten-gemm/` |\n";
        let banned = Banned::parse(table);
        let words = |shown, line| banned.words(shown, line).collect::<Vec<_>>();
        assert_eq!(words("crates/corten-gemm/src/a.rs", "pub struct Job;"), ["Job"]);
        assert!(
            words("crates/corten-gemm/src/a.rs", "struct Jobs; let a_Way = Waypoint;").is_empty()
        );
        assert!(words("crates/corten-cpu/src/a.rs", "pub struct Job;").is_empty());
    }
}
