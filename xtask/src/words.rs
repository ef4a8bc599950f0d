//! `tidy`: words that `docs/GLOSSARY.md` has replaced by the field's own.

/// Where words are banned, and the words, as whole identifiers.
const BANNED: [(&str, &[&str]); 1] = [(
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
    let rows = BANNED.iter().filter(|(folder, _)| shown.starts_with(folder));
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
